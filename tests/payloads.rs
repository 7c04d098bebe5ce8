//! What messages carry, as judges see it that know nothing of this program: the words of a text in the bytes of its
//! activations' frames, noise that no dissector takes for anything else, and invariant CRCs over both.

use std::path::{Path, PathBuf};

use crate::program::{judge, judged, result, root};

/// A plan of two stages.
#[derive(Clone, Copy)]
struct Shape {
    hidden: u32,
    tensor: u32,
    sequence: u32,
    path_mtu: u32,
}

impl Shape {
    fn plan(self, payload: &str, addresses: &str) -> String {
        let Self { hidden, tensor, sequence, path_mtu } = self;
        format!(
            "version = 1\nname = \"words\"\nseed = 3\n\
             [model]\nfamily = \"gpt\"\nlayers = 2\nhidden = {hidden}\nheads = {tensor}\nvocab = 11\n\
             [training]\nsequence_length = {sequence}\nmicro_batch = 3\nglobal_batch = 6\ntext = \"verse.txt\"\n\
             [parallelism]\npipeline = 2\ntensor = {tensor}\n\
             [cluster]\nhosts = {}\ngpus_per_host = 1\nlink = \"100Gbit\"\naddresses = \"{addresses}\"\n\
             [transport]\npayload = \"{payload}\"\npath_mtu = {path_mtu}\n",
            2 * tensor
        )
    }
}

const V4: &str = "198.18.0.0/15";
const V6: &str = "2001:2::/48";

/// The trace of a plan, in `folder`.
fn generate(folder: &Path, plan: &str, more: &[&str]) -> Vec<PathBuf> {
    std::fs::write(folder.join("verse.txt"), VERSE).unwrap();
    std::fs::write(folder.join("plan.toml"), plan).unwrap();
    result(folder, &[&["generate", "plan.toml", "-o", "trace", "--force"], more].concat());
    let mut captures: Vec<_> =
        std::fs::read_dir(folder.join("trace/pcap")).unwrap().map(|entry| entry.unwrap().path()).collect();
    captures.sort();
    captures
}

const VERSE: &str = "Nel mezzo del cammin di nostra vita";

/// The tokens of the verse.
const TOKENS: [&str; 12] =
    ["N", "el", " me", "zzo", " del", " cam", "min", " di", " nost", "ra", " v", "ita"];

#[test]
fn the_words_of_a_text_travel_from_stage_to_stage_in_order() {
    let Some(tshark) = judge("tshark") else { return };
    let folder = tempfile::tempdir().unwrap();
    // Slots of 128 bytes, two in a frame: a sequence of 16 tokens is eight frames.
    let shape = Shape { hidden: 64, tensor: 2, sequence: 16, path_mtu: 256 };
    let captures = generate(folder.path(), &shape.plan("token", V4), &[]);
    // Ranks 0 and 2 are the stages of tensor rank 0, each on a host of its own.
    let capture = captures[0].to_str().unwrap();
    let sent = "ip.src == 198.18.0.1 && ip.dst == 198.18.0.3 && data";
    let fields =
        ["-T", "fields", "-e", "infiniband.bth.destqp", "-e", "infiniband.bth.psn", "-e", "data.data"];
    let found = judged(&tshark, &[&["-n", "-r", capture, "-Y", sent][..], &fields].concat());
    let mut frames: Vec<Vec<&str>> = found.lines().map(|line| line.split('\t').collect()).collect();
    let pair = frames[0][0];
    frames.retain(|frame| frame[0] == pair);
    let words: Vec<String> = frames.iter().map(|frame| words(&unhex(frame[2]))).collect();

    for (frame, said) in words.iter().enumerate().take(8) {
        for slot in [2 * frame, 2 * frame + 1] {
            let name = TOKENS
                .get(slot)
                .map_or_else(|| format!("[pad] token {slot} "), |text| format!("[{text}] token {slot} "));
            assert!(
                said.contains(&name) && said.contains(" seq 0"),
                "frame {frame} should name {name}: {said}"
            );
        }
    }
    let travelled: String =
        TOKENS.iter().filter(|text| words.concat().contains(&format!("[{text}] token"))).copied().collect();
    assert_eq!(travelled, VERSE);
    // The second sequence of the microbatch reads the verse again.
    assert!(words[8].contains("[N] token 0 ") && words[8].contains(" seq 1"), "{}", words[8]);

    // What a person sees in the byte pane: sixteen bytes a line, the payload behind 54 bytes of headers.
    let pane =
        judged(&tshark, &["-n", "-x", "-r", capture, "-Y", &format!("{sent} && infiniband.bth.psn == 1")]);
    assert!(pane.contains("[ me] toke") && pane.contains("n 2 id 502 seq 0"), "{pane}");
}

