//! Stories: small traces in which one thing goes wrong, as captures of both ends and as Wireshark's reading of them.
//!
//! `tests/golden/stories` holds of each its plan, its two captures, and the text that one reads beside them. `UPDATE_GOLDEN=1
//! cargo test --test whole stories` writes captures and texts anew. What each story has to show is asked of tshark.

use std::fmt::Write;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::golden::{TSHARK, run, say, updating, version};
use crate::program::{judge, result, root};

const STORIES: [&str; 4] = ["loss", "mark", "rnr", "timeout"];
const HOSTS: [&str; 2] = ["host0", "host1"];
/// The addresses of the sender and the receiver of the first activations.
const SENDER: &str = "198.18.0.1";
const RECEIVER: &str = "198.18.0.2";
/// Payload of a frame of data in every story is 256 bytes, so 24 frames are 6144: 48 tokens, 64 numbers of 2 bytes each.
const FRAMES: u32 = 24;
/// Time zero of every trace, in seconds since 1970.
const ZERO: u64 = 1_767_225_600;
const LONGEST: u64 = 64 << 10;

#[test]
fn every_story_is_generated_as_it_stands() {
    for name in STORIES {
        let trace = trace(name);
        for host in HOSTS {
            let made = std::fs::read(captured(&trace, host)).unwrap();
            assert!(u64::try_from(made.len()).unwrap() <= LONGEST, "{name}: {} bytes", made.len());
            let golden = file(&format!("{name}-{host}-nic0.pcap"));
            if updating() {
                std::fs::write(&golden, &made).unwrap();
                continue;
            }
            let stands = std::fs::read(&golden).unwrap_or_default();
            assert!(
                stands == made,
                "{} is not what its plan gives now; UPDATE_GOLDEN=1 writes it",
                golden.display()
            );
        }
    }
}

#[test]
fn every_story_is_told_as_wireshark_reads_it() {
    let Some(tshark) = judge("tshark") else { return };
    let version = version(&tshark);
    if version != TSHARK && !updating() {
        say(&format!("the stories are from tshark {TSHARK}, here is {version}: they were not compared"));
        return;
    }
    assert_eq!(
        version, TSHARK,
        "files are written by one version, so that their differences are the frames'"
    );
    for name in STORIES {
        let Some(story) = Story::read(name) else { return };
        let path = file(&format!("{name}.txt"));
        let text = story.told(name);
        if updating() {
            std::fs::write(path, text).unwrap();
        } else {
            let stands = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(stands, text, "{}; UPDATE_GOLDEN=1 writes it", path.display());
        }
    }
}

#[test]
fn every_file_belongs_to_a_story() {
    for entry in std::fs::read_dir(file("")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let story = name.split('-').next().unwrap();
        assert!(STORIES.contains(&story), "no story is called {story}; remove {}", path.display());
        assert!(path.metadata().unwrap().len() <= LONGEST, "{} is too long to be read", path.display());
    }
}

#[test]
fn the_critic_finds_nothing_wrong_with_a_story() {
    for name in STORIES {
        let trace = trace(name);
        let said = result(trace.path(), &["verify", "trace"]);
        assert!(!said.contains("WRONG"), "{name}: {said}");
    }
}

#[test]
fn a_lost_frame_is_missed_by_its_receiver_alone_and_all_from_there_on_comes_again() {
    let Some(story) = Story::read("loss") else { return };
    let lost = 6;
    let all: Vec<_> = (0..2 * FRAMES).collect();
    let again: Vec<_> = [&all[..24], &all[6..24], &all[24..]].concat();
    let arrived: Vec<_> = [&all[..6], &all[7..24], &all[6..24], &all[24..]].concat();
    assert_eq!(story.numbers(0), again, "the sender's port misses nothing");
    assert_eq!(story.numbers(1), arrived, "the receiver's port misses the seventh frame");

    let [sent, received] = story.negative();
    assert_eq!(
        (received.syndrome, received.psn),
        (Some(0x60), lost),
        "PSN sequence error, and what was expected"
    );
    assert_eq!((received.from.as_str(), received.msn), (RECEIVER, Some(0)), "no message was completed");
    assert_eq!((sent.syndrome, sent.psn, sent.pair), (received.syndrome, received.psn, received.pair));
    let data = |port| story.data(port);
    let behind = data(1).find(|frame| frame.psn == lost + 1).unwrap();
    assert!(behind.at < received.at, "a frame behind the gap shows it");
    let repetition = data(0).filter(|frame| frame.psn == lost).nth(1).unwrap();
    assert!(sent.at < repetition.at, "nothing is sent again before the sender knows");
    assert_eq!(
        repetition.info, "RC RDMA Write Middle",
        "in the middle of its message, with no address of its own"
    );
    assert!(data(0).all(|frame| frame.at < sent.at || frame.psn >= lost));
    assert!(story.frames.iter().all(|frame| frame.ecn != 3));
}

