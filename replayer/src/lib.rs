//! .

pub mod clock;
pub mod report;
