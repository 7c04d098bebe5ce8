//! Where the timeline's bursts and nodes go: graphs at once, bursts in batches to the captures' writers.

use std::fs::File;
use std::io::BufWriter;
use std::mem;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender};

use traces::folder::{CaptureFiles, FolderError, TraceFolderWriter};
use traces::graph::encode::GraphWriter;
use traces::graph::{Node, Totals, Work};
use traces::id::{HostId, NicId};
use traces::pcap::write::Form;
use traces::unit::{Bytes, Nanos};

use super::{Progress, TraceError};
use crate::capture::Capture;
use crate::connection::encapsulation;
use crate::frames::{PortTotals, Settings};
use crate::timeline::{Burst, Sink};

/// The captures of some NICs.
#[derive(Debug, Default)]
pub(super) struct Writer<'a> {
    captures: Vec<(PathBuf, Capture<'a, CaptureFiles>)>,
    /// By NIC, in their order: its capture.
    places: Vec<(NicId, usize)>,
}

/// A capture that was written.
#[derive(Debug)]
pub(super) struct Written {
    /// The NICs whose frames it holds.
    pub(super) ports: Vec<(NicId, PortTotals)>,
    /// Its files, as paths in the folder.
    pub(super) files: Vec<String>,
    /// Their bytes on disk.
    pub(super) bytes: Bytes,
}

/// Bursts of one writer's NICs, and the instant before which no more come.
#[derive(Debug)]
pub(super) struct Batch {
    until: Nanos,
    bursts: Vec<(NicId, Burst)>,
}

/// A writer: on this thread, or the queue to another.
#[derive(Debug)]
pub(super) enum Output<'a> {
    Here(Writer<'a>),
    There(SyncSender<Batch>),
}

type Graph = GraphWriter<BufWriter<File>>;

/// The sink of a timeline.
pub(super) struct TraceSink<'a, 'p> {
    settings: Settings<'a>,
    folder: &'p TraceFolderWriter,
    /// By NIC: the output that writes it.
    places: Vec<Option<usize>>,
    graphs: Vec<Option<Graph>>,
    outputs: Vec<Output<'a>>,
    pending: Vec<Vec<(NicId, Burst)>>,
    count: usize,
    progress: &'p dyn Fn(Progress) -> ControlFlow<()>,
    so_far: Progress,
}

impl<'a> Writer<'a> {
    /// Starts the capture with this name of some NICs, which come in the order of their ids.
    pub(super) fn open(
        &mut self,
        settings: &Settings<'a>,
        folder: &TraceFolderWriter,
        name: &str,
        nics: &[NicId],
        form: &Form,
    ) -> Result<(), TraceError> {
        let files = folder.captures(name, form, settings.packing);
        let path = folder.final_path(&files.plain_name());
        let capture = Capture::new(settings, nics, files, form)
            .map_err(|source| TraceError::Capture { path: path.clone(), source: source.into() })?;
        self.places.extend(nics.iter().map(|&nic| (nic, self.captures.len())));
        self.captures.push((path, capture));
        Ok(())
    }

    /// Writes batches until their queue ends.
    pub(super) fn run(mut self, queue: &Receiver<Batch>) -> Result<Vec<Written>, TraceError> {
        for batch in queue {
            self.write(batch)?;
        }
        self.finish()
    }

    pub(super) fn finish(self) -> Result<Vec<Written>, TraceError> {
        self.captures
            .into_iter()
            .map(|(path, capture)| {
                let (ports, files) =
                    capture.finish().map_err(|source| TraceError::Capture { path, source })?;
                Ok(Written { ports, files: files.names().to_vec(), bytes: files.bytes() })
            })
            .collect()
    }

    fn write(&mut self, batch: Batch) -> Result<(), TraceError> {
        for (nic, burst) in batch.bursts {
            // NICs are opened in the order of their ids.
            if let Ok(place) = self.places.binary_search_by_key(&nic, |(nic, _)| *nic) {
                self.captures[self.places[place].1].1.push(nic, burst);
            }
        }
        for (path, capture) in &mut self.captures {
            capture
                .write_until(batch.until)
                .map_err(|source| TraceError::Capture { path: path.clone(), source })?;
        }
        Ok(())
    }
}

