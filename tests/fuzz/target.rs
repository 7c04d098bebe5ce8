//! What is fuzzed: how bytes are read, and how much memory reading them may take.

use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::Path;

use generator::plan::Plan;
use traces::critic::{Critic, Vantage};
use traces::folder::TraceFolder;
use traces::graph::encode::{GraphReader, MAGIC};
use traces::pcap::{CaptureReader, Packing};
use traces::wire::management::Mad;
use traces::wire::{Mac, Packet, Parsed, ParsedFrame};

use crate::corpus::Material;
use crate::mutate::Kind;

/// Something that reads bytes.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Inputs that are right.
    pub(crate) examples: fn(&Material) -> Vec<Vec<u8>>,
    /// Where fields and blocks of an input begin, as far as it can be followed.
    pub(crate) seams: fn(&[u8]) -> Vec<usize>,
    /// Reads an input whole; files that it needs go into the folder.
    pub(crate) read: fn(&[u8], &Path) -> Answer,
    /// The most heap that an input may make it hold: so many bytes,
    pub(crate) fixed: usize,
    /// and so many for each of the input's.
    pub(crate) per_byte: usize,
}

/// What came of an input.
pub(crate) struct Answer {
    /// Whether it was read to its end without an error.
    pub(crate) accepted: bool,
    /// The error, or what was read, in words.
    pub(crate) text: String,
}

/// All of them. The bounds are promises: docs/trace-format.md and CONTRIBUTING.md state them.
pub(crate) const TARGETS: &[Target] = &[
    Target {
        name: "frame",
        kind: Kind::Binary,
        examples: |material| material.frames.clone(),
        seams: |_| FRAME_FIELDS.to_vec(),
        read: |bytes, _| read_frame(bytes),
        fixed: 16 << 10,
        per_byte: 0,
    },
    Target {
        name: "management",
        kind: Kind::Binary,
        examples: |material| material.management.clone(),
        seams: |_| MANAGEMENT_FIELDS.to_vec(),
        read: |bytes, _| read_management(bytes),
        fixed: 16 << 10,
        per_byte: 0,
    },
    Target {
        name: "pcap",
        kind: Kind::Binary,
        examples: captures,
        seams: record_seams,
        read: |bytes, _| read_pcap(bytes),
        // The window, and what gunzip takes; the names of interfaces are kept.
        fixed: (1 << 20) + (512 << 10),
        per_byte: 32,
    },
    Target {
        name: "pcapng",
        kind: Kind::Binary,
        examples: Material::sections,
        seams: block_seams,
        read: |bytes, _| read_pcap(bytes),
        // As above.
        fixed: (1 << 20) + (512 << 10),
        per_byte: 32,
    },
    Target {
        name: "packed",
        kind: Kind::Binary,
        examples: Material::packed,
        seams: |bytes| (0..bytes.len().min(24)).collect(),
        read: |bytes, _| read_pcap(bytes),
        // Of what comes out of a small file the window is kept, and 8 MiB of names at most.
        fixed: (10 << 20) + (512 << 10),
        per_byte: 32,
    },
    Target {
        name: "critic",
        kind: Kind::Binary,
        examples: captures,
        seams: record_seams,
        read: |bytes, _| read_critically(bytes),
        fixed: 2 << 20,
        per_byte: 64,
    },
    Target {
        name: "graph",
        kind: Kind::Binary,
        examples: |material| material.graphs.clone(),
        seams: graph_seams,
        read: |bytes, _| read_graph(bytes),
        fixed: 64 << 10,
        per_byte: 64,
    },
    Target {
        name: "manifest",
        kind: Kind::Text,
        examples: |material| material.manifests.clone(),
        seams: word_seams,
        read: read_manifest,
        fixed: 256 << 10,
        per_byte: 32,
    },
    Target {
        name: "plan",
        kind: Kind::Text,
        examples: |material| material.plans.clone(),
        seams: word_seams,
        read: |bytes, _| read_plan(bytes),
        fixed: 4 << 20,
        per_byte: 512,
    },
];

impl Answer {
    fn of<T, E: Display>(result: Result<T, E>, read: impl FnOnce(T) -> String) -> Self {
        match result {
            Ok(value) => Self { accepted: true, text: read(value) },
            Err(error) => Self { accepted: false, text: error.to_string() },
        }
    }
}

