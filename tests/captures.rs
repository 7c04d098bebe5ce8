//! Captures in every form: the same frames in each, and Wireshark's word for what else they say.

use std::path::{Path, PathBuf};

use crate::program::{judge, judged, result, tokenwire};

const PLAN: &str = "version = 1\nname = \"forms\"\nseed = 3\n[model]\nfamily = \"gpt\"\nlayers = 4\nhidden = 36\nheads = 4\nvocab = 501\n\
    [training]\nsequence_length = 33\nmicro_batch = 3\nglobal_batch = 12\nsteps = 1\ntokens = 33\n\
    [parallelism]\npipeline = 2\ndata = 2\n[cluster]\nhosts = 4\ngpus_per_host = 1\nlink = \"100Gbit\"\n";

/// The forms of a trace, by the flags that ask for them.
const FORMS: &[(&str, &[&str])] = &[
    ("pcap", &[]),
    ("pcapng", &["--format", "pcapng"]),
    ("gzip", &["--compress", "gzip"]),
    ("zstd", &["--compress", "zstd", "--format", "pcapng"]),
    ("split", &["--split-frames", "100"]),
    ("sized", &["--split-bytes", "20KiB", "--compress", "zstd", "--threads", "1"]),
];

fn generate(folder: &Path, name: &str, flags: &[&str]) {
    std::fs::write(folder.join("plan.toml"), PLAN).unwrap();
    result(folder, &[&["generate", "plan.toml", "-o", name], flags].concat());
}

/// The files of a NIC's capture, as the manifest names them.
fn files(trace: &Path, nic: usize) -> Vec<PathBuf> {
    let manifest = std::fs::read_to_string(trace.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let files = manifest["nics"][nic]["pcap"].as_array().unwrap();
    files.iter().map(|file| trace.join(file.as_str().unwrap())).collect()
}

type Frame = (u64, u32, Vec<u8>);

/// The frames of files, one after the other, that an interface saw if it is named.
fn frames(files: &[PathBuf], interface: &str) -> Vec<Frame> {
    let mut frames = Vec::new();
    for path in files {
        let file = std::fs::File::open(path).unwrap();
        let mut reader = traces::pcap::CaptureReader::new(file).unwrap().of_interface(interface);
        while let Some(record) = reader.next_record().unwrap() {
            frames.push((record.time.0, record.original_length, record.bytes.to_vec()));
        }
    }
    frames
}

#[test]
fn the_same_frames_stand_in_every_form_and_each_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let mut first: Option<Vec<Vec<Frame>>> = None;
    for (name, flags) in [FORMS, &[("merged", &["--merge"])]].concat() {
        generate(folder.path(), name, flags);
        let trace = folder.path().join(name);
        let all: Vec<_> = (0..4).map(|nic| frames(&files(&trace, nic), &format!("host{nic}-nic0"))).collect();
        assert!(all.iter().all(|frames| frames.len() > 100), "{name}");
        let expected = first.get_or_insert_with(|| all.clone());
        assert!(all == *expected, "{name} differs");
        let document = result(folder.path(), &["verify", name, "--json"]);
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["passed"], true, "{name}: {document}");
    }
}

#[test]
fn files_are_named_as_they_are_and_sets_as_wireshark_names_them() {
    let folder = tempfile::tempdir().unwrap();
    for (name, flags) in FORMS {
        generate(folder.path(), name, flags);
    }
    let names = |form: &str| -> Vec<String> {
        let files = files(&folder.path().join(form), 1);
        files.iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("pcap"), ["host1-nic0.pcap"]);
    assert_eq!(names("pcapng"), ["host1-nic0.pcapng"]);
    assert_eq!(names("gzip"), ["host1-nic0.pcap.gz"]);
    assert_eq!(names("zstd"), ["host1-nic0.pcapng.zst"]);
    let split = names("split");
    assert!(split.len() > 2);
    for (number, name) in (1..).zip(&split) {
        assert_eq!(*name, format!("host1-nic0_{number:05}_20260101000000.pcap"));
    }
    for file in files(&folder.path().join("split"), 1) {
        assert!(frames(&[file], "").len() <= 100);
    }
    let sized = files(&folder.path().join("sized"), 1);
    assert!(sized.len() > 2 && sized[0].to_str().unwrap().ends_with("_20260101000000.pcap.zst"));
    let all = std::fs::read_dir(folder.path().join("split/pcap")).unwrap().count();
    assert_eq!(all, (0..4).map(|nic| files(&folder.path().join("split"), nic).len()).sum::<usize>());
}

