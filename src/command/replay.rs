//! `tokenwire replay`: a trace played between agents on this machine, and what was measured.

use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use replayer::clock;
use replayer::control::{self, Run, RunSpec, Standing};
use replayer::lab::{How, Lab, LabError};
use replayer::net::Offload;
use replayer::outcome::{Mode, RunOutcome, Speed};
use replayer::report::Report;
use replayer::report::environment::{Circumstances, HostManifest};
use replayer::report::folder::{planned_curve, run_name};
use replayer::report::text::{Colour, text};
use traces::folder::TraceFolder;
use traces::id::HostId;

use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::{self, Progress};
use crate::typed;

/// A run, played and written.
pub(crate) struct Played {
    /// What was measured, ready to be read.
    pub(crate) report: Report,
    /// The run's folder.
    pub(crate) folder: PathBuf,
    /// Whether something is missing.
    pub(crate) partial: bool,
}

pub(crate) fn run(typed: &typed::Replay) -> Result<Exit, Failure> {
    interrupt::listen();
    let mode = mode(&typed.how)?;
    let trace = open(&typed.trace)?;
    writable(&typed.output)?;
    let lab = start_lab(&trace, typed.how.lab)?;
    let played = play(&trace, &lab, mode, typed.how.offload, &typed.output)?;
    if typed.json {
        output::result(&format!(
            "{}\n",
            serde_json::to_string_pretty(&played.report.summary).map_err(Failure::wrong)?
        ))?;
    } else {
        output::result(&shown(&played))?;
    }
    Ok(if played.partial { Exit::Partial } else { Exit::Done })
}

/// A trace folder of which every graph and capture can be played.
pub(crate) fn open(path: &Path) -> Result<TraceFolder, Failure> {
    TraceFolder::open(path).map_err(Failure::wrong)
}

/// Finds out before a run whether its folder can be written after it.
pub(crate) fn writable(above: &Path) -> Result<(), Failure> {
    let refused = |error| Failure::wrong(format!("cannot write into {}: {error}", above.display()));
    fs::create_dir_all(above).map_err(refused)?;
    let probe = above.join(format!(".probe-{}", std::process::id()));
    fs::write(&probe, "").and_then(|()| fs::remove_file(&probe)).map_err(refused)
}

/// One agent a host of the trace, and what they are told about it.
pub(crate) fn start_lab(trace: &TraceFolder, wanted: typed::Lab) -> Result<Lab, Failure> {
    let how = match wanted {
        typed::Lab::Auto => How::Auto,
        typed::Lab::Namespaces => How::Namespaces,
        typed::Lab::Loopback => How::Loopback,
    };
    let program =
        env::current_exe().map_err(|error| Failure::wrong(format!("cannot find this program: {error}")))?;
    let lab = Lab::start(trace.manifest(), how, &program).map_err(|error| match wanted {
        typed::Lab::Namespaces if !matches!(error, LabError::Address { .. }) => {
            Failure::with(Exit::Privilege, error)
        }
        _ => Failure::wrong(error),
    })?;
    output::remark(&format!("lab: {}", lab.description()));
    for note in lab.notes() {
        output::remark(&format!("  {note}"));
    }
    Ok(lab)
}

/// Plays a trace once and writes the run's folder into `above`.
pub(crate) fn play(
    trace: &TraceFolder,
    lab: &Lab,
    mode: Mode,
    offload: typed::Offload,
    above: &Path,
) -> Result<Played, Failure> {
    let started = clock::wall().0;
    let number = u32::try_from((started ^ u64::from(std::process::id()).rotate_left(24)) & 0xffff_ffff)
        .unwrap_or(1)
        .max(1);
    let path = fs::canonicalize(trace.path()).map_err(Failure::wrong)?;
    let spec = RunSpec {
        run: number,
        trace: path,
        mode,
        udp_port: trace.manifest().transport.udp_port,
        offload: match offload {
            typed::Offload::Auto => Offload::Auto,
            typed::Offload::Gso => Offload::Gso,
            typed::Offload::Mmsg => Offload::Mmsg,
        },
    };
    let label = match mode {
        Mode::Dependency => "replaying by dependencies",
        Mode::Timed { .. } => "replaying by the clock",
    };
    let progress = Progress::start(label, 1);
    let total = total(trace, mode);
    let mut standing = |now: Standing| progress.set(now.done, total);
    let run = control::run(lab.agents(), &spec, interrupt::flag(), &mut standing).map_err(Failure::wrong)?;
    progress.finish(if run.is_partial() { "ended early" } else { "done" });
    for note in &run.notes {
        output::remark(&format!("  {note}"));
    }
    report(trace, lab, number, mode, run, above)
}

