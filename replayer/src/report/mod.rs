//! From what a run measured to what people and programs read.
//!
//! Comes from [`crate::outcome`]; goes to a folder and to the terminal. Nothing here measures, and nothing here judges:
//! numbers come with their definition, and a number that is not there comes with the reason.

mod bandwidth;
mod latency;
mod directory;
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
mod collect;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use serde::Serialize;
use traces::id::NicId;
use traces::unit::Nanos;

use self::environment::RunManifest;
use self::folder::{RunFolder, RunFolderError};
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

impl Report {
    /// Writes the run's folder into the folder `above`, whole or not at all, and returns where it is.
    ///
    /// # Errors
    /// [`RunFolderError`] when it can not be written, or a folder of the run's name exists.
    pub fn write(&self, above: &Path) -> Result<PathBuf, RunFolderError> {
        let folder = RunFolder::create(above, &self.summary.run)?;
        folder.write("manifest.json", |output| json(output, &self.manifest))?;
        folder.write("summary.json", |output| json(output, &self.summary))?;
        folder.write("flows.csv", |output| rows::write_flows(output, &self.flows))?;
        folder.write("intervals.ndjson", |output| rows::write_intervals(output, &self.intervals))?;
        folder.write("latency.hlog", |output| {
            let histograms = self.histograms.iter().map(|one| (one.tag.as_str(), &one.histogram));
            hlog::write(output, self.summary.started_unix_ns, self.summary.duration_ns, histograms)
        })?;
        folder.write("report.html", |output| output.write_all(html::page(self).as_bytes()))?;
        folder.finish()
    }
}

fn json(output: &mut dyn Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *output, document)?;
    output.write_all(b"\n")
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
#[cfg(test)]
mod tests;
