//! Golden frames: `tests/golden/frames` holds a file for each opcode and each combination of headers, with its bytes and
//! with what Wireshark reads in them, to be reviewed like code.
//!
//! `UPDATE_GOLDEN=1 cargo test --test whole golden` writes the files anew. Dissections are compared where the installed
//! tshark has the version that they are from; another one must find nothing wrong all the same.

mod hosts;
mod scene;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use traces::pcap::PcapWriter;
use traces::unit::Nanos;
use traces::wire::{Opcode, Parsed, ParsedFrame};

use crate::program::{judge, judged, root};
use scene::{Golden, frames};

/// The version of tshark that the dissections are from.
pub(crate) const TSHARK: &str = "4.0.17";

#[test]
fn every_frame_has_the_bytes_that_were_reviewed() {
    if updating() {
        return;
    }
    for golden in frames() {
        let reviewed = read(&golden);
        assert!(
            reviewed.starts_with(&head(&golden)),
            "{} is now\n{}\nwhich UPDATE_GOLDEN=1 writes; review the difference",
            path(&golden.name).display(),
            head(&golden)
        );
    }
}

#[test]
fn wireshark_reads_in_every_frame_what_was_reviewed() {
    let Some(tshark) = judge("tshark") else { return };
    let version = version(&tshark);
    if version != TSHARK && !updating() {
        say(&format!("the dissections are from tshark {TSHARK}, here is {version}: they were not compared"));
        return;
    }
    assert_eq!(
        version, TSHARK,
        "files are written by one version, so that their differences are the frames'"
    );
    let folder = tempfile::tempdir().unwrap();
    let frames = frames();
    let said = run(&tshark, &capture(folder.path(), &frames), &["-O", "vlan,ip,ipv6,udp,infiniband"]);
    let dissections = dissections(&said);
    assert_eq!(dissections.len(), frames.len(), "{said}");
    for (golden, dissection) in frames.iter().zip(dissections) {
        let text = format!("{}\ntshark {TSHARK}\n\n{dissection}", head(golden));
        if updating() {
            std::fs::write(path(&golden.name), text).unwrap();
        } else {
            assert_eq!(read(golden), text, "{}", path(&golden.name).display());
        }
    }
}

#[test]
fn every_file_has_its_frame() {
    let frames: BTreeSet<_> = frames().iter().map(|golden| path(&golden.name)).collect();
    for entry in std::fs::read_dir(path("").parent().unwrap()).unwrap() {
        let file = entry.unwrap().path();
        assert!(frames.contains(&file), "no frame is called {}; remove it", file.display());
        assert!(file.metadata().unwrap().len() <= 64 << 10, "{} is too long to be read", file.display());
    }
}

#[test]
fn every_opcode_has_its_frame() {
    let frames = frames();
    let opcodes: BTreeSet<_> = frames.iter().map(|golden| parsed(&golden.bytes).bth.opcode).collect();
    let all: BTreeSet<_> = Opcode::ALL.iter().map(|opcode| opcode.byte()).collect();
    assert_eq!(opcodes, all);
    let names: BTreeSet<_> = frames.iter().map(|golden| &golden.name).collect();
    assert_eq!(names.len(), frames.len(), "each has a name of its own");
    for golden in &frames {
        let opcode = format!("{:02x}-", parsed(&golden.bytes).bth.opcode);
        assert!(golden.name.starts_with(&opcode), "{} is named by its opcode", golden.name);
    }
}

#[test]
fn every_frame_carries_the_invariant_crc_of_its_bytes() {
    for golden in frames() {
        let frame = parsed(&golden.bytes);
        assert_eq!(frame.icrc, frame.computed_icrc(), "{}", golden.name);
        assert!(frame.trailer.is_empty() || golden.bytes.len() == 60, "{}", golden.name);
    }
    let [plain, marked] = ["0a-write-only", "0a-marked"]
        .map(|name| frames().into_iter().find(|golden| golden.name == name).unwrap());
    assert_ne!(plain.bytes, marked.bytes);
    assert_eq!(parsed(&plain.bytes).icrc, parsed(&marked.bytes).icrc, "switches may mark and count hops");
}

