//! A model receiver: each trace is judged by the rules of the reliable connection (IBTA vol. 1, chapter 9), by a program that
//! knows nothing of how it was made.
//!
//! It reads what a trace folder shows to anyone: captures, and the two ends of each connection. Of each direction of a
//! connection it plays both ends. The responder takes what the receiver's port has received, and says of every answer whether
//! it may be given; the requester takes the answers, and says of every request whether it may be sent; and between two
//! captures nothing appears that was not sent, nothing early, nothing out of order.

mod draft;
mod exchange;
mod judge;
mod message;
mod path;
mod plans;
mod requester;
mod responder;
mod stories;
