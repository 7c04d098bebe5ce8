//! The run's folder on disk: written beside its place and renamed when it is whole, so that a reader never sees half of it.
//!
//! ```text
//! run-20260314T150926Z-00c0ffee/
//!     manifest.json      what ran, where, with which versions
//!     summary.json       what was measured
//!     flows.csv          one row a flow
//!     intervals.ndjson   one line a NIC and interval
//!     latency.hlog       every histogram, for the HdrHistogram tools
//!     report.html        the same for people
//! ```
//!
//! This is the one module of the report that touches files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;
use traces::folder::{FolderError, TraceFolder};
use traces::unit::Nanos;

use super::planned::PlannedCurve;
use crate::outcome::{Mode, RunOutcome};

/// A run's folder in the making. Dropped before [`Self::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct RunFolder {
    place: PathBuf,
    partial: PathBuf,
    finished: bool,
}

/// Why a run's folder can not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunFolderError {
    /// The system refused.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Results of an earlier run stand there; they are never overwritten.
    #[error("{} exists, and results are not overwritten; choose another folder for runs", path.display())]
    Exists {
        /// Where.
        path: PathBuf,
    },
}

impl RunFolder {
    /// Makes the hidden folder beside `above/name`, with the folders above it.
    ///
    /// # Errors
    /// [`RunFolderError::Exists`] when the name is taken, [`RunFolderError::Io`] when the folder can not be made.
    pub fn create(above: &Path, name: &str) -> Result<Self, RunFolderError> {
        let place = above.join(name);
        refuse_existing(&place)?;
        fs::create_dir_all(above).map_err(refused("make folder", above))?;
        let partial = above.join(format!(".{name}.partial-{}", std::process::id()));
        fs::create_dir(&partial).map_err(refused("make folder", &partial))?;
        Ok(Self { place, partial, finished: false })
    }

