//! The trace folder: a timeline's bursts and nodes, written as captures and graphs, with the manifest.
//!
//! One thread runs the timeline and writes graphs; it hands batches of bursts to threads that own the NICs' captures, through
//! bounded queues. With one thread it writes the captures itself. The bytes are the same: a capture is the merge of two
//! ordered streams, wherever they are cut into batches.
//!
//! Everything is written beside its place and renamed when it is whole ([`traces::folder`]). This is a shell module: it opens
//! files, and it starts threads.

mod sink;
mod manifest;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use thiserror::Error;
use traces::folder::{Existing, FolderError, TraceFolderWriter};
use traces::graph::Head;
use traces::id::{HostId, NicId};
use traces::pcap::Packing;
use traces::pcap::write::{Form, Split};
use traces::unit::{Bytes, Nanos};

use crate::connection::Network;
use crate::content::Content;
use crate::frames::{CaptureError, Settings};
use crate::notes::Notes;
use crate::placement::Placement;
use crate::plan::{Plan, Words};
use crate::timeline::{Timeline, TimelineError};
use sink::{Output, TraceSink, Writer};

/// What of a plan is written, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The NICs whose captures are written; all if not given. Hosts without a NIC among them get no graph.
    pub nics: Option<Vec<NicId>>,
    /// The first steps alone, at most as many as the plan has.
    pub steps: Option<u32>,
    /// Threads, the timeline's own included; at least one.
    pub threads: usize,
    /// Bytes kept of each frame; all if not given.
    pub snap: Option<u32>,
    /// Which captures there are, in which form.
    pub layout: Layout,
    /// When a file of a capture is full, and the next begins.
    pub split: Split,
    /// How files are compressed.
    pub packing: Packing,
    /// What to do when a trace already stands there.
    pub existing: Existing,
}

/// Which captures there are, in which form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Pcap, one of each NIC.
    #[default]
    Pcap,
    /// Pcapng, one of each NIC.
    PcapNg,
    /// Pcapng, one of all NICs together, each an interface of its own.
    Merged,
}

impl Default for Options {
    /// All NICs and steps in whole frames, pcap, on one thread, beside what stands there.
    fn default() -> Self {
        Self {
            nics: None,
            steps: None,
            threads: 1,
            snap: None,
            layout: Layout::Pcap,
            split: Split::EASY,
            packing: Packing::Plain,
            existing: Existing::Keep,
        }
    }
}

/// How far a trace is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The trace time that the timeline has reached.
    pub time: Nanos,
    /// Training steps that are over on at least one rank.
    pub steps_ended: u32,
    /// Training steps of the trace.
    pub steps: u32,
    /// Frames given to the captures.
    pub frames: u64,
    /// Their bytes on the line.
    pub bytes: Bytes,
}

/// Why a trace can not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A NIC that the plan does not have.
    #[error("there is no {nic}: the plan has {count} NICs, counted from nic0")]
    NoNic {
        /// Which.
        nic: NicId,
        /// How many there are.
        count: u32,
    },
    /// The folder can not be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A capture can not be written.
    #[error("cannot write {}", path.display())]
    Capture {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: CaptureError,
    },
    /// The timeline ended early.
    #[error("the timeline ended early: {0}")]
    Timeline(String),
    /// The caller had enough.
    #[error("stopped before the trace was whole; nothing of it is left")]
    Stopped,
    /// A thread that writes captures ended early.
    #[error("a thread that writes captures ended early")]
    Thread,
}

