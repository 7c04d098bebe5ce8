//! Replay as its users run it: agents that are processes, sockets that are sockets, and what happens when one is killed.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use replayer::clock::Clock;
use serde_json::Value;
use traces::unit::Nanos;

use crate::program::{command, judge, result, said, tokenwire};

/// A trace that takes its time by dependencies: two hosts that compute for half a second before each of six steps.
const SLOW: &str = r#"version = 1
name = "slow"
[model]
family = "gpt"
layers = 2
hidden = 64
heads = 4
vocab = 100
[training]
sequence_length = 16
micro_batch = 1
global_batch = 2
steps = 6
tokens = 16
[parallelism]
data = 2
[cluster]
hosts = 2
gpus_per_host = 1
link = "1Gbit"
[timing]
peak_flops = 1000000000
efficiency_percent = 1
"#;

/// The most that the end of a run may take when one of its processes was killed.
const FIVE_SECONDS: Nanos = Nanos(5_000_000_000);

/// Two cores hold one replay at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn trace(folder: &Path, plan: &str) {
    fs::write(folder.join("plan.toml"), plan).unwrap();
    result(folder, &["generate", "plan.toml", "-o", "trace"]);
}

fn summary(folder: &Path) -> Value {
    let run = only(&folder.join("runs"));
    assert!(!run.file_name().unwrap().to_string_lossy().starts_with('.'), "{}", run.display());
    for name in ["manifest.json", "flows.csv", "intervals.ndjson", "latency.hlog", "report.html"] {
        assert!(run.join(name).exists(), "{name}");
    }
    serde_json::from_str(&fs::read_to_string(run.join("summary.json")).unwrap()).unwrap()
}

fn only(folder: &Path) -> PathBuf {
    let entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.into_iter().next().unwrap()
}

/// Every NIC receives what the trace says, each byte once, whatever was sent again.
fn check_whole(folder: &Path, trace: &str, summary: &Value) {
    let text = fs::read_to_string(folder.join(trace).join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["partial"], false);
    let (planned, played) = (manifest["nics"].as_array().unwrap(), summary["nics"].as_array().unwrap());
    assert_eq!(planned.len(), played.len());
    for (planned, played) in planned.iter().zip(played) {
        assert_eq!(
            played["goodput_bytes_received"], planned["payload_bytes_received"],
            "{}",
            planned["name"]
        );
    }
}

#[test]
fn the_demo_goes_the_whole_way_and_a_second_one_does_not_trip_over_the_first() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let said = tokenwire(folder.path(), &["demo", "--lab", "loopback", "--output", "here"]);
        assert_eq!(said.code, 0, "{}{}", said.out, said.err);
        for words in
            ["Nel", "47802", "pp_forward", "tied_embedding", "report.html", "summary.json", "host0-nic0.pcap"]
        {
            assert!(said.out.contains(words) || words == "Nel", "`{words}` is not said:\n{}", said.out);
        }
    }
    assert_eq!(
        fs::read_dir(folder.path().join("here/runs")).unwrap().count(),
        4,
        "two runs each time, all kept"
    );
}