/// From slots of four bytes to slots of several frames, and messages that end with pad bytes (3 x 15 x 37 x 2).
const SHAPES: [Shape; 4] = [
    Shape { hidden: 2, tensor: 2, sequence: 16, path_mtu: 256 },
    Shape { hidden: 37, tensor: 1, sequence: 15, path_mtu: 1024 },
    Shape { hidden: 2048, tensor: 2, sequence: 16, path_mtu: 1024 },
    Shape { hidden: 3000, tensor: 2, sequence: 16, path_mtu: 4096 },
];

#[test]
fn judges_find_nothing_wrong_with_any_payload() {
    let (Some(python), Some(tshark)) = (judge("python3"), judge("tshark")) else { return };
    let script = root().join("tests/judges/icrc.py");
    for payload in ["random", "token"] {
        for addresses in [V4, V6] {
            for shape in SHAPES {
                let folder = tempfile::tempdir().unwrap();
                let captures = generate(folder.path(), &shape.plan(payload, addresses), &[]);
                let captures: Vec<_> = captures.iter().map(|path| path.to_str().unwrap()).collect();
                let case = format!("{payload} {addresses} {}", shape.hidden);

                judged(&python, &[&[script.to_str().unwrap()], &captures[..]].concat());
                // One port of each stage; the others of a tensor group carry the like.
                for capture in [captures[0], captures[captures.len() - 1]] {
                    let checks = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"];
                    let fields = [
                        "-T",
                        "fields",
                        "-e",
                        "frame.protocols",
                        "-e",
                        "_ws.expert.message",
                        "-e",
                        "_ws.col.Info",
                    ];
                    let said = judged(&tshark, &[&["-n", "-r", capture], &checks[..], &fields].concat());
                    assert!(said.lines().count() > 6, "{case}: {capture} has frames");
                    for line in said.lines() {
                        let mut columns = line.split('\t');
                        let protocols = columns.next().unwrap();
                        let right =
                            protocols.ends_with(":infiniband") || protocols.ends_with(":infiniband:data");
                        assert!(
                            right && columns.next() == Some("") && !line.contains("Malformed"),
                            "{case}: {line}"
                        );
                    }
                }
                let text = result(folder.path(), &["verify", "trace", "--json"]);
                let document: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(document["passed"], true, "{case}: {text}");
            }
        }
    }
}

#[test]
fn a_frame_carries_the_same_whichever_part_of_a_trace_is_written_and_by_how_many_threads() {
    for payload in ["random", "token"] {
        let folder = tempfile::tempdir().unwrap();
        let plan = Shape { hidden: 48, tensor: 2, sequence: 16, path_mtu: 4096 }.plan(payload, V4);
        let whole: Vec<_> = generate(folder.path(), &plan, &["--threads", "4"])
            .iter()
            .map(|path| std::fs::read(path).unwrap())
            .collect();
        let part = generate(folder.path(), &plan, &["--threads", "1", "--nics", "2"]);
        assert_eq!((whole.len(), part.len()), (4, 1));
        assert_eq!(std::fs::read(&part[0]).unwrap(), whole[2]);
        let manifest = std::fs::read_to_string(folder.path().join("trace/manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        assert_eq!(manifest["transport"]["payload"], payload);
    }
}

/// What of these bytes a person can read.
fn words(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| if matches!(byte, b' '..=b'~') { char::from(byte) } else { '.' }).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap())
        .collect()
}