fn report(
    trace: &TraceFolder,
    lab: &Lab,
    number: u32,
    mode: Mode,
    run: Run,
    above: &Path,
) -> Result<Played, Failure> {
    let circumstances = Circumstances {
        run: run_name(run.started_unix_ns, number),
        program: format!("tokenwire {}", env!("CARGO_PKG_VERSION")),
        command: env::args().collect(),
        started_unix_ns: run.started_unix_ns,
        hosts: hosts(trace, lab),
    };
    let partial = run.is_partial();
    let outcome = RunOutcome::merge(number, mode, run.hosts, &run.reasons).map_err(Failure::wrong)?;
    let planned = planned_curve(trace, &outcome).map_err(Failure::wrong)?;
    let report =
        Report::new(&outcome, trace.manifest(), Some(planned), &circumstances).map_err(Failure::wrong)?;
    let folder = match report.write(above) {
        Ok(folder) => folder,
        Err(error) => {
            // What was measured is not lost with the folder.
            output::result(&text(&report.summary, Colour::Plain))?;
            return Err(Failure::wrong(error));
        }
    };
    Ok(Played { partial: partial || outcome.partial, report, folder })
}

/// The tables of a run, and where to find more.
pub(crate) fn shown(played: &Played) -> String {
    let plain = env::var_os("NO_COLOR").is_some() || !io::stdout().is_terminal();
    let tables = text(&played.report.summary, if plain { Colour::Plain } else { Colour::Ansi });
    let folder = played.folder.display();
    format!("{tables}\n{folder}/report.html\n{folder}/summary.json\n")
}

/// What was typed as a mode.
fn mode(how: &typed::How) -> Result<Mode, Failure> {
    match (how.mode, how.speed) {
        (typed::Mode::Dependency, None) => Ok(Mode::Dependency),
        (typed::Mode::Dependency, Some(_)) => {
            Err(Failure::wrong("--speed belongs to --mode timed: by dependencies, messages go when they can"))
        }
        (typed::Mode::Timed, speed) => timed(speed.map_or(1_000, |speed| speed.per_mille)),
    }
}

/// Timed mode at so many thousandths of the trace's speed.
pub(crate) fn timed(per_mille: u32) -> Result<Mode, Failure> {
    Ok(Mode::Timed { speed: Speed::try_from(per_mille).map_err(Failure::wrong)? })
}

fn hosts(trace: &TraceFolder, lab: &Lab) -> Vec<HostManifest> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
    let manifest = trace.manifest();
    let host = |id: &HostId, addresses: &[replayer::dataplane::NicAddress]| HostManifest {
        host: manifest.hosts[id.index()].name.clone(),
        addresses: addresses
            .iter()
            .filter(|address| manifest.nics[address.nic.index()].host == *id)
            .map(|address| address.address.to_string())
            .collect(),
        backend: "udp".to_owned(),
        kernel: kernel.clone(),
    };
    lab.agents().iter().flat_map(|agent| agent.hosts.iter().map(|id| host(id, &agent.addresses))).collect()
}

/// What there is to do: nodes of all graphs, or frames of all captures.
fn total(trace: &TraceFolder, mode: Mode) -> u64 {
    let manifest = trace.manifest();
    match mode {
        Mode::Dependency => manifest.totals.nodes,
        Mode::Timed { .. } => manifest.nics.iter().map(|nic| nic.frames_sent).sum(),
    }
}
