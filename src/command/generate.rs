//! `tokenwire generate`: the trace of a plan.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;

use generator::plan::Plan;
use generator::trace::{self, Layout, Options, TraceError};
use traces::folder::{Existing, TraceFolder};
use traces::id::NicId;
use traces::pcap::Packing;
use traces::pcap::write::Split;
use traces::unit::{Bytes, Nanos};

use crate::command::load;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::{self, Progress};
use crate::typed;

pub(crate) fn run(typed: &typed::Generate) -> Result<Exit, Failure> {
    interrupt::listen();
    let plan = load(&typed.plan)?;
    let options = Options {
        nics: typed.nics.as_ref().map(|selection| selection.0.iter().copied().map(NicId).collect()),
        steps: typed.steps,
        threads: typed.threads.map_or_else(cores, usize::from),
        snap: typed.snap,
        layout: layout(typed)?,
        split: Split {
            frames: typed.split_frames.map_or(Split::EASY.frames, |limit| limit.0),
            bytes: typed.split_bytes.map_or(Split::EASY.bytes, |limit| limit.0),
        },
        packing: match typed.compress {
            None => Packing::Plain,
            Some(typed::Compression::Gzip) => Packing::Gzip,
            Some(typed::Compression::Zstd) => Packing::Zstd,
        },
        existing: if typed.force { Existing::Replace } else { Existing::Keep },
    };
    if options.snap.is_some() {
        output::remark(
            "note: Wireshark's Info column calls frames malformed of which not all bytes are kept",
        );
    }
    let place = write(&plan, &options, &typed.output)?;
    output::result(&described(&place)?)?;
    Ok(Exit::Done)
}

fn layout(typed: &typed::Generate) -> Result<Layout, Failure> {
    match (typed.format, typed.merge) {
        (None | Some(typed::Format::Pcap), false) => Ok(Layout::Pcap),
        (Some(typed::Format::Pcapng), false) => Ok(Layout::PcapNg),
        (None | Some(typed::Format::Pcapng), true) => Ok(Layout::Merged),
        (Some(typed::Format::Pcap), true) => Err(Failure::wrong(
            "--merge needs pcapng: a pcap file can not say which NIC saw a frame; leave --format pcap out",
        )),
    }
}

/// Writes a trace, and shows how far it is.
pub(crate) fn write(plan: &Plan, options: &Options, place: &Path) -> Result<PathBuf, Failure> {
    let progress = Progress::start("generating", u64::from(plan.training.steps));
    let shown = |now: trace::Progress| {
        progress.set(now.steps_ended.into(), now.steps.into());
        if interrupt::asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let place = trace::generate(plan, options, place, &shown).map_err(|error| match error {
        TraceError::Stopped => Failure::with(Exit::Partial, error),
        _ => Failure::wrong(error),
    })?;
    progress.finish(&format!("{} is whole", place.display()));
    Ok(place)
}

/// What a trace holds, in a few lines.
pub(crate) fn described(place: &Path) -> Result<String, Failure> {
    let folder = TraceFolder::open(place).map_err(Failure::wrong)?;
    let manifest = folder.manifest();
    // A merged capture is named by all its NICs.
    let captures: BTreeSet<_> = manifest.nics.iter().flat_map(|nic| &nic.pcap).collect();
    let captures = match captures.len() {
        1 => "1 capture".to_owned(),
        count => format!("{count} captures"),
    };
    let mut text = format!(
        "{}\n  {} steps, {} of trace time; {} frames in {captures} ({})\n  {} messages carry {}; {} graph nodes\n",
        place.display(),
        manifest.steps,
        Nanos(manifest.duration_ns),
        manifest.totals.frames,
        Bytes(manifest.totals.pcap_bytes),
        manifest.totals.messages,
        Bytes(manifest.totals.payload_bytes),
        manifest.totals.nodes,
    );
    if let Some(capture) = manifest.nics.iter().flat_map(|nic| &nic.pcap).next() {
        text.push_str(&format!("  open one: wireshark {}\n", place.join(capture).display()));
    }
    Ok(text)
}

/// As many threads as there are cores.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