#[test]
fn by_dependencies_every_byte_arrives_over_either_way_into_the_kernel() {
    let _alone = alone();
    for offload in ["gso", "mmsg"] {
        let folder = tempfile::tempdir().unwrap();
        result(folder.path(), &["generate", "demo", "-o", "trace", "--steps", "1"]);
        result(folder.path(), &["replay", "trace", "-o", "runs", "--lab", "loopback", "--offload", offload]);
        let summary = summary(folder.path());
        assert_eq!(summary["mode"], "dependency");
        check_whole(folder.path(), "trace", &summary);
        assert_eq!(summary["steps"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_trace_of_words_and_one_of_noise_are_played_in_either_mode() {
    let _alone = alone();
    for (payload, mode) in [("token", "dependency"), ("random", "timed")] {
        let folder = tempfile::tempdir().unwrap();
        let plan = SLOW.replace("steps = 6", "steps = 1").replace("tokens = 16", "text = \"words.txt\"");
        let plan = plan.replace("data = 2", "pipeline = 2").replace("global_batch = 2", "global_batch = 1");
        fs::write(folder.path().join("words.txt"), "tanto gentile e tanto onesta pare").unwrap();
        trace(folder.path(), &format!("{plan}[transport]\npayload = \"{payload}\"\n"));
        result(folder.path(), &["replay", "trace", "-o", "runs", "--lab", "loopback", "--mode", mode]);
        let summary = summary(folder.path());
        assert_eq!((&summary["mode"], &summary["partial"]), (&mode.into(), &false.into()));
        check_whole(folder.path(), "trace", &summary);
    }
}

#[test]
fn between_network_namespaces_it_is_the_same() {
    let _alone = alone();
    if judge("unshare").is_none() || judge("ip").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    result(folder.path(), &["generate", "demo", "-o", "trace", "--steps", "1"]);
    let said = tokenwire(folder.path(), &["replay", "trace", "-o", "runs", "--lab", "namespaces"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("network namespace"), "{}", said.err);
    let summary = summary(folder.path());
    assert_eq!(summary["partial"], false);
    assert_eq!(summary["nics"].as_array().unwrap().len(), 4);
}

#[test]
fn by_the_clock_the_run_is_as_long_as_the_trace_at_each_speed() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    result(folder.path(), &["generate", "demo", "-o", "trace", "--steps", "1"]);
    let text = fs::read_to_string(folder.path().join("trace/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let duration = manifest["duration_ns"].as_u64().unwrap();
    for (speed, expected) in [("1", duration), ("0.5", 2 * duration)] {
        let text = result(
            folder.path(),
            &["replay", "trace", "--mode", "timed", "--speed", speed, "--lab", "loopback", "--json"],
        );
        let summary: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(summary["mode"], "timed");
        let took = summary["duration_ns"].as_u64().unwrap();
        assert!(took >= expected * 99 / 100, "at {speed} times the speed: {took} ns, planned {expected} ns");
    }
}

#[test]
fn an_agent_that_is_killed_leaves_a_partial_report_and_no_process() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path(), SLOW);
    for mode in ["dependency", "timed"] {
        let mut replay = start(folder.path(), mode);
        let agents = agents(&replay);
        kill(agents[1], "KILL");
        let since = Clock::since(Clock::MONOTONIC.now());
        let output = finish(&mut replay);
        assert!(since.now() < FIVE_SECONDS, "{mode}: it took {}", since.now());
        assert_eq!(output.code, 4, "{mode}: {}", output.err);
        let summary = summary(folder.path());
        assert_eq!(summary["partial"], true, "{mode}");
        assert!(agents.iter().all(|&agent| !lives(agent)), "{mode}: an agent is left");
        fs::remove_dir_all(folder.path().join("runs")).unwrap();
    }
}

#[test]
fn an_interrupted_run_reports_what_it_measured() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path(), SLOW);
    let mut replay = start(folder.path(), "dependency");
    let agents = agents(&replay);
    kill(replay.id(), "INT");
    let output = finish(&mut replay);
    assert_eq!(output.code, 4, "{}", output.err);
    assert_eq!(summary(folder.path())["partial"], true);
    assert!(agents.iter().all(|&agent| !lives(agent)));
}

#[test]
fn agents_end_with_a_coordinator_that_is_killed() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path(), SLOW);
    let mut replay = start(folder.path(), "dependency");
    let agents = agents(&replay);
    kill(replay.id(), "KILL");
    replay.wait().unwrap();
    let since = Clock::since(Clock::MONOTONIC.now());
    while agents.iter().any(|&agent| lives(agent)) {
        assert!(since.now() < FIVE_SECONDS, "an agent outlives its coordinator");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_port_in_use_is_named() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path(), SLOW);
    let manifest = folder.path().join("trace/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"udp_port\": 4791", "\"udp_port\": 5791")).unwrap();
    // On every address that a first host could have.
    let taken: Vec<_> =
        (100..132).map(|network| UdpSocket::bind(format!("127.{network}.0.1:5791"))).collect();
    assert!(taken.iter().all(Result::is_ok));
    let said = tokenwire(folder.path(), &["replay", "trace", "--lab", "loopback", "-o", "runs"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("5791"), "{}", said.err);
    assert_eq!(fs::read_dir(folder.path().join("runs")).unwrap().count(), 0);
}

