//! From a trace to traffic, from traffic to measurements, from measurements to a report.
//!
//! The modules stand in the order in which data flows: each uses only those above it.

pub mod clock;
pub mod stamp;
pub mod outcome;
pub mod measure;
pub mod engine;
pub mod net;
pub mod dataplane;
pub mod control;
pub mod lab;
pub mod report;
