//! Tests of the whole, by property. Each outside judge is a program that knows nothing of this one.

mod program;

mod faults;
mod figures;
mod judges;
mod replay;
mod structure;
mod volumes;
