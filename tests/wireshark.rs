//! The companion for Wireshark in docs/wireshark, judged by tshark: what it says of frames is what the trace folder says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use traces::folder::TraceFolder;
use traces::graph::{Message, Work};
use traces::id::HostId;
use traces::pcap::CaptureReader;
use traces::pcap::write::PcapWriter;
use traces::unit::Nanos;

use crate::program::{judge, result, root};

/// Tensor, pipeline and data parallelism over eight hosts: every kind of origin, some hundred messages a NIC.
const PLAN: &str = "version = 1\nname = \"companion\"\nseed = 7\n[model]\nfamily = \"gpt\"\nlayers = 4\nhidden = 36\n\
    heads = 4\nvocab = 501\n[training]\nsequence_length = 33\nmicro_batch = 3\nglobal_batch = 12\nsteps = 2\ntokens = 33\n\
    [parallelism]\ntensor = 2\npipeline = 2\ndata = 2\n[cluster]\nhosts = 8\ngpus_per_host = 1\nlink = \"100Gbit\"\n\
    [transport]\npath_mtu = 1024\n";

const PATH_MTU: u64 = 1024;

/// A trace, and tshark with the companion and no configuration but that.
struct Bench {
    tshark: PathBuf,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Option<Self> {
        Self::of(PLAN)
    }

    fn of(plan: &str) -> Option<Self> {
        let tshark = judge("tshark")?;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("plan.toml"), plan).unwrap();
        result(folder.path(), &["generate", "plan.toml", "-o", "trace"]);
        Some(Self { tshark, folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn capture(&self, host: u32) -> PathBuf {
        self.path(&format!("trace/pcap/host{host}-nic0.pcap"))
    }

    fn manifest(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path("trace/manifest.json")).unwrap()).unwrap()
    }

