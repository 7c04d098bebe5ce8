//! Traces of many plans before the judge; and what it delivers is what the trace's graphs say.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;

use generator::plan::Plan;
use generator::trace::{self, Options};
use proptest::prelude::*;
use proptest::test_runner::Config;
use traces::folder::TraceFolder;
use traces::graph::{Message, Work};
use traces::id::NicId;
use traces::manifest::Nic;
use traces::pcap::CaptureReader;
use traces::unit::Nanos;
use traces::wire::opcode::{Operation, Role};
use traces::wire::{Mac, Opcode, Parsed, ParsedFrame, Psn, Syndrome};

use super::draft::{SMALL, drafts, trouble};
use super::judge::{Judge, Known};
use super::message::Delivered;

/// A frame of a trace, as a capture has it.
#[derive(Clone)]
struct Captured {
    nic: NicId,
    time: Nanos,
    bytes: Vec<u8>,
}

/// A trace in memory, so that tests can do it harm.
struct Trace {
    folder: TraceFolder,
    frames: Vec<Captured>,
    _place: tempfile::TempDir,
}

impl Trace {
    fn of(plan: &str) -> Self {
        let plan =
            Plan::read("plan", plan, |_| Ok(String::new())).unwrap_or_else(|error| panic!("{error:?}"));
        let place = tempfile::tempdir().unwrap();
        let options = Options::default();
        let folder =
            trace::generate(&plan, &options, &place.path().join("t"), &|_| ControlFlow::Continue(()));
        let folder = TraceFolder::open(folder.unwrap()).unwrap();
        let mut frames = Vec::new();
        for nic in &folder.manifest().nics {
            for path in folder.captures(nic.id).unwrap() {
                let mut reader = CaptureReader::new(File::open(path).unwrap()).unwrap();
                while let Some(record) = reader.next_record().unwrap() {
                    frames.push(Captured { nic: nic.id, time: record.time, bytes: record.bytes.to_vec() });
                }
            }
        }
        Self { folder, frames, _place: place }
    }

    /// What each queue pair has delivered to its peer; or the objections.
    fn judged(&self, loss: bool) -> Result<Vec<Vec<Delivered>>, String> {
        let mut judge = Judge::new(Known::of(self.folder.manifest(), loss));
        let mut numbers: BTreeMap<NicId, u64> = BTreeMap::new();
        for Captured { nic, time, bytes } in &self.frames {
            let number = numbers.entry(*nic).or_default();
            *number += 1;
            if let Parsed::Roce(frame) = ParsedFrame::parse(bytes, bytes.len()).unwrap() {
                judge.frame(*nic, *number, *time, &frame);
            }
        }
        judge.finish().map_err(|objections| objections.join("\n"))
    }

    /// The messages of all graphs, by queue pair that sends, in the order in which they are sent.
    fn messages(&self) -> Vec<Vec<Message>> {
        let manifest = self.folder.manifest();
        let mut messages = vec![Vec::new(); manifest.queue_pairs.len()];
        for host in &manifest.hosts {
            for node in self.folder.graph(host.id).unwrap() {
                if let Work::Send(message) = node.unwrap().work {
                    messages[message.id.sender.index()].push(message);
                }
            }
        }
        messages.iter_mut().for_each(|messages| messages.sort_by_key(|message| message.id.sequence));
        messages
    }

    /// The place among the frames of the `count`-th that `nic` sends or receives in a role.
    fn find(&self, nic: u32, sent: bool, role: Role, count: usize) -> usize {
        let mac: Mac = self.folder.manifest().nics[NicId(nic).index()].mac.parse().unwrap();
        let wanted = |captured: &Captured| {
            let Ok(Parsed::Roce(frame)) = ParsedFrame::parse(&captured.bytes, captured.bytes.len()) else {
                return false;
            };
            let same = frame.bth.opcode().is_some_and(|opcode| opcode.shape().role == role);
            captured.nic == NicId(nic) && (frame.link.source == mac) == sent && same
        };
        let places = self.frames.iter().enumerate().filter(|(_, captured)| wanted(captured));
        places.map(|(place, _)| place).nth(count).unwrap()
    }
}

