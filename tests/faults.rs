//! Wrong input and a hostile world: a clear message on stderr, the documented exit code, and nothing half-written.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::program::{root, tokenwire};

/// A plan of two hosts that generates in an instant; each case spoils one line of it.
const PLAN: &str = r#"version = 1
name = "tiny"
seed = 1

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
steps = 1
tokens = 16

[parallelism]
data = 2

[cluster]
hosts = 2
gpus_per_host = 1
nics_per_host = 1
link = "10Gbit"

[transport]
path_mtu = 1024
"#;

/// What is replaced, by what, and what the message must say.
const SPOILED: &[(&str, &str, &[&str])] = &[
    ("version = 1", "version = 9", &["version", "9"]),
    ("version = 1\n", "", &["version"]),
    ("name = \"tiny\"", "name = tiny", &["name"]),
    ("seed = 1", "seed = -1", &["seed"]),
    ("[model]", "[modle]", &["modle", "model"]),
    ("family = \"gpt\"", "family = \"gtp\"", &["gtp", "gpt"]),
    ("family = \"gpt\"", "preset = \"gpt-2\"", &["gpt-2", "gpt2"]),
    ("layers = 2", "layres = 2", &["layres", "layers"]),
    ("layers = 2", "layers = 0", &["layers"]),
    ("layers = 2", "layers = \"two\"", &["layers"]),
    ("hidden = 64", "hidden = 65", &["hidden", "heads"]),
    ("heads = 4", "heads = 0", &["heads"]),
    ("vocab = 100", "vocab = 0", &["vocab"]),
    ("sequence_length = 16", "sequence_length = 0", &["sequence_length"]),
    ("micro_batch = 1", "micro_batch = 0", &["micro_batch"]),
    ("global_batch = 2", "global_batch = 3", &["global_batch", "3"]),
    ("steps = 1", "steps = 0", &["steps"]),
    ("steps = 1", "steps = 1.5", &["steps"]),
    ("tokens = 16", "tokens = 16\ntext = \"a.txt\"", &["text", "tokens"]),
    ("tokens = 16", "text = \"nowhere.txt\"", &["nowhere.txt"]),
    ("data = 2", "data = 3", &["3", "2"]),
    ("data = 2", "data = 2\ntensor = 3", &["tensor"]),
    ("data = 2", "pipeline = 2\nlayers_per_stage = [1, 2]", &["layers_per_stage", "3", "2"]),
    ("data = 2", "pipeline = 2\nlayers_per_stage = [2]", &["layers_per_stage"]),
    ("data = 2", "data = 2\nschedule = \"zb-h1\"", &["zb-h1", "1f1b"]),
    ("hosts = 2", "hosts = 0", &["hosts"]),
    ("link = \"10Gbit\"", "link = \"10\"", &["link", "unit"]),
    ("link = \"10Gbit\"", "link = \"10GB\"", &["link", "Gbit"]),
    ("link = \"10Gbit\"", "link = 10", &["link"]),
    ("link = \"10Gbit\"", "link = \"0Gbit\"", &["link"]),
    ("path_mtu = 1024", "path_mtu = 1500", &["path_mtu", "1024"]),
    ("path_mtu = 1024", "path_mtu = 4096\n[cluster2]", &["cluster2", "cluster"]),
    ("[transport]", "[transport]\nnic_profile = \"mlx6\"", &["nic_profile"]),
    ("path_mtu = 1024", "path_mtu = 1024\n[fabric]\nlatency = \"1m\"", &["latency", "us"]),
    ("path_mtu = 1024", "path_mtu = ", &["path_mtu"]),
    ("hosts = 2", "hosts = 2\naddresses = \"198.18.0.0/31\"", &["addresses"]),
    ("hosts = 2", "hosts = 2\naddresses = \"nonsense\"", &["addresses"]),
    ("hosts = 2", "hosts = 2\nmtu = 576", &["mtu"]),
];

#[test]
fn the_plan_that_is_spoiled_below_is_right() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    let said = tokenwire(folder.path(), &["generate", "plan.toml", "-o", "trace"]);
    assert_eq!(said.code, 0, "{}", said.err);
}

