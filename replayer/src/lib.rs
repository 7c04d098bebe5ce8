//! .

pub mod report;