/// Judges a trace, and compares what was delivered with its graphs, and its frames with its manifest.
fn accepted(trace: &Trace, loss: bool) {
    let first = |text: &str| text.lines().take(12).collect::<Vec<_>>().join("\n");
    let delivered = trace.judged(loss).unwrap_or_else(|objections| panic!("{}", first(&objections)));
    let manifest = trace.folder.manifest();
    let mut bytes = 0;
    for ((pair, delivered), messages) in manifest.queue_pairs.iter().zip(&delivered).zip(trace.messages()) {
        let told = |message: &Message| Delivered {
            first_psn: Psn::new(message.first_psn).unwrap(),
            operation: Operation::Write,
            bytes: message.bytes.0,
            address: Some(message.address),
            immediate: message.immediate,
        };
        let right: Vec<_> = messages.iter().map(told).collect();
        if pair.sends_data {
            assert_eq!(joined(delivered), right, "{} to {}", pair.id, pair.peer);
        } else {
            // A clear-to-send write is 64 bytes for the one request that it grants.
            let control = |write: &Delivered| (write.bytes, write.immediate) == (64, None);
            assert!(delivered.iter().all(control) && right.is_empty(), "{} to {}", pair.id, pair.peer);
        }
        bytes += right.iter().map(|delivered| delivered.bytes).sum::<u64>();
    }
    let sent_once = |nic: &Nic| nic.payload_bytes_sent - nic.payload_bytes_repeated;
    assert_eq!(bytes, manifest.nics.iter().map(sent_once).sum::<u64>());
    assert!(bytes > 0, "a trace without a message shows nothing");
    for Nic { id, mac, frames_sent, frames_received, .. } in &manifest.nics {
        let mac: Mac = mac.parse().unwrap();
        let (sent, received): (Vec<_>, Vec<_>) = trace
            .frames
            .iter()
            .filter(|captured| captured.nic == *id)
            .partition(|captured| captured.bytes[6..12] == mac.0);
        let counted = (u64::try_from(sent.len()).unwrap(), u64::try_from(received.len()).unwrap());
        assert_eq!(counted, (*frames_sent, *frames_received), "{id}");
    }
}

/// Messages as the application knows them: under adaptive routing a WRITE and the empty WRITE with immediate that closes it.
fn joined(delivered: &[Delivered]) -> Vec<Delivered> {
    let mut open: Option<Delivered> = None;
    let mut messages = Vec::new();
    for message in delivered {
        match open.take() {
            Some(data) => {
                assert_eq!((message.bytes, message.immediate.is_some()), (0, true), "{data:?} is not closed");
                messages.push(Delivered { immediate: message.immediate, ..data });
            }
            None if message.immediate.is_none() => open = Some(message.clone()),
            None => messages.push(message.clone()),
        }
    }
    assert_eq!(open, None, "it is not closed");
    messages
}

proptest! {
    #![proptest_config(Config { cases: cases(), failure_persistence: None, ..Config::default() })]

    #[test]
    fn every_byte_of_a_drawn_plan_is_delivered_once_in_order_and_each_answer_may_be_given(draft in drafts()) {
        accepted(&Trace::of(&draft.text()), false);
    }

    #[test]
    fn so_it_is_when_the_network_loses_marks_and_delays_and_receivers_are_not_ready(
        draft in drafts(), trouble in prop::collection::vec(trouble(), 1..4),
    ) {
        accepted(&Trace::of(&draft.with(trouble).text()), true);
    }
}

/// What happened in a small trace with this trouble, which the judge accepts: frames lost, and answers of a kind.
fn troubled(trouble: &str) -> (usize, Vec<Syndrome>, usize) {
    let trace = Trace::of(&SMALL.with(vec![trouble.to_owned()]).text());
    accepted(&trace, true);
    let manifest = trace.folder.manifest();
    let sums = |of: fn(&Nic) -> u64| usize::try_from(manifest.nics.iter().map(of).sum::<u64>()).unwrap();
    let lost = sums(|nic| nic.frames_sent) - sums(|nic| nic.frames_received);
    let (mut naks, mut notifications) = (Vec::new(), 0);
    for Captured { nic, bytes, .. } in &trace.frames {
        let Ok(Parsed::Roce(frame)) = ParsedFrame::parse(bytes, bytes.len()) else { panic!("no frame") };
        let mac: Mac = manifest.nics[nic.index()].mac.parse().unwrap();
        if frame.link.source != mac {
            continue;
        }
        naks.extend(frame.extensions.aeth.map(|aeth| aeth.syndrome()).filter(|syndrome| !syndrome.is_ack()));
        notifications += usize::from(frame.bth.opcode() == Some(Opcode::CongestionNotification));
    }
    (lost, naks, notifications)
}