#[test]
fn wireshark_finds_nothing_wrong_with_any_frame() {
    let Some(tshark) = judge("tshark") else { return };
    let folder = tempfile::tempdir().unwrap();
    let frames = frames();
    let capture = capture(folder.path(), &frames);
    let wrong = "_ws.malformed || _ws.expert.severity >= 0x600000 || !infiniband";
    assert_eq!(run(&tshark, &capture, &["-Y", wrong]), "");
    let protocols = run(&tshark, &capture, &["-T", "fields", "-e", "frame.protocols", "-e", "_ws.col.Info"]);
    assert_eq!(protocols.lines().count(), frames.len());
    for (line, golden) in protocols.lines().zip(&frames) {
        let protocols = line.split('\t').next().unwrap();
        let right = protocols.ends_with(":infiniband") || protocols.ends_with(":infiniband:data");
        assert!(right && !line.contains("Malformed"), "{}: {line}", golden.name);
    }
}

/// The fields of connection management as Wireshark names them: what one end says is what the other reads. Not here: the
/// path's flow label and rate, which Wireshark 4.0 takes from the wrong bytes.
#[test]
fn wireshark_reads_the_fields_of_connection_management_as_they_are_meant() {
    let Some(tshark) = judge("tshark") else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, fields) in MEANT {
        let frame = frames().into_iter().find(|golden| golden.name == *name).unwrap();
        let capture = capture(folder.path(), &[frame]);
        let names: Vec<_> = fields.iter().map(|(field, _)| format!("infiniband.{field}")).collect();
        let mut arguments = vec!["-T", "fields"];
        arguments.extend(names.iter().flat_map(|name| ["-e", name]));
        let said = run(&tshark, &capture, &arguments);
        let read = names.iter().map(String::as_str).zip(said.trim_end_matches('\n').split('\t'));
        let meant = names.iter().map(String::as_str).zip(fields.iter().map(|(_, meant)| *meant));
        assert_eq!(read.collect::<Vec<_>>(), meant.collect::<Vec<_>>(), "{name}");
    }
}

/// Fields of a frame, without the `infiniband.` in front, and their values.
type Fields = &'static [(&'static str, &'static str)];

const MEANT: &[(&str, Fields)] = &[
    (
        "64-cm-req",
        &[
            ("deth.q_key", "0x0000000080010000"),
            ("deth.srcqp", "0x00000001"),
            ("bth.destqp", "0x000001"),
            ("mad.mgmtclass", "0x07"),
            ("mad.attributeid", "0x0010"),
            ("mad.transactionid", "0x000000031f000001"),
            ("cm.req", "0x1f000001"),
            ("cm.req.serviceid.prefix", "0000000001"),
            ("cm.req.serviceid.protocol", "0x06"),
            ("cm.req.serviceid.dport", "0x1d2f"),
            ("cm.req.localcaguid", "0x0200c6fffe120001"),
            ("cm.req.localqpn", "0x000124"),
            ("cm.req.responderres", "0x01"),
            ("cm.req.initdepth", "0x01"),
            ("cm.req.remoteresptout", "0x14"),
            ("cm.req.transpsvctype", "0x00"),
            ("cm.req.startpsn", "0x89bb0e"),
            ("cm.req.localresptout", "0x14"),
            ("cm.req.retrcount", "0x07"),
            ("cm.req.pkey", "0xffff"),
            ("cm.req.pppmtu", "0x03"),
            ("cm.req.rnrretrcount", "0x07"),
            ("cm.req.maxcmretr", "0x0f"),
            ("cm.req.prim_locallid", "65535"),
            ("cm.req.prim_localgid_ipv4", "198.18.0.1"),
            ("cm.req.prim_remotegid_ipv4", "198.18.0.2"),
            ("cm.req.prim_hoplim", "0x40"),
            ("cm.req.prim_localacktout", "0x13"),
            ("cm.req.ip_cm.ipv", "0x04"),
            ("cm.req.ip_cm.sport", "0x9c40"),
            ("cm.req.ip_cm.sip4", "198.18.0.1"),
            ("cm.req.ip_cm.dip4", "198.18.0.2"),
        ],
    ),
    (
        "64-cm-req-v6",
        &[
            ("cm.req.prim_localgid", "2001:2::1"),
            ("cm.req.prim_remotegid", "2001:2::2"),
            ("cm.req.ip_cm.ipv", "0x06"),
            ("cm.req.ip_cm.sip6", "2001:2::1"),
            ("cm.req.ip_cm.dip6", "2001:2::2"),
        ],
    ),
    (
        "64-cm-rep",
        &[
            ("mad.transactionid", "0x000000031f000001"),
            ("cm.rep", "0x1f000002"),
            ("cm.rep.remotecommid", "0x1f000001"),
            ("cm.rep.localqpn", "0x0002a7"),
            ("cm.rep.startpsn", "0xc23298"),
            ("cm.rep.respres", "0x01"),
            ("cm.rep.initdepth", "0x01"),
            ("cm.rep.tgtackdelay", "0x0f"),
            ("cm.rep.rnrretrcount", "0x07"),
            ("cm.rep.localcaguid", "0x0200c6fffe120002"),
        ],
    ),
    ("64-cm-rtu", &[("cm.rtu.localcommid", "0x1f000001"), ("cm.rtu.remotecommid", "0x1f000002")]),
    (
        "64-cm-rej",
        &[
            ("cm.rej.localcommid", "0x00000000"),
            ("cm.rej.remotecommid", "0x1f000001"),
            ("cm.rej.msgrej", "0x00"),
            ("cm.rej.reason", "0x0008"),
        ],
    ),
    (
        "64-cm-dreq",
        &[
            ("cm.dreq.localcommid", "0x1f000001"),
            ("cm.dreq.remotecommid", "0x1f000002"),
            ("cm.req.remoteqpneecn", "0x0002a7"),
        ],
    ),
    ("64-cm-drep", &[("cm.drsp.localcommid", "0x1f000002"), ("cm.drsp.remotecommid", "0x1f000001")]),
];