#[test]
fn marked_frames_make_the_receiver_notify_and_the_sender_slow_down() {
    let Some(story) = Story::read("mark") else { return };
    let marked: Vec<_> = story.frames.iter().filter(|frame| frame.ecn == 3).collect();
    assert!(marked.iter().all(|frame| frame.port == 1), "a mark is seen behind the switch alone");
    assert_eq!(marked.iter().map(|frame| frame.psn).collect::<Vec<_>>(), [2, 3, 4]);

    let notified = |port| story.frames.iter().filter(move |frame| frame.port == port && frame.opcode == 0x81);
    let [sent, received] = [0, 1].map(|port| {
        let all: Vec<_> = notified(port).collect();
        assert_eq!(all.len(), 1, "one notification in 4 us");
        all[0]
    });
    assert!(marked[0].at < received.at, "after its cause");
    let acknowledged =
        story.frames.iter().find(|frame| frame.msn.is_some() && frame.to == SENDER && frame.psn == 63);
    assert_eq!(sent.pair, acknowledged.unwrap().pair, "to the queue pair that sends");
    assert_eq!((sent.from.as_str(), sent.to.as_str(), sent.psn), (RECEIVER, SENDER, 0));

    let gaps: Vec<_> = {
        let frames: Vec<_> = story.data(0).collect();
        frames.windows(2).map(|pair| (pair[0].at, pair[1].at - pair[0].at)).collect()
    };
    let line = gaps.iter().filter(|(at, _)| *at < sent.at).map(|(_, gap)| *gap).min().unwrap();
    let after: Vec<_> = gaps.iter().filter(|(at, _)| *at > sent.at).map(|(_, gap)| *gap).collect();
    let slowest = after.iter().copied().max().unwrap();
    assert!(
        (2 * line - 5..=2 * line + 5).contains(&slowest),
        "half the rate is twice {line} ns, not {slowest}"
    );
    let place = after.iter().position(|gap| *gap == slowest).unwrap();
    assert!(place <= 2, "soon");
    assert!(after[place..].is_sorted_by(|gap, next| gap >= next), "closer and closer again: {after:?}");
    assert!(after.last().unwrap() * 100 <= line * 101, "full rate at the end: {after:?}");
    assert_eq!(story.numbers(0), (0..64).collect::<Vec<_>>(), "nothing is lost");
}

#[test]
fn a_receiver_that_is_not_ready_is_waited_for() {
    let Some(story) = Story::read("rnr") else { return };
    let all: Vec<_> = (0..2 * FRAMES).collect();
    let again: Vec<_> = [&all[..24], &all[23..]].concat();
    assert_eq!(story.numbers(0), again, "the frame that needs a receive is sent again, and no other");
    assert_eq!(story.numbers(1), again);
    let [sent, received] = story.negative();
    for frame in [sent, received] {
        assert_eq!((frame.syndrome, frame.psn), (Some((1 << 5) | 12), FRAMES - 1), "RNR NAK, timer 12");
    }
    let next = story.data(0).find(|frame| frame.at > sent.at).unwrap();
    assert_eq!((next.psn, next.info.as_str()), (FRAMES - 1, "RC RDMA Write Last Immediate"));
    let silent = next.at - sent.at;
    assert!((640_000..650_000).contains(&silent), "timer 12 is 640 us; it was {silent} ns");
}

