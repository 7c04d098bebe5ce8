//! From what a run measured to what people and programs read.
//!
//! Comes from [`crate::outcome`]; goes to a folder and to the terminal. Nothing here measures, and nothing here judges:
//! numbers come with their definition, and a number that is not there comes with the reason.

mod bandwidth;
mod latency;
mod lanes;
pub mod planned;
mod axis;
mod palette;
mod plot;
pub mod folder;