fn captures(material: &Material) -> Vec<Vec<u8>> {
    material.captures.iter().cloned().chain([material.capture_of_opcodes()]).collect()
}

/// A frame as captured whole, cut by the capture, and with a length that is a lie; and as a socket gives it.
fn read_frame(bytes: &[u8]) -> Answer {
    let lengths = [bytes.len(), bytes.len() + 1_000, 0, usize::try_from(u32::MAX).unwrap()];
    let [whole, ..] = lengths.map(|length| {
        let parsed = ParsedFrame::parse(bytes, length);
        if let Ok(Parsed::Roce(frame)) = &parsed {
            let inside = frame.payload.len() + frame.pad.len() + frame.trailer.len();
            assert!(inside <= bytes.len() && frame.payload.len() <= frame.payload_length);
            assert!(frame.icrc.is_some() || frame.computed_icrc().is_none());
        }
        parsed
    });
    let body = Packet::parse(bytes.get(42..).unwrap_or_default());
    Answer::of(whole, |parsed| match parsed {
        Parsed::Roce(frame) => format!("opcode {:?}, {:?}", frame.bth.opcode(), body.is_ok()),
        Parsed::NotRoce(other) => format!("{other:?}"),
    })
}

/// A message of connection management, and what is written of it: that must be the same message.
fn read_management(bytes: &[u8]) -> Answer {
    let read = Mad::parse(bytes);
    if let Ok(mad) = &read {
        assert_eq!(Mad::parse(&mad.to_bytes()).as_ref(), Ok(mad));
    }
    Answer::of(read, |mad| mad.message.name().to_owned())
}

fn read_pcap(bytes: &[u8]) -> Answer {
    let read = || {
        let mut reader = CaptureReader::new(bytes)?;
        let (mut frames, mut captured) = (0_u64, 0);
        while let Some(record) = reader.next_record()? {
            frames += 1;
            // Frames of links that are not Ethernet count, and are passed over.
            assert!(record.number >= frames);
            captured += record.bytes.len();
        }
        assert!(captured <= bytes.len() || reader.packing() != Packing::Plain);
        Ok::<_, traces::pcap::PcapError>(frames)
    };
    Answer::of(read(), |frames| format!("{} frames", magnitude(frames)))
}

fn read_critically(bytes: &[u8]) -> Answer {
    let mut critic = Critic::new(&[]);
    let sides = [Vantage::default(), Vantage { mac: Some(Mac([2, 0, 198, 18, 0, 1])), ..Vantage::default() }];
    let read = sides.into_iter().try_for_each(|vantage| {
        let mut reader = CaptureReader::new(bytes)?;
        critic.capture("fuzzed", vantage, &mut reader).map(|_| ())
    });
    let checks = critic.finish();
    for check in &checks {
        assert!(check.violations == 0 || check.examined > 0 || check.examples.is_empty(), "{}", check.name);
    }
    let wrong: Vec<_> =
        checks.iter().filter(|check| check.violations > 0).map(|check| check.name.as_str()).collect();
    Answer::of(read, |()| wrong.join(" "))
}

fn read_graph(bytes: &[u8]) -> Answer {
    let read = || {
        let mut reader = GraphReader::new(bytes)?;
        while let Some(node) = reader.node()? {
            assert!(node.after.iter().all(|&before| before < node.id));
        }
        Ok::<_, traces::graph::encode::GraphError>(reader.totals().nodes)
    };
    Answer::of(read(), |nodes| format!("{} nodes", magnitude(nodes)))
}

fn read_manifest(bytes: &[u8], folder: &Path) -> Answer {
    // The trace that the example describes stands there, so that the files which it names are found.
    let folder = folder.join("trace0");
    fs::create_dir_all(&folder).unwrap();
    let mut file = fs::File::create(folder.join("manifest.json")).unwrap();
    file.write_all(bytes).unwrap();
    let read = TraceFolder::open(&folder).map(|trace| {
        let manifest = trace.manifest();
        let graphs = manifest.hosts.iter().filter(|host| trace.graph(host.id).is_ok()).count();
        let captures = manifest.nics.iter().filter(|nic| trace.captures(nic.id).is_ok()).count();
        format!("{graphs} graphs, {captures} captures")
    });
    Answer::of(read.map_err(|error| chain(&error)), |text| text)
}

