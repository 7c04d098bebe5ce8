//! Frames judged by programs that know nothing of this one: Wireshark's dissector, and an independent invariant CRC.

use std::path::{Path, PathBuf};

use crate::program::{judge, judged, result, root};

/// Plans that make every shape of frame: sizes that do not divide, a VLAN, IPv6, each payload, small path MTUs.
const PLANS: &[(&str, &str)] = &[
    ("plain", ""),
    ("vlan", "[cluster_more]\nvlan = 5"),
    ("v6", "[cluster_more]\naddresses = \"2001:2::/48\""),
    ("zero", "[transport]\npayload = \"zero\"\npath_mtu = 256"),
    ("small", "[transport]\npath_mtu = 1024\ndscp = 0\necn = 0\nttl = 64"),
];

fn plan(more: &str) -> String {
    let (cluster, rest) = more.strip_prefix("[cluster_more]").map_or(("", more), |cluster| (cluster, ""));
    format!(
        "version = 1\nname = \"judged\"\nseed = 7\n[model]\nfamily = \"gpt\"\nlayers = 4\nhidden = 36\nheads = 4\nvocab = 501\n\
         [training]\nsequence_length = 33\nmicro_batch = 3\nglobal_batch = 12\nsteps = 2\ntokens = 33\n\
         [parallelism]\ntensor = 2\npipeline = 2\ndata = 2\n[cluster]\nhosts = 8\ngpus_per_host = 1\nlink = \"100Gbit\"{cluster}\n{rest}\n"
    )
}

/// The captures of a plan's trace.
fn captures(folder: &Path, more: &str) -> Vec<PathBuf> {
    std::fs::write(folder.join("plan.toml"), plan(more)).unwrap();
    result(folder, &["generate", "plan.toml", "-o", "trace"]);
    let mut captures: Vec<_> =
        std::fs::read_dir(folder.join("trace/pcap")).unwrap().map(|entry| entry.unwrap().path()).collect();
    captures.sort();
    assert_eq!(captures.len(), 8);
    captures
}

#[test]
fn every_invariant_crc_is_right() {
    let Some(python) = judge("python3") else { return };
    let script = root().join("tests/judges/icrc.py");
    for (name, more) in PLANS {
        let folder = tempfile::tempdir().unwrap();
        let captures = captures(folder.path(), more);
        let mut arguments = vec![script.to_str().unwrap()];
        arguments.extend(captures.iter().map(|path| path.to_str().unwrap()));
        let said = judged(&python, &arguments);
        assert_eq!(said.lines().count(), captures.len(), "{name}: {said}");
    }
}

#[test]
fn wireshark_finds_rdma_over_ethernet_and_nothing_wrong() {
    let Some(tshark) = judge("tshark") else { return };
    for (name, more) in PLANS {
        let folder = tempfile::tempdir().unwrap();
        for capture in captures(folder.path(), more) {
            let capture = capture.to_str().unwrap();
            let checks = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"];
            let wrong = "_ws.malformed || _ws.expert.severity >= 0x600000";
            let found = judged(&tshark, &[&["-n", "-r", capture, "-Y", wrong], &checks[..]].concat());
            assert_eq!(found, "", "{name}: {capture}");
            let protocols = judged(
                &tshark,
                &["-n", "-r", capture, "-T", "fields", "-e", "frame.protocols", "-e", "_ws.col.Info"],
            );
            assert!(protocols.lines().count() > 100, "{name}: {capture} has frames");
            for line in protocols.lines() {
                let protocols = line.split('\t').next().unwrap();
                let right = protocols.ends_with(":infiniband") || protocols.ends_with(":infiniband:data");
                assert!(right && !line.contains("Malformed"), "{name}: {line}");
            }
        }
    }
}

#[test]
fn the_demos_frames_pass_both_judges() {
    let (Some(python), Some(tshark)) = (judge("python3"), judge("tshark")) else { return };
    let folder = tempfile::tempdir().unwrap();
    result(folder.path(), &["generate", "demo", "-o", "trace", "--steps", "1"]);
    for host in 0..4 {
        let capture = folder.path().join(format!("trace/pcap/host{host}-nic0.pcap"));
        let capture = capture.to_str().unwrap();
        judged(&python, &[root().join("tests/judges/icrc.py").to_str().unwrap(), capture]);
        let wrong = "_ws.malformed || _ws.expert.severity >= 0x600000 || !infiniband";
        assert_eq!(judged(&tshark, &["-n", "-r", capture, "-Y", wrong]), "", "{capture}");
    }
}

#[test]
fn the_critic_finds_nothing_wrong_with_what_is_generated() {
    for (name, more) in PLANS {
        let folder = tempfile::tempdir().unwrap();
        captures(folder.path(), more);
        let text = result(folder.path(), &["verify", "trace", "--json"]);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["passed"], true, "{name}: {text}");
        let icrc =
            document["checks"].as_array().unwrap().iter().find(|check| check["name"] == "icrc").unwrap();
        assert!(icrc["examined"].as_u64().unwrap() > 1_000);
    }
}

#[test]
fn the_critic_sees_a_spoiled_frame() {
    let folder = tempfile::tempdir().unwrap();
    let capture = captures(folder.path(), "").remove(0);
    let mut bytes = std::fs::read(&capture).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&capture, bytes).unwrap();
    let said = crate::program::tokenwire(folder.path(), &["verify", capture.to_str().unwrap()]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.out.contains("icrc") && said.out.contains("WRONG"), "{}", said.out);
}