/// Writes the trace of a plan to `directory`, and gives its place. `progress` is told how far it is, and may stop it.
///
/// # Errors
/// [`TraceError`]; nothing is left behind then.
pub fn generate(
    plan: &Plan,
    options: &Options,
    directory: &Path,
    progress: &dyn Fn(Progress) -> ControlFlow<()>,
) -> Result<PathBuf, TraceError> {
    let mut plan = plan.clone();
    plan.training.steps = options.steps.unwrap_or(plan.training.steps).clamp(1, plan.training.steps);
    if let Words::Text { name, .. } = &mut plan.training.words {
        // The text comes along, so that the written plan can be read again.
        let file =
            Path::new(name).file_name().map_or_else(|| "text.txt".into(), |file| file.to_string_lossy());
        *name = format!("text/{file}");
    }
    let plan = &plan;
    let placement = Placement::new(plan);
    let network = Network::new(plan, &placement);
    let content = Content::new(plan, &network);
    let chosen = chosen(plan, options)?;
    let folder = TraceFolderWriter::create(directory, options.existing)?;
    let digest = plan.digest();
    let graphs = (0..plan.cluster.hosts)
        .map(HostId)
        .map(|host| {
            let wanted = network.nics().iter().any(|nic| nic.host == host && chosen[nic.id.index()]);
            wanted.then(|| folder.graph(&Head { host, plan_digest: digest.clone() })).transpose()
        })
        .collect::<Result<Vec<_>, _>>()?;
    let nics: Vec<_> = network.nics().iter().filter(|nic| chosen[nic.id.index()]).collect();
    let count = if options.layout == Layout::Merged { 1 } else { nics.len() };
    let settings = Settings {
        plan,
        network: &network,
        content: &content,
        epoch: EPOCH,
        snap: options.snap,
        split: options.split,
        packing: options.packing,
        block: (BLOCKS / count.max(1)).clamp(LEAST_BLOCK, MOST_BLOCK),
    };
    let writers = options.threads.saturating_sub(1).clamp(1, count.max(1));
    let mut shares: Vec<Writer<'_>> = (0..writers).map(|_| Writer::default()).collect();
    let notes = Notes::new(plan, &network);
    if options.layout == Layout::Merged {
        let nics: Vec<_> = nics.iter().map(|nic| nic.id).collect();
        shares[0].open(&settings, &folder, MERGED, &nics, &Form::PcapNg(notes.section(&nics)))?;
    } else {
        for (index, nic) in nics.iter().enumerate() {
            let form = match options.layout {
                Layout::Pcap => Form::Pcap,
                Layout::PcapNg | Layout::Merged => Form::PcapNg(notes.section(&[nic.id])),
            };
            shares[index % writers].open(&settings, &folder, &nic.name, &[nic.id], &form)?;
        }
    }

    let timeline = Timeline::new(plan, &placement, &network, plan.training.steps);
    let state = TraceSink::new(&settings, &chosen, graphs, &folder, progress);
    let (summary, graphs, totals) = if options.threads <= 1 {
        let mut state = state.with(shares.into_iter().map(Output::Here).collect());
        let summary = timeline.run(&mut state);
        let (graphs, outputs) = state.finish(summary.is_ok())?;
        let summary = summary.map_err(early)?;
        let mut totals = Vec::new();
        for output in outputs {
            if let Output::Here(writer) = output {
                totals.extend(writer.finish()?);
            }
        }
        (summary, graphs, totals)
    } else {
        thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut outputs = Vec::new();
            for writer in shares {
                let (sender, receiver) = mpsc::sync_channel(QUEUE);
                outputs.push(Output::There(sender));
                threads.push(scope.spawn(move || writer.run(&receiver)));
            }
            let mut state = state.with(outputs);
            let summary = timeline.run(&mut state);
            // The queues end here, and the threads behind them.
            let graphs = state.finish(summary.is_ok()).map(|(graphs, _)| graphs);
            let mut totals = Vec::new();
            let mut fault = None;
            for thread in threads {
                match thread.join() {
                    Ok(Ok(written)) => totals.extend(written),
                    Ok(Err(error)) => fault = fault.or(Some(error)),
                    Err(_) => fault = fault.or(Some(TraceError::Thread)),
                }
            }
            // A writer's own error says more than that its queue is gone.
            match fault {
                Some(error) => Err(error),
                None => Ok((summary.map_err(early)?, graphs?, totals)),
            }
        })?
    };
    if let Words::Text { name, text } = &plan.training.words {
        folder.text(name, text)?;
    }
    let manifest = manifest::manifest(&settings, &placement, &summary, &graphs, &totals);
    Ok(folder.finish(&manifest, &plan.to_toml())?)
}

fn chosen(plan: &Plan, options: &Options) -> Result<Vec<bool>, TraceError> {
    let count = plan.nics();
    let Some(nics) = &options.nics else { return Ok(vec![true; NicId(count).index()]) };
    let mut chosen = vec![false; NicId(count).index()];
    for &nic in nics {
        *chosen.get_mut(nic.index()).ok_or(TraceError::NoNic { nic, count })? = true;
    }
    Ok(chosen)
}

fn early(error: TimelineError<TraceError>) -> TraceError {
    match error {
        TimelineError::Sink(error) => error,
        other @ (TimelineError::Stuck { .. } | TimelineError::GaveUp { .. }) => {
            TraceError::Timeline(other.to_string())
        }
    }
}

/// Time zero of every trace: 2026-01-01T00:00:00Z, so that a plan gives the same bytes on any day.
pub const EPOCH: Nanos = Nanos(1_767_225_600_000_000_000);

/// The name of the capture of all NICs.
const MERGED: &str = "merged";

/// Blocks of all captures together, and of each.
const BLOCKS: usize = 16 << 20;
const LEAST_BLOCK: usize = 64 << 10;
const MOST_BLOCK: usize = 1 << 20;

/// Batches that wait for a writer.
const QUEUE: usize = 4;

#[cfg(test)]
mod tests;