impl<'a, 'p> TraceSink<'a, 'p> {
    /// A sink for the chosen NICs, without its outputs.
    pub(super) fn new(
        settings: &Settings<'a>,
        chosen: &[bool],
        graphs: Vec<Option<Graph>>,
        folder: &'p TraceFolderWriter,
        progress: &'p dyn Fn(Progress) -> ControlFlow<()>,
    ) -> Self {
        let mut next = 0;
        let mut place = |&chosen: &bool| {
            next += usize::from(chosen);
            chosen.then(|| next - 1)
        };
        Self {
            settings: *settings,
            folder,
            places: chosen.iter().map(&mut place).collect(),
            graphs,
            outputs: Vec::new(),
            pending: Vec::new(),
            count: 0,
            progress,
            so_far: Progress { steps: settings.plan.training.steps, ..Progress::default() },
        }
    }

    /// The same with outputs; the `n`-th chosen NIC is written by the `n`-th of them, around.
    pub(super) fn with(mut self, outputs: Vec<Output<'a>>) -> Self {
        for place in self.places.iter_mut().flatten() {
            *place %= outputs.len();
        }
        self.pending = outputs.iter().map(|_| Vec::new()).collect();
        self.outputs = outputs;
        self
    }

    /// Ends the graphs, and gives their totals by host; a timeline that ended early leaves them as they are.
    pub(super) fn finish(self, whole: bool) -> Result<(Vec<Option<Totals>>, Vec<Output<'a>>), TraceError> {
        let Self { graphs, outputs, folder, .. } = self;
        if !whole {
            return Ok((Vec::new(), outputs));
        }
        let graphs = (0_u32..)
            .map(HostId)
            .zip(graphs)
            .map(|(host, graph)| {
                graph.map(|graph| graph.finish().map(|(_, totals)| totals)).transpose().map_err(|source| {
                    let path = folder.final_path(&TraceFolderWriter::graph_name(host));
                    TraceError::Folder(FolderError::Graph { path, source })
                })
            })
            .collect::<Result<_, _>>()?;
        Ok((graphs, outputs))
    }

    fn flush(&mut self, until: Nanos) -> Result<(), TraceError> {
        self.count = 0;
        for (output, pending) in self.outputs.iter_mut().zip(&mut self.pending) {
            let batch = Batch { until, bursts: mem::take(pending) };
            match output {
                Output::Here(writer) => writer.write(batch)?,
                Output::There(queue) => queue.send(batch).map_err(|_| TraceError::Thread)?,
            }
        }
        match (self.progress)(self.so_far) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(TraceError::Stopped),
        }
    }
}

impl Sink for TraceSink<'_, '_> {
    type Error = TraceError;

    fn burst(&mut self, nic: NicId, burst: Burst) -> Result<(), TraceError> {
        let Some(place) = self.places[nic.index()] else { return Ok(()) };
        self.so_far.frames += burst.content.frames();
        self.so_far.bytes += burst.content.line_bytes(encapsulation(self.settings.plan));
        self.pending[place].push((nic, burst));
        self.count += 1;
        Ok(())
    }

    fn node(&mut self, host: HostId, node: &Node) -> Result<(), TraceError> {
        if let Work::Compute { purpose, .. } = node.work
            && purpose.task == traces::graph::Task::StepEnd
        {
            self.so_far.steps_ended = self.so_far.steps_ended.max(purpose.step + 1);
        }
        let Some(graph) = &mut self.graphs[host.index()] else { return Ok(()) };
        graph.node(node).map_err(|source| {
            let path = self.folder.final_path(&TraceFolderWriter::graph_name(host));
            TraceError::Folder(FolderError::Graph { path, source })
        })
    }

    fn reached(&mut self, now: Nanos) -> Result<(), TraceError> {
        if self.count >= BATCH || now == Nanos(u64::MAX) {
            self.flush(now)?;
        } else {
            self.so_far.time = now;
        }
        Ok(())
    }
}

/// Bursts of a batch: some tens of megabytes of frames.
const BATCH: usize = 512;
