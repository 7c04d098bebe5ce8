//! .

pub mod clock;
pub mod net;
pub mod report;