#[test]
fn an_agent_does_not_listen_to_the_network() {
    let folder = tempfile::tempdir().unwrap();
    let said = tokenwire(folder.path(), &["agent", "--listen", "0.0.0.0:7000"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("0.0.0.0:7000 is not loopback"), "{}", said.err);
}

#[test]
fn a_run_that_could_not_be_written_is_not_played() {
    let folder = tempfile::tempdir().unwrap();
    trace(folder.path(), SLOW);
    fs::write(folder.path().join("file"), "").unwrap();
    for place in ["/proc/runs", "file"] {
        let said = tokenwire(folder.path(), &["replay", "trace", "--lab", "loopback", "-o", place]);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(
            said.err.contains(&format!("cannot write into {place}")) && !said.err.contains("lab:"),
            "{}",
            said.err
        );
    }
}

#[test]
fn an_interrupted_demo_does_not_go_on() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut demo = command(folder.path(), &["demo", "--lab", "loopback", "-o", "demo"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    kill(demo.id(), "INT");
    let said = finish(&mut demo);
    assert_eq!(said.code, 4, "{}", said.err);
    assert!(!said.out.contains("by the clock"), "{}", said.out);
}

#[test]
fn a_folder_named_as_a_shipped_plan_does_not_hide_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("demo")).unwrap();
    assert!(result(folder.path(), &["explain", "demo"]).contains("The life of a token: demo"));
}

#[test]
fn every_document_is_what_its_schema_says() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let said =
        |arguments: &[&str]| -> Value { serde_json::from_str(&result(folder.path(), arguments)).unwrap() };
    result(folder.path(), &["generate", "demo", "-o", "trace", "--steps", "1"]);
    let manifest = fs::read_to_string(folder.path().join("trace/manifest.json")).unwrap();
    for (document, value) in [
        ("explain", said(&["explain", "demo", "--json"])),
        ("manifest", serde_json::from_str(&manifest).unwrap()),
        ("verify", said(&["verify", "trace", "--json"])),
        ("summary", said(&["replay", "trace", "--lab", "loopback", "--json"])),
        ("summary", said(&["replay", "trace", "--lab", "loopback", "--mode", "timed", "--json"])),
    ] {
        let schema = said(&["schema", document]);
        let faults: Vec<_> = jsonschema::validator_for(&schema)
            .unwrap()
            .iter_errors(&value)
            .map(|fault| fault.to_string())
            .collect();
        assert!(faults.is_empty(), "{document}: {faults:?}");
        let nothing = serde_json::json!({});
        assert!(!jsonschema::is_valid(&schema, &nothing), "{document}: its schema takes anything");
    }
}

/// Starts a replay that takes seconds, and waits until its agents play.
fn start(folder: &Path, mode: &str) -> Child {
    let child = command(folder, &["replay", "trace", "--lab", "loopback", "-o", "runs", "--mode", mode])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let since = Clock::since(Clock::MONOTONIC.now());
    while agents(&child).len() < 2 {
        assert!(since.now() < Nanos(10_000_000_000), "no agents");
        std::thread::sleep(Duration::from_millis(10));
    }
    // They have to be told what to play.
    std::thread::sleep(Duration::from_millis(700));
    child
}

fn finish(child: &mut Child) -> crate::program::Said {
    use std::io::Read as _;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_end(&mut err).unwrap();
    let status = child.wait().unwrap();
    said(std::process::Output { status, stdout: out, stderr: err })
}

/// The processes that a process has started.
fn agents(child: &Child) -> Vec<u32> {
    let tasks =
        fs::read_dir(format!("/proc/{}/task", child.id())).map(|tasks| tasks.flatten().collect::<Vec<_>>());
    let children =
        tasks.unwrap_or_default().into_iter().map(|task| fs::read_to_string(task.path().join("children")));
    children
        .flatten()
        .flat_map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

fn kill(process: u32, signal: &str) {
    let status =
        std::process::Command::new("kill").args([format!("-{signal}"), process.to_string()]).status();
    assert!(status.unwrap().success());
}

fn lives(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}