#[test]
fn the_lost_end_of_a_message_is_repeated_when_patience_ends() {
    let Some(story) = Story::read("timeout") else { return };
    let all: Vec<_> = (0..2 * FRAMES).collect();
    assert_eq!(story.numbers(0), [&all[..], &all[24..]].concat());
    assert_eq!(
        story.numbers(1),
        [&all[..47], &all[24..]].concat(),
        "the last frame came at the second attempt alone"
    );
    assert!(story.frames.iter().all(|frame| frame.syndrome.is_none_or(|syndrome| syndrome < 0x20)), "no NAK");

    let oldest: Vec<_> = story.data(0).filter(|frame| frame.psn == FRAMES).collect();
    let before = story.frames.iter().filter(|frame| {
        frame.port == 0 && frame.to == SENDER && frame.msn.is_some() && frame.at < oldest[1].at
    });
    let acknowledged = before.filter(|frame| frame.pair == story.sender_pair()).map(|frame| frame.psn).max();
    assert_eq!(acknowledged, Some(FRAMES - 1), "the oldest frame without an answer is where it begins again");
    let waited = oldest[1].at - oldest[0].at;
    let timeout = 4_096 << 20;
    assert!((timeout..timeout + 1_000_000).contains(&waited), "4.096 us x 2^20; it was {waited} ns");
}

/// A story as tshark reads it.
struct Story {
    /// Frames of both captures in the order of time.
    frames: Vec<Seen>,
}

/// A frame at one of the two ports.
struct Seen {
    port: usize,
    number: u64,
    /// Nanoseconds of the trace.
    at: u64,
    from: String,
    to: String,
    opcode: u8,
    info: String,
    pair: u32,
    psn: u32,
    asks: bool,
    syndrome: Option<u8>,
    msn: Option<u32>,
    address: Option<u64>,
    length: Option<u32>,
    ecn: u8,
}

impl Story {
    /// Generates the trace and has tshark read it, if that is there.
    fn read(name: &str) -> Option<Self> {
        let tshark = judge("tshark")?;
        let trace = trace(name);
        let arguments: Vec<_> = ["-T", "fields", "-E", "occurrence=f"]
            .into_iter()
            .chain(FIELDS.iter().flat_map(|field| ["-e", field]))
            .collect();
        let mut frames = Vec::new();
        for (port, host) in HOSTS.iter().enumerate() {
            let said = run(&tshark, &captured(&trace, host), &arguments);
            frames.extend(said.lines().map(|line| Seen::of(port, line)));
        }
        frames.sort_by_key(|frame| (frame.at, frame.port, frame.number));
        Some(Self { frames })
    }

    /// Frames of data from the first host to the second on the queue pair of the first activation.
    fn data(&self, port: usize) -> impl Iterator<Item = &Seen> {
        let writes = |frame: &&Seen| frame.from == SENDER && (0x06..=0x0b).contains(&frame.opcode);
        let pair =
            self.frames.iter().find(|frame| writes(frame) && frame.length.is_some_and(|length| length > 64));
        let pair = pair.unwrap().pair;
        self.frames.iter().filter(move |frame| frame.port == port && writes(frame) && frame.pair == pair)
    }

    /// The queue pair that acknowledgements of this data go to.
    fn sender_pair(&self) -> u32 {
        let last = self.data(1).map(|frame| frame.psn).max();
        let answers = |frame: &&Seen| frame.to == SENDER && frame.msn.is_some() && Some(frame.psn) == last;
        self.frames.iter().find(answers).unwrap().pair
    }

    fn numbers(&self, port: usize) -> Vec<u32> {
        self.data(port).map(|frame| frame.psn).collect()
    }

    /// The only negative acknowledgement, as it arrives at the sender and as it leaves the receiver.
    fn negative(&self) -> [&Seen; 2] {
        [0, 1].map(|port| {
            let negative =
                |frame: &&Seen| frame.port == port && frame.syndrome.is_some_and(|syndrome| syndrome >= 0x20);
            let all: Vec<_> = self.frames.iter().filter(negative).collect();
            assert_eq!(all.len(), 1);
            all[0]
        })
    }