    /// Runs tshark on a capture in `folder`, which must end well and complain of nothing.
    fn run(&self, capture: &Path, arguments: &[&str]) -> String {
        let script = format!("lua_script:{}", root().join("docs/wireshark/tokenwire.lua").display());
        let output = Command::new(&self.tshark)
            .args(["-n", "-X", &script, "-r"])
            .arg(capture)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("XDG_CONFIG_HOME", self.path("config"))
            .output()
            .unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        let complaints: Vec<_> =
            complaints.lines().filter(|line| !line.starts_with("Running as user \"root\"")).collect();
        assert!(output.status.success() && complaints.is_empty(), "{arguments:?}: {complaints:#?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// These fields of the frames that a filter lets pass; an absent one is empty.
    fn fields(&self, capture: &Path, filter: &str, fields: &[&str], more: &[&str]) -> Vec<Vec<String>> {
        let mut arguments = vec!["-Y", filter, "-T", "fields"];
        arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
        arguments.extend(more);
        let said = self.run(capture, &arguments);
        said.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    fn count(&self, capture: &Path, filter: &str) -> usize {
        self.run(capture, &["-Y", filter]).lines().count()
    }

    /// The messages that a host sends, from its graph.
    fn messages(&self, host: u32) -> Vec<Message> {
        let mut graph = TraceFolder::open(self.path("trace")).unwrap().graph(HostId(host)).unwrap();
        std::iter::from_fn(|| graph.node().unwrap())
            .filter_map(|node| match node.work {
                Work::Send(message) => Some(message),
                _ => None,
            })
            .collect()
    }
}

/// Frames of a message.
fn frames(message: &Message) -> u64 {
    message.bytes.0.div_ceil(PATH_MTU).max(1)
}

/// The records of a capture: times and bytes.
fn records(capture: &Path) -> Vec<(Nanos, Vec<u8>)> {
    let mut reader = CaptureReader::new(fs::File::open(capture).unwrap()).unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        records.push((record.time, record.bytes.to_vec()));
    }
    records
}

fn write(capture: &Path, records: &[(Nanos, Vec<u8>)]) {
    let mut writer = PcapWriter::new(fs::File::create(capture).unwrap());
    for (time, bytes) in records {
        writer.frame(*time, bytes, bytes.len()).unwrap();
    }
    writer.finish().unwrap();
}

/// Bytes of an untagged IPv4 frame.
const FROM: std::ops::Range<usize> = 26..30;
const TO: std::ops::Range<usize> = 30..34;
const PORT: std::ops::Range<usize> = 34..36;
const OPCODE: usize = 42;
const QPN: std::ops::Range<usize> = 47..50;
const PSN: std::ops::Range<usize> = 51..54;
const SYNDROME: usize = 54;
const PAYLOAD_OF_MIDDLE: usize = 54;

#[test]
fn every_frame_is_told_the_origin_that_the_graph_gives_its_message() {
    let Some(bench) = Bench::new() else { return };
    let columns = [
        "step",
        "microbatch",
        "layer",
        "phase",
        "class",
        "operation",
        "group",
        "instance",
        "collective_step",
        "channel",
        "slice",
        "message.bytes",
        "message.frames",
        "source",
        "host",
        "rank",
    ]
    .map(|column| format!("tokenwire.{column}"));
    let mut asked = vec!["tokenwire.message", "tokenwire.message.frame"];
    asked.extend(columns.iter().map(String::as_str));
    for host in [0, 5] {
        let expected: BTreeMap<_, _> = bench
            .messages(host)
            .into_iter()
            .map(|message| {
                let origin = message.origin;
                let optional =
                    |number: Option<u32>| number.map_or(String::new(), |number| number.to_string());
                let told = [
                    origin.step.to_string(),
                    optional(origin.microbatch),
                    optional(origin.layer),
                    origin.phase.to_string(),
                    origin.class.to_string(),
                    origin.operation.to_string(),
                    origin.group.0.to_string(),
                    origin.instance.to_string(),
                    origin.collective_step.to_string(),
                    origin.channel.to_string(),
                    origin.slice.to_string(),
                    message.bytes.0.to_string(),
                    frames(&message).to_string(),
                    "trace".to_owned(),
                    format!("host{host}"),
                    host.to_string(),
                ];
                (message.id.to_string(), told.to_vec())
            })
            .collect();
        let filter = format!("tokenwire.kind == \"data\" && tokenwire.rank == {host}");
        let mut met: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for row in bench.fields(&bench.capture(host), &filter, &asked, &["-o", "tokenwire.trace:trace"]) {
            assert_eq!(row[2..], expected[&row[0]], "message {}", row[0]);
            assert!(met.entry(row[0].clone()).or_default().insert(row[1].parse().unwrap()), "{row:?}");
        }
        assert_eq!(met.len(), expected.len(), "all messages of host {host} are met");
        for message in bench.messages(host) {
            let numbers: Vec<_> = met[&message.id.to_string()].iter().copied().collect();
            assert_eq!(numbers, (1..=frames(&message)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn filters_count_what_manifest_and_graph_count() {
    let Some(bench) = Bench::new() else { return };
    let manifest = bench.manifest();
    let capture = bench.capture(0);
    for class in manifest["nics"][0]["classes"].as_array().unwrap() {
        let name = class["class"].as_str().unwrap();
        let sent = format!(
            "tokenwire.host == \"host0\" && tokenwire.kind == \"data\" && tokenwire.class == \"{name}\""
        );
        let rows = bench.fields(&capture, &sent, &["tokenwire.message", "tokenwire.message.frame"], &[]);
        assert_eq!(class["frames"], rows.len(), "{name}");
        assert_eq!(class["messages"], rows.iter().filter(|row| row[1] == "1").count(), "{name}");
    }
    let of_layer = |layer| -> u64 {
        bench.messages(0).iter().filter(|message| message.origin.layer == Some(layer)).map(frames).sum()
    };
    for layer in 0..2 {
        let filter =
            format!("tokenwire.layer == {layer} && tokenwire.rank == 0 && tokenwire.kind == \"data\"");
        let counted = bench.count(&capture, &filter);
        assert!(
            counted > 100 && u64::try_from(counted).unwrap() == of_layer(layer),
            "layer {layer}: {counted}"
        );
    }
    assert_eq!(bench.count(&capture, "tokenwire.layer == 3"), 0, "layer 3 is the other stage's");
    for wrong in [
        "tokenwire.retransmission",
        "tokenwire.gap",
        "tokenwire.out_of_order",
        "tokenwire.duplicate_ack",
        "_ws.lua.error",
    ] {
        assert_eq!(bench.count(&capture, wrong), 0, "{wrong}");
    }
    let acknowledged = bench.fields(
        &capture,
        "tokenwire.acknowledges",
        &["frame.number", "tokenwire.acknowledges", "tokenwire.acknowledged_after"],
        &[],
    );
    assert!(acknowledged.len() > 100);
    for row in acknowledged {
        let (number, data): (u64, u64) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        assert!(data < number && row[2].parse::<f64>().unwrap() > 0.0, "{row:?}");
    }
}

#[test]
fn a_lost_frame_shows_as_gap_and_retransmissions() {
    let Some(bench) = Bench::new() else { return };
    // What host 4 receives from host 0 along the pipeline: the fifth frame of the first long message is lost, the receiver
    // says so, and the sender goes back to it.
    let original = records(&bench.capture(4));
    let data = |bytes: &[u8]| matches!(bytes[OPCODE], 6..=9);
    let first = original.iter().find(|(_, bytes)| bytes[OPCODE] == 6).unwrap().1.clone();
    let flow = |bytes: &[u8]| data(bytes) && bytes[QPN] == first[QPN];
    let psn =
        |bytes: &[u8]| u32::from_be_bytes([0, bytes[PSN.start], bytes[PSN.start + 1], bytes[PSN.start + 2]]);
    let start = psn(&first);
    let answers =
        |bytes: &[u8]| bytes[OPCODE] == 0x11 && bytes[TO] == first[FROM] && bytes[PORT] == first[PORT];
    let acknowledgement = original.iter().find(|(_, bytes)| answers(bytes)).unwrap().1.clone();
    let (mut told, mut again) = (Vec::new(), Vec::new());
    for (time, bytes) in original.iter().take(200) {
        let place = psn(bytes).wrapping_sub(start);
        let ours = flow(bytes);
        if ours && (4..=6).contains(&place) {
            again.push(bytes.clone());
        }
        if !(ours && place == 4) {
            told.push((*time, bytes.clone()));
        }
        if ours && place == 5 {
            let mut nak = acknowledgement.clone();
            nak[SYNDROME] = 0x60;
            nak[PSN].copy_from_slice(&(start + 4).to_be_bytes()[1..]);
            told.push((*time, nak));
        }
        if ours && place == 6 {
            told.extend(again.drain(..).map(|bytes| (*time, bytes)));
        }
    }
    let capture = bench.path("lost.pcap");
    write(&capture, &told);
    for trace in ["tokenwire.trace:trace", "tokenwire.trace:"] {
        let more = ["-o", trace];
        let place = |row: &Vec<String>| row[0].parse::<u32>().unwrap() - start;
        // Each cause by the number of its frame: the NAK follows the frame that shows the gap.
        let gap = told.iter().position(|(_, bytes)| flow(bytes) && psn(bytes) == start + 5).unwrap() + 1;
        for (filter, cause) in [("tokenwire.kind == \"nak\"", gap), ("tokenwire.retransmission", gap + 1)] {
            let causes = bench.fields(&capture, filter, &["tokenwire.caused_by"], &more);
            assert!(
                !causes.is_empty() && causes.iter().all(|row| row[0] == cause.to_string()),
                "{filter}: {causes:?}"
            );
        }
        let gaps =
            bench.fields(&capture, "tokenwire.gap == 1", &["infiniband.bth.psn", "_ws.col.Info"], &more);
        assert_eq!(gaps.iter().map(place).collect::<Vec<_>>(), [5]);
        assert!(gaps[0][1].starts_with("[1 missing] "), "{gaps:?}");
        let again = bench.fields(&capture, "tokenwire.retransmission", &["infiniband.bth.psn"], &more);
        assert_eq!(again.iter().map(place).collect::<Vec<_>>(), [4, 5, 6]);
        let nak = bench.fields(
            &capture,
            "tokenwire.kind == \"nak\"",
            &["infiniband.bth.psn", "tokenwire.opcode"],
            &more,
        );
        assert_eq!(
            (nak.iter().map(place).collect::<Vec<_>>(), nak[0][1].as_str()),
            (vec![4], "NAK sequence")
        );
    }
}

#[test]
fn a_wrong_invariant_crc_is_found_where_it_was_planted_and_nowhere_else() {
    let Some(bench) = Bench::new() else { return };
    let mut records = records(&bench.capture(1));
    records.truncate(300);
    let last = records[6].1.len() - 1;
    records[6].1[last] ^= 1;
    let capture = bench.path("spoiled.pcap");
    write(&capture, &records);
    let checked = ["-o", "tokenwire.check_icrc:TRUE"];
    let wrong =
        bench.fields(&capture, "tokenwire.icrc.good == 0", &["frame.number", "_ws.expert.message"], &checked);
    assert_eq!(wrong, [["7", "Invariant CRC is wrong"]]);
    assert_eq!(bench.fields(&capture, "tokenwire.icrc.good == 1", &["frame.number"], &checked).len(), 299);
    assert_eq!(bench.count(&capture, "tokenwire.icrc"), 0, "it is off unless asked for");

    let plan = PLAN.replace("[transport]", "addresses = \"2001:2::/48\"\nvlan = 5\n[transport]");
    let Some(bench) = Bench::of(&plan) else { return };
    let told = ["tokenwire.icrc.good", "tokenwire.source"];
    let rows = bench.fields(&bench.capture(1), "ipv6 && vlan && frame.number <= 300", &told, &checked);
    assert_eq!(rows.iter().filter(|row| row[..] == ["1", "trace"]).count(), 300, "IPv6 and a VLAN tag");
}

#[test]
fn a_stamp_of_a_replay_is_read() {
    let Some(bench) = Bench::new() else { return };
    let mut records = records(&bench.capture(0));
    let middle = records.iter_mut().find(|(_, bytes)| bytes[OPCODE] == 7).unwrap();
    let mut stamp = b"tw\x01\x0a\x00\xc0\xff\xee".to_vec();
    for number in [5_u64, 0x1_0000_0000, 0x1_0000_0007] {
        stamp.extend(number.to_be_bytes());
    }
    middle.1[PAYLOAD_OF_MIDDLE..][..32].copy_from_slice(&stamp);
    let capture = bench.path("stamped.pcap");
    write(&capture, &records);
    let columns = ["run", "sequence", "intended", "departure", "lateness", "class"]
        .map(|part| format!("tokenwire.stamp.{part}"));
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    let said = bench.fields(&capture, "tokenwire.stamp", &columns, &[]);
    assert_eq!(said, [["0x00c0ffee", "5", "4294967296", "4294967303", "7", "10"]]);
}

/// A pcapng file of one interface with nanoseconds, and comments on some frames.
fn commented(records: &[(Nanos, Vec<u8>, Option<String>)]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = u32::try_from(body.len() + 12).unwrap().to_le_bytes();
        [&kind.to_le_bytes(), &length[..], body, &length].concat()
    };
    let padded = |bytes: &[u8]| [bytes, &[0; 3][..(4 - bytes.len() % 4) % 4]].concat();
    let half = |number: usize| u16::try_from(number).unwrap().to_le_bytes();
    let word = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let interface = [&[1, 0, 0, 0][..], &word(65_535), &[9, 0, 1, 0, 9, 0, 0, 0], &[0; 4]].concat();
    let mut file = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    for (time, bytes, comment) in records {
        let [high, low] =
            [time.0 >> 32, time.0 & 0xffff_ffff].map(|part| u32::try_from(part).unwrap().to_le_bytes());
        let mut body =
            [&[0; 4][..], &high, &low, &word(bytes.len()), &word(bytes.len()), &padded(bytes)].concat();
        if let Some(text) = comment {
            body.extend([&half(1)[..], &half(text.len()), &padded(text.as_bytes()), &[0; 4]].concat());
        }
        file.extend(block(6, &body));
    }
    file
}

#[test]
fn a_comment_on_the_first_frame_tells_of_the_whole_message_without_a_trace_folder() {
    let Some(bench) = Bench::new() else { return };
    let comment = "step 1, microbatch 2, layer 3, backward, tp_backward: all_reduce of group 4, collective step 5, \
        channel 1, slice 6; message qp20#17, 9000 bytes, rank 8 -> rank 9";
    let mut records: Vec<_> =
        records(&bench.capture(0)).into_iter().map(|(time, bytes)| (time, bytes, None)).collect();
    let first = records.iter_mut().find(|(_, bytes, _)| bytes[OPCODE] == 6).unwrap();
    first.2 = Some(comment.to_owned());
    let dma_length = u64::from(u32::from_be_bytes(first.1[66..70].try_into().unwrap()));
    let capture = bench.path("commented.pcapng");
    fs::write(&capture, commented(&records)).unwrap();
    let columns = [
        "step",
        "microbatch",
        "layer",
        "phase",
        "class",
        "operation",
        "group",
        "collective_step",
        "channel",
        "slice",
        "message",
        "rank",
        "peer_rank",
    ]
    .map(|column| format!("tokenwire.{column}"));
    let mut asked: Vec<_> = columns.iter().map(String::as_str).collect();
    asked.push("tokenwire.message.frame");
    let of_comment = "tokenwire.source == \"comment\"";
    let rows = bench.fields(&capture, &format!("{of_comment} && tokenwire.kind == \"data\""), &asked, &[]);
    for (place, row) in rows.iter().enumerate() {
        assert_eq!(row[..13].join(" "), "1 2 3 backward tp_backward all_reduce 4 5 1 6 20.17 8 9");
        assert_eq!(row[13], (place + 1).to_string());
    }
    assert_eq!(u64::try_from(rows.len()).unwrap(), dma_length.div_ceil(PATH_MTU));
    let answer = format!("{of_comment} && tokenwire.acknowledges");
    let answers = bench.fields(&capture, &answer, &["tokenwire.rank", "tokenwire.peer_rank"], &[]);
    assert_eq!(answers, [["9", "8"]], "its acknowledgement comes from the other end");
}

#[test]
fn the_profile_loads_and_prints_its_columns() {
    let Some(bench) = Bench::new() else { return };
    let profile = bench.path("config/wireshark/profiles/tokenwire");
    fs::create_dir_all(&profile).unwrap();
    for file in fs::read_dir(root().join("docs/wireshark/tokenwire")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), profile.join(file.file_name())).unwrap();
    }
    // The capture lies in a trace folder, so nobody need say where that is.
    let capture = bench.capture(0);
    let lines = bench.run(&capture, &["-C", "tokenwire", "-Y", "tokenwire.message.frame == 1", "-c", "500"]);
    let line = lines.lines().find(|line| line.contains("tp_forward")).unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert!(words[1].len() == "0.000000000".len(), "nanoseconds: {line}");
    assert_eq!(words[2..7].join(" "), "198.18.0.1 → 198.18.0.2 WRITE First", "{line}");
    assert!(
        line.contains(" 0 1 0 0 tp_forward all_reduce 1 "),
        "rank, to rank, step, layer, class, operation: {line}"
    );

    let coloured =
        bench.fields(&capture, "frame", &["frame.coloring_rule.name"], &["-C", "tokenwire", "--color"]);
    let rules: BTreeSet<_> = coloured.into_iter().flatten().collect();
    for (rule, expected) in
        [("Forward", true), ("Backward", true), ("End of step", true), ("Acknowledgement", true)]
            .into_iter()
            .chain(
                ["NAK", "Wrong checksum", "Retransmission", "Missing or out of order"]
                    .map(|trouble| (trouble, false)),
            )
    {
        assert_eq!(rules.contains(rule), expected, "{rule}: {rules:?}");
    }

    // Each filter of the profile is one that this Wireshark understands.
    let text = |file: &str| fs::read_to_string(root().join("docs/wireshark/tokenwire").join(file)).unwrap();
    let saved = text("dfilters");
    let saved =
        saved.lines().map(|line| line[1..].split_once("\" ").expect("a name and a filter").1.to_owned());
    let buttons = text("dfilter_buttons");
    let buttons = buttons.lines().map(|line| line.split("\",\"").nth(2).unwrap().replace("\\x22", "\""));
    let colours = text("colorfilters");
    let colours = colours
        .lines()
        .filter(|line| line.starts_with('@'))
        .map(|line| line.split('@').nth(2).unwrap().to_owned());
    let filters: Vec<_> = saved.chain(buttons).chain(colours).collect();
    assert!(filters.len() > 25);
    for filter in filters {
        bench.run(&capture, &["-c", "1", "-Y", &filter]);
    }
}

#[test]
fn the_profile_keeps_payloads_from_being_taken_for_protocols() {
    let Some(bench) = Bench::new() else { return };
    let profile = bench.path("config/wireshark/profiles/tokenwire");
    fs::create_dir_all(&profile).unwrap();
    fs::copy(root().join("docs/wireshark/tokenwire/heuristic_protos"), profile.join("heuristic_protos"))
        .unwrap();
    let mut records = records(&bench.capture(0));
    records.retain(|(_, bytes)| bytes[OPCODE] == 7);
    records.truncate(1);
    records[0].1[PAYLOAD_OF_MIDDLE..][..4].copy_from_slice(&[8, 6, 0, 0]);
    let capture = bench.path("trap.pcap");
    write(&capture, &records);
    let protocols = |more: &[&str]| bench.fields(&capture, "frame", &["frame.protocols"], more)[0][0].clone();
    assert!(protocols(&[]).ends_with(":arp"), "Wireshark takes 08 06 00 00 for ARP: {}", protocols(&[]));
    assert!(protocols(&["-C", "tokenwire"]).ends_with(":infiniband:data"));
}
