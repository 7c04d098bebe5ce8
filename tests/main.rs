//! Tests of the whole, by property. Each outside judge is a program that knows nothing of this one.
#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

mod program;

mod captures;
mod faults;
mod figures;
mod golden;
mod judges;
mod matrix;
mod payloads;
mod receiver;
mod replay;
mod stories;
mod structure;
mod volumes;
mod wireshark;