    /// The text of the story.
    fn told(&self, name: &str) -> String {
        let plan = std::fs::read_to_string(file(&format!("{name}.toml"))).unwrap();
        let title = plan.lines().next().unwrap().trim_start_matches("# ");
        let mut text = format!(
            "{title}\n\n{name}-host0-nic0.pcap and {name}-host1-nic0.pcap in the order of time, as tshark {TSHARK} reads them. A frame \
             passes both\nports, so it stands here twice, unless it was lost. Times are microseconds of the trace.\n\n{HEAD}\n"
        );
        for frame in &self.frames {
            writeln!(text, "{}", frame.told()).unwrap();
        }
        text
    }
}

const HEAD: &str = "port  frame      time/us  from -> to                op                                        \
    queue pair PSN ack syn MSN RETH address, length  ECN";

/// What is asked of tshark, in the order of [`Seen::of`].
const FIELDS: [&str; 14] = [
    "frame.number",
    "frame.time_epoch",
    "ip.src",
    "ip.dst",
    "infiniband.bth.opcode",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.bth.a",
    "infiniband.aeth.syndrome",
    "infiniband.aeth.msn",
    "infiniband.reth.va",
    "infiniband.reth.dmalen",
    "ip.dsfield.ecn",
    "_ws.col.Info",
];

impl Seen {
    fn of(port: usize, line: &str) -> Self {
        let fields: Vec<_> = line.split('\t').collect();
        let [number, at, from, to, opcode, pair, psn, asks, syndrome, msn, address, length, ecn, info] =
            fields[..]
        else {
            panic!("{line}")
        };
        let (seconds, nanos) = at.split_once('.').unwrap();
        let nanos: u64 = nanos.parse().unwrap();
        let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let (what, remark) = info.split_once("QP=").unwrap_or((info, ""));
        let remark = remark.split_once(' ').map_or("", |(_, remark)| remark);
        Self {
            port,
            number: number.parse().unwrap(),
            at: (seconds.parse::<u64>().unwrap() - ZERO) * 1_000_000_000 + nanos,
            from: from.to_owned(),
            to: to.to_owned(),
            opcode: opcode.parse().unwrap(),
            info: format!("{what}{remark}").trim_end().to_owned(),
            pair: u32::try_from(hex(pair)).unwrap(),
            psn: psn.parse().unwrap(),
            asks: ["1", "True"].contains(&asks),
            syndrome: syndrome.parse().ok(),
            msn: msn.parse().ok(),
            address: (!address.is_empty()).then(|| hex(address)),
            length: length.parse().ok(),
            ecn: ecn.parse().unwrap(),
        }
    }

    fn told(&self) -> String {
        let or_dot = |text: Option<String>| text.unwrap_or_else(|| ".".to_owned());
        let time = format!("{}.{:03}", self.at / 1_000, self.at % 1_000);
        let ecn = ["not ECT", "ECT(1)", "ECT(0)", "CE"][usize::from(self.ecn)];
        let window = self.address.zip(self.length).map(|(address, length)| format!("{address:#x}, {length}"));
        format!(
            "{:5} {:5} {time:>12}  {} -> {}  {:#04x} {:36} {:#08x} {:5} {:^3} {:>4} {:>3} {:22} {ecn}",
            HOSTS[self.port],
            self.number,
            self.from,
            self.to,
            self.opcode,
            self.info,
            self.pair,
            self.psn,
            if self.asks { "A" } else { "." },
            or_dot(self.syndrome.map(|syndrome| format!("{syndrome:#04x}"))),
            or_dot(self.msn.map(|msn| msn.to_string())),
            or_dot(window),
        )
    }
}

/// The trace of a story's plan, in a folder `trace`.
fn trace(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let plan = file(&format!("{name}.toml"));
    result(folder.path(), &["generate", plan.to_str().unwrap(), "-o", "trace"]);
    folder
}

fn captured(trace: &TempDir, host: &str) -> PathBuf {
    trace.path().join(format!("trace/pcap/{host}-nic0.pcap"))
}

fn file(name: &str) -> PathBuf {
    root().join("tests/golden/stories").join(name)
}