pub(crate) fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// The first part of a file: the title and the bytes, sixteen a line.
fn head(golden: &Golden) -> String {
    let mut text = format!("{}\n\n", golden.title);
    for (line, bytes) in golden.bytes.chunks(16).enumerate() {
        let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        text += &format!("{:04x}  {}\n", 16 * line, bytes.join(" "));
    }
    text
}

fn path(name: &str) -> PathBuf {
    root().join(format!("tests/golden/frames/{name}.txt"))
}

fn read(golden: &Golden) -> String {
    let path = path(&golden.name);
    std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; UPDATE_GOLDEN=1 writes it", path.display()))
}

fn parsed(bytes: &[u8]) -> ParsedFrame<'_> {
    match ParsedFrame::parse(bytes, bytes.len()).unwrap() {
        Parsed::Roce(frame) => frame,
        Parsed::NotRoce(why) => panic!("{why:?}"),
    }
}

/// A capture of the frames, a microsecond apart.
fn capture(folder: &Path, frames: &[Golden]) -> PathBuf {
    let path = folder.join("golden.pcap");
    let mut writer = PcapWriter::new(std::fs::File::create(&path).unwrap());
    for (at, golden) in (0..).zip(frames) {
        let length = golden.bytes.len();
        writer.record(Nanos(1_000 * at), length, length).unwrap().copy_from_slice(&golden.bytes);
    }
    writer.finish().unwrap();
    path
}

/// Runs tshark so that no setting of the user plays a part. Three heuristics take payload of RDMA for what it is not.
pub(crate) fn run(tshark: &Path, capture: &Path, arguments: &[&str]) -> String {
    let settings = format!("WIRESHARK_CONFIG_DIR={}", capture.parent().unwrap().display());
    let fixed = [settings.as_str(), tshark.to_str().unwrap(), "-n", "-r", capture.to_str().unwrap()];
    let checks = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"];
    let heuristics = ["rpcrdma_infiniband", "eth_over_ib", "smb_direct_infiniband"]
        .map(|heuristic| ["--disable-heuristic", heuristic])
        .concat();
    judged(Path::new("/usr/bin/env"), &[&fixed[..], &checks[..], &heuristics[..], arguments].concat())
}

pub(crate) fn version(tshark: &Path) -> String {
    let said = judged(tshark, &["--version"]);
    said.split_whitespace().nth(2).unwrap_or_default().trim_end_matches('.').to_owned()
}

/// The text of each frame from Ethernet on, without what depends on its place in the capture.
fn dissections(said: &str) -> Vec<String> {
    let of_the_capture = ["[Stream index:", "[Timestamps]", "[Time since"];
    let mut texts: Vec<String> = Vec::new();
    for line in said.lines() {
        if line.starts_with("Frame ") {
            texts.push(String::new());
        } else if let Some(text) = texts.last_mut()
            && !line.is_empty()
            && !of_the_capture.iter().any(|start| line.trim_start().starts_with(start))
        {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    texts
}

#[expect(clippy::print_stderr, reason = "a comparison that was not made is said aloud")]
pub(crate) fn say(what: &str) {
    eprintln!("{what}");
}