#[test]
fn a_spoiled_plan_is_refused_with_its_line_and_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let mut faults = Vec::new();
    for (from, to, words) in SPOILED {
        assert!(PLAN.contains(from), "{from}");
        fs::write(folder.path().join("plan.toml"), PLAN.replacen(from, to, 1)).unwrap();
        for command in [&["explain", "plan.toml"][..], &["generate", "plan.toml", "-o", "trace"]] {
            let said = tokenwire(folder.path(), command);
            let missing: Vec<_> = words.iter().filter(|word| !said.err.contains(**word)).collect();
            if said.code != 2
                || !missing.is_empty()
                || !said.out.is_empty()
                || !said.err.contains("plan.toml")
            {
                faults.push(format!("`{to}`: exit {}, not said: {missing:?}\n{}", said.code, said.err));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n---\n"));
    assert_eq!(names(folder.path()), ["plan.toml"], "nothing is left behind");
}

#[test]
fn a_plan_that_is_not_there_or_no_text_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = tokenwire(folder.path(), &["explain", "nowhere.toml"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("nowhere.toml") && said.err.contains("tutorial-dp8"), "{}", said.err);
    fs::write(folder.path().join("bytes.toml"), [0xff, 0xfe, 0]).unwrap();
    let said = tokenwire(folder.path(), &["explain", "bytes.toml"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("bytes.toml"), "{}", said.err);
}

#[test]
fn wrong_arguments_are_a_wrong_request() {
    for arguments in [
        &["generate", "demo"][..],
        &["generate", "demo", "-o", "x", "--threads", "0"],
        &["generate", "demo", "-o", "x", "--nics", "a"],
        &["generate", "demo", "-o", "x", "--nics", "99"],
        &["generate", "demo", "-o", "x", "--snap", "10"],
        &["replay", "x", "--speed", "0"],
        &["explain", "demo", "--text", "a", "--tokens", "3"],
        &["nonsense"],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let said = tokenwire(folder.path(), arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        assert!(!said.err.is_empty() && said.out.is_empty());
        assert!(names(folder.path()).is_empty(), "{arguments:?} left something");
    }
}

#[test]
fn a_damaged_capture_is_refused_where_it_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    assert_eq!(tokenwire(folder.path(), &["generate", "plan.toml", "-o", "trace"]).code, 0);
    let good = fs::read(folder.path().join("trace/pcap/host0-nic0.pcap")).unwrap();
    let spoil = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let cases: &[(&str, Vec<u8>, &[&str])] = &[
        ("empty", vec![], &["pcap"]),
        ("a few bytes", good[..10].to_vec(), &["pcap"]),
        ("cut in a frame", good[..good.len() - 7].to_vec(), &["frame"]),
        ("cut in a record header", good[..24 + 9].to_vec(), &["frame 1"]),
        ("another magic", spoil(0, 0x42), &["423cb2a1"]),
        ("pcapng", [b"\x0a\x0d\x0d\x0a".to_vec(), vec![0; 40]].concat(), &["pcapng"]),
        ("gzip", [b"\x1f\x8b".to_vec(), vec![0; 40]].concat(), &["gzip"]),
        ("another link type", spoil(20, 101), &["Ethernet"]),
        ("an absurd length", spoil(24 + 11, 0x7f), &["frame 1"]),
        ("text", b"to be, or not to be, that is the question".to_vec(), &["pcap"]),
    ];
    let mut faults = Vec::new();
    for (name, bytes, words) in cases {
        fs::write(folder.path().join("spoiled.pcap"), bytes).unwrap();
        let said = tokenwire(folder.path(), &["verify", "spoiled.pcap"]);
        let missing: Vec<_> = words.iter().filter(|word| !said.err.contains(**word)).collect();
        if said.code != 2 || !missing.is_empty() || !said.err.contains("spoiled.pcap") {
            faults
                .push(format!("{name}: exit {}, not said: {missing:?}\n{}{}", said.code, said.err, said.out));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n---\n"));
}

#[test]
fn a_cut_capture_is_examined_up_to_the_cut() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    assert_eq!(tokenwire(folder.path(), &["generate", "plan.toml", "-o", "trace"]).code, 0);
    let capture = folder.path().join("trace/pcap/host0-nic0.pcap");
    let whole = fs::read(&capture).unwrap();
    fs::write(&capture, &whole[..whole.len() / 2]).unwrap();
    let said = tokenwire(folder.path(), &["verify", "trace/pcap/host0-nic0.pcap"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("cut short") && said.out.contains("icrc"), "{}{}", said.err, said.out);
    assert!(said.out.contains(": mlx5-nccl"), "{}", said.out);
    let said = tokenwire(folder.path(), &["verify", "trace/pcap/host0-nic0.pcap", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, &document["passed"]), (2, &serde_json::Value::Bool(false)));
    assert!(document["frames"].as_u64().unwrap() > 0 && document["profiles"][0]["profile"] == "mlx5-nccl");
    // Wherever it is cut, what would have come behind is not missed.
    let mut asked = 0;
    for part in 1..40 {
        fs::write(&capture, &whole[..whole.len() * part / 40 + 1]).unwrap();
        let said = tokenwire(folder.path(), &["verify", "trace/pcap/host0-nic0.pcap", "--json"]);
        let Ok(document) = serde_json::from_str::<serde_json::Value>(&said.out) else { continue };
        for check in document["checks"].as_array().unwrap() {
            assert_eq!(check["violations"], 0, "cut at {part}/40: {check}");
            asked += u64::from(check["name"] == "ack_requests_answered" && check["examined"] != 0);
        }
    }
    assert!(asked > 0);
}

#[test]
fn a_damaged_trace_folder_is_refused_by_replay_and_verify() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    let trace = folder.path().join("trace");
    type Spoil<'a> = (&'a str, &'a dyn Fn(&Path));
    let spoilings: &[Spoil<'_>] = &[
        ("no manifest", &|trace| fs::remove_file(trace.join("manifest.json")).unwrap()),
        ("half a manifest", &|trace| cut(&trace.join("manifest.json"))),
        ("another version", &|trace| {
            replace(&trace.join("manifest.json"), "\"schema_version\": 1", "\"schema_version\": 99")
        }),
        ("no graph", &|trace| fs::remove_file(trace.join("graph/host1.graph")).unwrap()),
        ("half a graph", &|trace| cut(&trace.join("graph/host1.graph"))),
        ("another plan's graph", &|trace| {
            replace(&trace.join("manifest.json"), "\"plan_digest\": \"", "\"plan_digest\": \"f")
        }),
        ("no capture", &|trace| fs::remove_file(trace.join("pcap/host0-nic0.pcap")).unwrap()),
    ];
    for (name, spoil) in spoilings {
        let said = tokenwire(folder.path(), &["generate", "plan.toml", "-o", "trace", "--force"]);
        assert_eq!(said.code, 0, "{}", said.err);
        spoil(&trace);
        for command in [&["verify", "trace"][..], &["replay", "trace", "--lab", "loopback", "-o", "runs"]] {
            let said = tokenwire(folder.path(), command);
            assert!(
                said.code == 2 || said.code == 1,
                "{name}, {command:?}: exit {}\n{}",
                said.code,
                said.err
            );
            assert!(
                said.err.contains("trace") && said.err.contains("error"),
                "{name}, {command:?}: {}",
                said.err
            );
        }
        fs::remove_dir_all(&trace).unwrap();
    }
}

#[test]
fn an_existing_trace_is_kept_and_a_foreign_folder_always() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    let generate = |output: &str, more: &[&str]| {
        tokenwire(folder.path(), &[&["generate", "plan.toml", "-o", output], more].concat())
    };
    assert_eq!(generate("trace", &[]).code, 0);
    let said = generate("trace", &[]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("trace exists"), "{}", said.err);
    assert_eq!(generate("trace", &["--force"]).code, 0);
    fs::create_dir(folder.path().join("letters")).unwrap();
    fs::write(folder.path().join("letters/a.txt"), "dear").unwrap();
    assert_eq!(generate("letters", &["--force"]).code, 2);
    assert_eq!(names(&folder.path().join("letters")), ["a.txt"]);
    fs::write(folder.path().join("file"), "").unwrap();
    assert_eq!(generate("file/trace", &[]).code, 2);
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    // A file system of 1 MiB in a mount namespace of its own, which vanishes with the process. Root inside is enough.
    let folder = tempfile::tempdir().unwrap();
    if crate::program::judge("unshare").is_none() {
        return;
    }
    let program = env!("CARGO_BIN_EXE_tokenwire");
    let script = format!(
        "mount -t tmpfs -o size=1m small {dir} && cd {dir} && {{ {program} generate demo -o trace; echo \"exit $?\"; ls -A {dir}; }}",
        dir = folder.path().display()
    );
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let said = crate::program::said(output);
    assert_eq!(said.out.trim(), "exit 2", "stdout: {}\nstderr: {}", said.out, said.err);
    assert!(said.err.contains("No space left on device") && said.err.contains("trace"), "{}", said.err);
}

#[test]
fn an_unwritable_folder_is_told() {
    // Root may write anywhere but where the kernel has no files.
    let said = tokenwire(root(), &["generate", "tutorial-dp8", "-o", "/proc/trace"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("/proc"), "{}", said.err);
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn cut(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{}: {from}", path.display());
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn an_interrupted_generation_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["generate", "tutorial-tp8", "-o", "trace", "--snap", "96", "--nics", "0"];
    let mut command = crate::program::command(folder.path(), &arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while names(folder.path()).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(100));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let said = crate::program::said(child.wait_with_output().unwrap());
    assert_eq!(said.code, 4, "{}", said.err);
    assert!(said.err.contains("nothing of it is left"), "{}", said.err);
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}
