//! `tokenwire demo`: the whole way on this machine: explain, generate, verify, replay, report.

use std::fs;
use std::path::Path;

use generator::explain::{explain, render};
use generator::plan::load::shipped;
use generator::trace::Options;
use replayer::outcome::Mode;
use traces::folder::Existing;

use crate::command::{generate, replay, verify};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output;
use crate::typed;

pub(crate) fn run(typed: &typed::Demo) -> Result<Exit, Failure> {
    interrupt::listen();
    let plan = shipped("demo").map_err(Failure::in_source)?;
    head("1. The life of a token")?;
    output::result(&render(&explain(&plan, &plan.training.words).map_err(Failure::in_source)?))?;

    head("2. The trace")?;
    let options = Options {
        nics: None,
        steps: None,
        threads: generate::cores(),
        snap: None,
        existing: Existing::Replace,
        ..Options::default()
    };
    let place = generate::write(&plan, &options, &typed.output.join("trace"))?;
    output::result(&generate::described(&place)?)?;

    head("3. The critic")?;
    let examined = verify::examine(std::slice::from_ref(&place))?;
    output::result(&verify::text(&examined))?;
    if !examined.passed() {
        return examined.ended.map_or(Ok(Exit::CheckFailed), Err);
    }

    if interrupt::asked() {
        return Ok(Exit::Partial);
    }

    let trace = replay::open(&place)?;
    replay::writable(&typed.output.join("runs"))?;
    let lab = replay::start_lab(&trace, typed.lab)?;
    head("4. The trace, replayed by its dependencies")?;
    let by_dependencies =
        replay::play(&trace, &lab, Mode::Dependency, typed::Offload::Auto, &typed.output.join("runs"))?;
    output::result(&replay::shown(&by_dependencies))?;
    if by_dependencies.partial || interrupt::asked() {
        return Ok(Exit::Partial);
    }
    head("5. The trace, replayed by the clock")?;
    let by_clock =
        replay::play(&trace, &lab, replay::timed(1_000)?, typed::Offload::Auto, &typed.output.join("runs"))?;
    output::result(&replay::shown(&by_clock))?;

    head("Where to look")?;
    output::result(&where_to_look(&place, &by_dependencies.folder, &by_clock.folder))?;
    Ok(if by_clock.partial { Exit::Partial } else { Exit::Done })
}

fn head(text: &str) -> Result<(), Failure> {
    output::result(&format!("\n== {text}\n\n"))
}

fn where_to_look(trace: &Path, by_dependencies: &Path, by_clock: &Path) -> String {
    let shown =
        |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    format!(
        "Open in Wireshark:   {}\nIn a browser:        {}\n                     {}\nFor programs:        {}\n                     {}\n",
        shown(&trace.join("pcap/host0-nic0.pcap")),
        shown(&by_dependencies.join("report.html")),
        shown(&by_clock.join("report.html")),
        shown(&by_dependencies.join("summary.json")),
        shown(&by_clock.join("summary.json")),
    )
}
