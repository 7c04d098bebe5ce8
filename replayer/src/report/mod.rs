//! From what a run measured to what people and programs read.
//!
//! Comes from [`crate::outcome`]; goes to a folder and to the terminal. Nothing here measures, and nothing here judges:
//! numbers come with their definition, and a number that is not there comes with the reason.

mod bandwidth;
mod latency;
mod lanes;
pub mod planned;
pub mod summary;
pub mod environment;
pub mod rows;
mod hlog;
pub mod text;
mod axis;
mod palette;
mod plot;
mod html;
pub mod folder;

use hdrhistogram::Histogram;
use traces::id::NicId;
use traces::unit::Nanos;

use self::environment::RunManifest;
use self::lanes::Lanes;
use self::planned::PlannedCurve;
use self::rows::{FlowRow, IntervalRow};
use self::summary::Summary;

/// All that a run's folder says, in the form in which it is written.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was measured.
    pub summary: Summary,
    /// What is needed to reproduce it.
    pub manifest: RunManifest,
    /// Each flow.
    pub flows: Vec<FlowRow>,
    /// Each NIC and interval, in order of time.
    pub intervals: Vec<IntervalRow>,
    histograms: Vec<Tagged>,
    throughput: Vec<Curve>,
    planned: Option<PlannedCurve>,
    timeline: Option<Timeline>,
}

/// A histogram and its tag in the interval log.
#[derive(Clone, Debug)]
struct Tagged {
    tag: String,
    histogram: Histogram<u64>,
}

/// Payload of one NIC in bins of equal width from the start of the run.
#[derive(Clone, Debug)]
struct Curve {
    id: NicId,
    name: String,
    bin: Nanos,
    sent: Vec<u64>,
    received: Vec<u64>,
}

/// One step by rank, as planned and as measured, each from its own start.
#[derive(Clone, Debug)]
struct Timeline {
    step: u32,
    planned: Lanes,
    measured: Lanes,
}

#[cfg(test)]
mod sample;