/// A plan, and what it writes out: that must be a plan again, and the same.
fn read_plan(bytes: &[u8]) -> Answer {
    let Ok(text) = str::from_utf8(bytes) else {
        return Answer { accepted: false, text: "not UTF-8".to_owned() };
    };
    let words = |_: &str| Ok("In the middle of the journey".to_owned());
    let plan = Plan::read("plan.toml", text, words);
    if let Ok(plan) = &plan {
        let written = plan.to_toml();
        let again = Plan::read("written.toml", &written, words).map(|again| again.to_toml());
        assert_eq!(again.as_deref().ok(), Some(written.as_str()), "{again:?}");
    }
    Answer::of(plan, |plan| format!("{:?} {:?}", plan.parallelism.schedule, plan.transport))
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// How many bits a number has: so that more of the same is no new answer.
fn magnitude(number: u64) -> &'static str {
    ["no", "one", "few", "some", "many"]
        [usize::try_from(number.min(255).checked_ilog2().map_or(0, |log| 1 + log.min(8)) / 2).unwrap().min(4)]
}

/// The header, and of each record its header's fields and its frame's.
fn record_seams(bytes: &[u8]) -> Vec<usize> {
    let mut seams = vec![0, 4, 6, 16, 20];
    let mut at = 24;
    while let Some(length) = bytes.get(at + 8..).and_then(|rest| rest.first_chunk()) {
        seams.push(at);
        if seams.len() % 5 == 0 {
            seams.extend([at + 4, at + 8, at + 12]);
            seams.extend(FRAME_FIELDS.iter().map(|field| at + 16 + field));
        }
        at = at.saturating_add(16).saturating_add(usize::try_from(u32::from_le_bytes(*length)).unwrap());
        if seams.len() > 4_000 {
            break;
        }
    }
    seams.sort_unstable();
    seams
}

/// Each block with its lengths, and words within it: fields, lengths of options.
fn block_seams(bytes: &[u8]) -> Vec<usize> {
    let mut seams = vec![0];
    let mut at = 0;
    while let Some(length) = bytes.get(at + 4..).and_then(|rest| rest.first_chunk()) {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap();
        seams.extend((0..length.min(64)).step_by(4).map(|word| at + word));
        if length < 12 || seams.len() > 4_000 {
            break;
        }
        at = at.saturating_add(length);
        seams.push(at - 4);
    }
    seams
}

/// Each record, its length's varint being its first byte or two, and the keys of the fields in it.
fn graph_seams(bytes: &[u8]) -> Vec<usize> {
    let mut seams = vec![0];
    let mut at = MAGIC.len();
    while let Some(&first) = bytes.get(at) {
        seams.push(at);
        let (length, width) = match bytes.get(at + 1) {
            Some(&second) if first & 0x80 != 0 => {
                (usize::from(first & 0x7f) | usize::from(second & 0x7f) << 7, 2)
            }
            _ => (usize::from(first), 1),
        };
        seams.extend([at + width, at + width + 1, at + width + 2]);
        at += width + length;
    }
    seams
}

/// Where words, numbers and lines begin.
fn word_seams(bytes: &[u8]) -> Vec<usize> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts =
        bytes.windows(2).zip(1..).filter(|(pair, _)| !word(pair[0]) && (word(pair[1]) || pair[0] == b'\n'));
    [0].into_iter().chain(starts.map(|(_, at)| at)).collect()
}

/// Fields of a frame over IPv4: Ethernet, IP, UDP, base header, extension headers. With a tag or over IPv6 they point at others.
const FRAME_FIELDS: &[usize] = &[
    0, 6, 12, 14, 15, 16, 18, 20, 22, 23, 24, 26, 30, 34, 36, 38, 40, 42, 43, 44, 46, 47, 50, 51, 54, 55, 58,
    62, 66, 70, 74, 86,
];

/// Fields of a management datagram: its head, and places that messages have fields at.
const MANAGEMENT_FIELDS: &[usize] = &[
    0, 1, 2, 3, 8, 16, 17, 24, 28, 32, 33, 36, 40, 48, 56, 60, 63, 67, 68, 71, 72, 74, 75, 76, 78, 80, 96,
    112, 115, 116, 117, 118, 119, 120, 164, 165, 166, 168, 184, 200,
];