#[test]
fn wireshark_opens_every_form() {
    let Some(tshark) = judge("tshark") else { return };
    let zstd = judged(&tshark, &["--version"]).contains("with Zstandard");
    let folder = tempfile::tempdir().unwrap();
    let mut first: Option<String> = None;
    for (name, flags) in FORMS.iter().filter(|(name, _)| zstd || !["zstd", "sized"].contains(name)) {
        generate(folder.path(), name, flags);
        let fields =
            ["-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "infiniband.bth.psn"];
        let said: String = files(&folder.path().join(name), 2)
            .iter()
            .map(|file| judged(&tshark, &[&["-n", "-r", file.to_str().unwrap()], &fields[..]].concat()))
            .collect();
        assert!(said.lines().count() > 100 && said.starts_with("1767225600."), "{name}: {said}");
        assert!(said == *first.get_or_insert_with(|| said.clone()), "{name} differs");
    }
}

#[test]
fn wireshark_shows_who_saw_a_frame_and_why_it_is_there() {
    let Some(tshark) = judge("tshark") else { return };
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path(), "merged", &["--merge"]);
    let trace = folder.path().join("merged");
    let merged = files(&trace, 0);
    assert_eq!(merged, [trace.join("pcap/merged.pcapng")]);
    assert!((1..4).all(|nic| files(&trace, nic) == merged), "all NICs name the one file");
    let merged = merged[0].to_str().unwrap();

    let fields = |fields: &[&str]| {
        let fields: Vec<_> = fields.iter().flat_map(|field| ["-e", field]).collect();
        judged(&tshark, &[&["-n", "-r", merged, "-T", "fields"], &fields[..]].concat())
    };
    let said =
        fields(&["frame.interface_name", "frame.packet_flags_direction", "eth.src", "frame.time_epoch"]);
    let mut last = String::new();
    let mut seen = std::collections::BTreeSet::new();
    for line in said.lines() {
        let mut parts = line.split('\t');
        let [name, direction, mac, time] = std::array::from_fn(|_| parts.next().unwrap().to_owned());
        let nic: u8 = name.strip_prefix("host").unwrap().strip_suffix("-nic0").unwrap().parse().unwrap();
        let sends = mac == format!("02:00:c6:12:00:{:02x}", nic + 1);
        let outbound = direction == "0x00000002" || direction == "2";
        assert_eq!(sends, outbound, "{line}");
        // Seconds have ten digits in this century, and nine places: text compares as time does.
        assert!(time.len() == 20 && last <= time, "{line}");
        last = time;
        seen.insert(name);
    }
    assert_eq!(seen.len(), 4);

    // The first frame of a message has a comment, where it is sent and where it is received, and no other has.
    let said = fields(&["infiniband.reth.dmalen", "frame.comment"]);
    let mut comments = Vec::new();
    for line in said.lines() {
        let (length, comment) = line.split_once('\t').unwrap();
        assert_eq!(!comment.is_empty() && !length.is_empty(), !comment.is_empty(), "{line}");
        if let Some((_, message)) = comment.split_once("; message qp") {
            let hexadecimal = |_| u64::from_str_radix(length.trim_start_matches("0x"), 16).unwrap();
            let bytes = length.parse().unwrap_or_else(hexadecimal);
            assert!(message.contains(&format!(", {bytes} bytes, rank ")), "{line}");
            assert!(comment.starts_with("step 0, ") && message.contains(" -> rank "), "{line}");
            comments.push(comment.to_owned());
        }
    }
    comments.sort();
    assert!(comments.len() > 20);
    assert!(comments.chunks(2).all(|pair| pair[0] == pair[1]), "each message once sent, once received");
    assert!(comments.iter().any(|comment| comment.contains("backward, dp_gradients: all_reduce of group ")));

    // Names of addresses, for those who want them shown.
    let names = judged(&tshark, &["-N", "n", "-r", merged, "-c", "40", "-T", "fields", "-e", "ip.src_host"]);
    assert!(names.contains("host0-nic0") && names.contains("host1-nic0"), "{names}");
}

#[test]
fn the_merged_capture_does_not_depend_on_threads_and_a_lone_one_is_judged_port_by_port() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path(), "one", &["--merge", "--threads", "1"]);
    generate(folder.path(), "three", &["--merge", "--threads", "3", "--format", "pcapng"]);
    let read = |name: &str| std::fs::read(folder.path().join(name).join("pcap/merged.pcapng")).unwrap();
    assert!(read("one") == read("three"));
    let said = result(folder.path(), &["verify", "one/pcap/merged.pcapng"]);
    assert!(!said.contains("WRONG"), "{said}");
}

#[test]
fn a_merge_into_pcap_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    let said =
        tokenwire(folder.path(), &["generate", "plan.toml", "-o", "trace", "--merge", "--format", "pcap"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("--merge needs pcapng"), "{}", said.err);
    assert!(!folder.path().join("trace").exists());
}

#[test]
fn a_merged_and_compressed_trace_is_replayed_by_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path(), "trace", &["--merge", "--compress", "zstd", "--split-frames", "500"]);
    let arguments = ["replay", "trace", "--mode", "timed", "--speed", "0.01", "--lab", "loopback", "--json"];
    let document = result(folder.path(), &arguments);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["partial"], false, "{document}");
    assert_eq!(document["mode"], "timed");
}