#[test]
fn trouble_has_its_consequences_and_no_others() {
    let message = "message = 0\nframe = 7";
    // Both queue pairs that send data lose the frame; each receiver asks for it once.
    let (lost, naks, _) = troubled(&format!("kind = \"loss\"\n{message}"));
    assert_eq!((lost, naks), (2, vec![Syndrome::SequenceError; 2]));
    // The frame that is sent again is lost as well: what follows it is dropped, and a time-out brings it back.
    let (lost, naks, _) = troubled(&format!("kind = \"loss\"\n{message}\ntimes = 2"));
    assert_eq!((lost, naks), (4, vec![Syndrome::SequenceError; 2]));
    let (lost, naks, _) = troubled("kind = \"rnr\"\nmessage = 0\ntimes = 3");
    assert_eq!((lost, naks), (0, vec![Syndrome::ReceiverNotReady(12); 6]));
    let (lost, naks, notifications) = troubled(&format!("kind = \"ce\"\n{message}"));
    assert_eq!((lost, naks, notifications), (0, Vec::new(), 2));
    let (lost, naks, _) = troubled(&format!("kind = \"delay\"\ndelay = \"40us\"\n{message}"));
    assert_eq!((lost, naks), (0, Vec::new()));
}

/// Harms a small trace, and gives what the judge says then.
fn harmed(harm: impl FnOnce(&mut Trace)) -> String {
    let mut trace = Trace::of(&SMALL.text());
    accepted(&trace, false);
    harm(&mut trace);
    trace.judged(true).expect_err("a harmed trace is refused")
}

#[test]
fn a_frame_that_vanishes_from_a_capture_is_missed() {
    let said = harmed(|trace| {
        let place = trace.find(1, false, Role::Request, 5);
        trace.frames.remove(place);
    });
    assert!(said.contains("is missing to the end"), "{said}");
    let said = harmed(|trace| {
        let place = trace.find(0, true, Role::Request, 5);
        trace.frames.remove(place);
    });
    assert!(said.contains("would go on"), "{said}");
    assert!(said.contains("arrives, but was not sent before it"), "{said}");
}

#[test]
fn two_frames_that_change_places_are_noticed() {
    let said = harmed(|trace| {
        let [one, other] = [4, 5].map(|count| trace.find(1, false, Role::Request, count));
        let bytes = std::mem::take(&mut trace.frames[one].bytes);
        let bytes = std::mem::replace(&mut trace.frames[other].bytes, bytes);
        trace.frames[one].bytes = bytes;
    });
    assert!(said.contains("it was missing, and no NAK has asked for it"), "{said}");
}

#[test]
fn an_acknowledgement_with_another_count_or_none_at_all_is_noticed() {
    let said = harmed(|trace| {
        let place = trace.find(1, true, Role::Response, 1);
        // The last byte of AETH: behind Ethernet, IPv4, UDP and the base header, its fourth.
        trace.frames[place].bytes[14 + 20 + 8 + 12 + 3] ^= 1;
    });
    assert!(said.contains("messages have ended there"), "{said}");
    let said = harmed(|trace| {
        let places: Vec<_> = (0..3).map(|count| trace.find(1, true, Role::Response, count)).collect();
        places.into_iter().rev().for_each(|place| drop(trace.frames.remove(place)));
        let last = trace.frames.iter().rposition(|captured| captured.nic == NicId(1)).unwrap();
        trace.frames.remove(last);
    });
    assert!(said.contains("arrives, but was not sent before it"), "{said}");
}

#[test]
fn a_frame_that_arrives_before_it_is_sent_is_noticed() {
    let said = harmed(|trace| {
        let first = trace.find(0, true, Role::Request, 0);
        let sent = trace.frames[first].time;
        let place = trace.find(1, false, Role::Request, 0);
        trace.frames[place].time = Nanos(sent.0 - 1);
    });
    assert!(said.contains("and is sent at"), "{said}");
}

#[test]
fn a_byte_that_changes_on_the_way_is_noticed() {
    let said = harmed(|trace| {
        let place = trace.find(1, false, Role::Request, 20);
        *trace.frames[place].bytes.iter_mut().rev().nth(10).unwrap() ^= 0x10;
    });
    assert!(said.contains("of the message is"), "{said}");
}

/// Each case writes a trace, so a few are drawn; `PROPTEST_CASES` draws more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").map_or(12, |cases| cases.parse().unwrap())
}