    /// Writes one file of the folder, and does not return before the disk has it.
    ///
    /// # Errors
    /// [`RunFolderError::Io`] when it can not be written, for example because the disk is full.
    pub fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), RunFolderError> {
        let write = || {
            let mut output = BufWriter::with_capacity(WRITE_BYTES, File::create(self.partial.join(name))?);
            content(&mut output)?;
            output.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
        };
        // The message names the file where the reader would look for it, not where it is in the making.
        write().map_err(refused("write", &self.place.join(name)))
    }

    /// Gives the folder its name.
    ///
    /// # Errors
    /// [`RunFolderError`] when something has come to stand at its place, or the system refuses.
    pub fn finish(mut self) -> Result<PathBuf, RunFolderError> {
        refuse_existing(&self.place)?;
        fs::rename(&self.partial, &self.place).map_err(refused("rename to", &self.place))?;
        self.finished = true;
        Ok(self.place.clone())
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing more can be done about a folder that can not be removed; its name says that it is partial.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// The plan's own curve from a trace's graphs, in bins that match those of `outcome`: at k times the speed, a bin of the
/// run is k times as long in the trace. Hosts without a graph are left out.
///
/// # Errors
/// [`FolderError`] if a graph can not be read.
pub fn planned_curve(trace: &TraceFolder, outcome: &RunOutcome) -> Result<PlannedCurve, FolderError> {
    let bin = outcome.widest_bin().0;
    let per_mille = match outcome.mode {
        Mode::Dependency => 1_000,
        Mode::Timed { speed } => u64::from(u32::from(speed)),
    };
    let manifest = trace.manifest();
    let mut curve = PlannedCurve::new(manifest, Nanos(bin.saturating_mul(per_mille) / 1_000));
    for host in manifest.hosts.iter().filter(|host| host.graph.is_some()) {
        for node in trace.graph(host.id)? {
            let path = || trace.path().join(host.graph.as_deref().unwrap_or_default());
            curve.add(&node.map_err(|source| FolderError::Graph { path: path(), source })?);
        }
    }
    Ok(curve)
}

/// The name of a run's folder: `run-20260314T150926Z-00c0ffee`, so that names sort by time.
#[must_use]
pub fn run_name(started_unix_ns: u64, id: u32) -> String {
    let second = started_unix_ns / 1_000_000_000;
    let (days, second) = (second / 86_400, second % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("run-{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z-{id:08x}")
}

/// Year, month and day of the Gregorian calendar, `days` after 1 January 1970.
///
/// Counts from 1 March of the year 0, so that the leap day ends a year (Hinnant, "chrono-compatible low-level date
/// algorithms", 2013).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

fn refuse_existing(place: &Path) -> Result<(), RunFolderError> {
    match place.symlink_metadata() {
        Ok(_) => Err(RunFolderError::Exists { path: place.to_owned() }),
        Err(_) => Ok(()),
    }
}

fn refused(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunFolderError {
    let path = path.to_owned();
    move |source| RunFolderError::Io { doing, path, source }
}

/// Large enough that files are written at the speed of the page cache.
const WRITE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use traces::folder::{Existing, TraceFolderWriter};
    use traces::graph::Head;
    use traces::id::NicId;

    use super::*;
    use crate::outcome::Speed;
    use crate::report::sample;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_name_is_the_time_in_utc_and_the_run() {
        assert_eq!(run_name(0, 1), "run-19700101T000000Z-00000001");
        assert_eq!(run_name(1_709_210_096_000_000_000, 0xc0ff_ee00), "run-20240229T123456Z-c0ffee00");
        assert_eq!(run_name(4_107_542_399_999_999_999, 2), "run-21000228T235959Z-00000002");
        assert_eq!(run_name(4_107_542_400_000_000_000, 2), "run-21000301T000000Z-00000002");
    }

    #[test]
    fn a_folder_appears_whole_and_is_never_overwritten() {
        let above = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(above.path(), "run-a").unwrap();
        folder.write("summary.json", |output| output.write_all(b"{}")).unwrap();
        assert!(!above.path().join("run-a").exists());
        let place = folder.finish().unwrap();
        assert_eq!((names(above.path()), names(&place)), (vec!["run-a".into()], vec!["summary.json".into()]));
        let error = RunFolder::create(above.path(), "run-a").unwrap_err();
        assert!(matches!(error, RunFolderError::Exists { .. }), "{error}");
    }

    #[test]
    fn at_twice_the_speed_the_plan_s_curve_takes_half_the_time() {
        let above = tempfile::tempdir().unwrap();
        let mut manifest = sample::trace();
        let place = above.path().join("trace");
        let writer = TraceFolderWriter::create(&place, Existing::Keep).unwrap();
        for host in &mut manifest.hosts {
            let head = Head { host: host.id, plan_digest: manifest.plan_digest.clone() };
            let mut graph = writer.graph(&head).unwrap();
            for node in sample::sends(host.id) {
                graph.node(&node).unwrap();
            }
            graph.finish().unwrap();
            host.graph = Some(TraceFolderWriter::graph_name(host.id));
        }
        writer.finish(&manifest, "").unwrap();
        let trace = TraceFolder::open(&place).unwrap();
        let mut outcome = sample::outcome();
        let once = planned_curve(&trace, &outcome).unwrap();
        outcome.mode = Mode::Timed { speed: Speed::per_mille(2_000).unwrap() };
        let twice = planned_curve(&trace, &outcome).unwrap();
        let nic = NicId(1);
        assert_eq!(once.sent(nic).len().div_ceil(2), twice.sent(nic).len());
        assert_eq!(once.sent(nic).iter().sum::<u64>(), twice.sent(nic).iter().sum::<u64>());
        assert!(once.sent(nic).iter().sum::<u64>() > 0);
    }

    #[test]
    fn a_full_disk_leaves_nothing_and_says_which_file() {
        let above = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(above.path(), "run-a").unwrap();
        folder.write("summary.json", |output| output.write_all(b"{}")).unwrap();
        // The device that is always full stands where the next file would be written.
        std::os::unix::fs::symlink("/dev/full", folder.partial.join("flows.csv")).unwrap();
        let error = folder.write("flows.csv", |output| output.write_all(b"flow\n")).unwrap_err();
        assert!(error.to_string().ends_with("run-a/flows.csv"), "{error}");
        let RunFolderError::Io { source, .. } = error else { panic!("{error}") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        drop(folder);
        assert_eq!(names(above.path()), Vec::<String>::new());
    }
}
