use crate::pcap::{CaptureReader, PcapWriter};
use crate::wire::samples::{bytes, nccl};
use crate::wire::{
    Aeth, Ecn, Extensions, Frame, Immediate, Ip, Link, Opcode, Payload, Psn, Qpn, RemoteKey, Reth, Syndrome,
};

use super::*;

mod nics;
mod mutations;
mod page;
mod world;
mod worlds;

/// A frame of the conversation before it is bytes.
#[derive(Clone)]
struct Shot {
    at: u64,
    frame: Frame<'static>,
    /// What happens to the bytes, as (place, exclusive or).
    damage: Vec<(usize, u8)>,
    cut: usize,
}

const HERE: u32 = 0x124;
const THERE: u32 = 0x2a7;

fn forth(at: u64, opcode: Opcode, psn: u32, extensions: Extensions, payload: usize) -> Shot {
    let mut frame = nccl(opcode, psn, extensions, Payload::Pattern.bytes(0, payload).unwrap());
    if let Ip::V4 { identification, .. } = &mut frame.network.ip {
        *identification = 0;
    }
    frame.bth.ack_request = opcode.shape().place.ends() && opcode != Opcode::Acknowledge;
    Shot { at, frame, damage: Vec::new(), cut: 0 }
}

fn back(at: u64, opcode: Opcode, psn: u32, extensions: Extensions, payload: usize) -> Shot {
    let mut shot = forth(at, opcode, psn, extensions, payload);
    let link = shot.frame.link;
    shot.frame.link = Link { source: link.destination, destination: link.source, ..link };
    if let Ip::V4 { source, destination, .. } = &mut shot.frame.network.ip {
        std::mem::swap(source, destination);
    }
    shot.frame.bth.destination = Qpn::for_data(HERE).unwrap();
    shot
}

fn ack(psn: u32) -> Extensions {
    let aeth = Some(Aeth::new(Syndrome::UNLIMITED, Psn::wrapping(psn)));
    Extensions { aeth, ..Extensions::default() }
}

fn nak() -> Extensions {
    Extensions { aeth: Some(Aeth::new(Syndrome::SequenceError, Psn::ZERO)), ..Extensions::default() }
}

fn reth(length: u32) -> Extensions {
    let reth = Some(Reth { virtual_address: 0x7f00_0000_0000, remote_key: RemoteKey(7), length });
    Extensions { reth, ..Extensions::default() }
}

/// A clear-to-send and its acknowledgement, two messages of 2500 and 64 bytes and theirs, seen at the port
/// that sends the message. At 100 Gbit a full frame takes 90 ns.
fn conversation() -> Vec<Shot> {
    let immediate = Extensions { immediate: Some(Immediate::from_u32(2500)), ..Extensions::default() };
    vec![
        back(0, Opcode::WriteOnly, 0, reth(64), 64),
        forth(500, Opcode::Acknowledge, 0, ack(1), 0),
        forth(1_000, Opcode::WriteFirst, 0, reth(2500), 1024),
        forth(1_090, Opcode::WriteMiddle, 1, Extensions::default(), 1024),
        forth(1_179, Opcode::WriteLastImmediate, 2, immediate, 452),
        back(4_000, Opcode::Acknowledge, 2, ack(1), 0),
        back(5_000, Opcode::WriteOnly, 1, reth(64), 64),
        forth(5_500, Opcode::Acknowledge, 1, ack(2), 0),
        forth(6_000, Opcode::WriteOnly, 3, reth(64), 64),
        back(9_000, Opcode::Acknowledge, 3, ack(2), 0),
    ]
}

fn judge(shots: &[Shot], vantage: Vantage) -> Vec<Check> {
    let mut critic = Critic::new(&[]);
    let port = critic.port(vantage);
    let file = critic.file("nic0.pcap", port);
    for (number, shot) in (1..).zip(shots) {
        let mut bytes = bytes(&shot.frame);
        for &(at, change) in &shot.damage {
            bytes[at] ^= change;
        }
        let length = u32::try_from(bytes.len()).unwrap();
        critic.frame(file, number, Nanos(shot.at), length, &bytes[..bytes.len() - shot.cut]);
    }
    critic.finish()
}

fn here() -> Vantage {
    let mac = Some(conversation()[2].frame.link.source);
    Vantage { mac, addresses: Vec::new(), rate: BitRate::new(100_000_000_000), ..Vantage::default() }
}

fn violated(checks: &[Check]) -> Vec<(&str, u64)> {
    let wrong = checks.iter().filter(|check| check.verdict() == Verdict::Violated);
    wrong.map(|check| (check.name.as_str(), check.violations)).collect()
}

/// What `change` does to the conversation, seen at the sender's port: the checks that find it.
fn found(change: impl FnOnce(&mut Vec<Shot>)) -> Vec<(String, u64)> {
    let mut shots = conversation();
    change(&mut shots);
    let checks = judge(&shots, here());
    violated(&checks).into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

macro_rules! finds {
    ($($test:ident: $change:expr => [$($check:literal * $count:literal),*];)*) => {$(
        #[test]
        fn $test() {
            let expected: &[(String, u64)] = &[$(($check.to_owned(), $count)),*];
            assert_eq!(found($change), expected);
        }
    )*};
}

#[test]
fn a_right_conversation_passes_every_check() {
    let checks = judge(&conversation(), here());
    assert_eq!(violated(&checks), []);
    assert!(passed(&checks));
    let names: std::collections::BTreeSet<_> = checks.iter().map(|check| &check.name).collect();
    assert_eq!(names.len(), checks.len());
}

finds! {
    a_flipped_bit: |shots| shots[3].damage.push((100, 1)) => ["icrc" * 1];
    a_wrong_header_checksum: |shots| shots[3].damage.push((24, 1)) => ["ipv4_checksum" * 1];
    a_wrong_pad: |shots| shots[4].damage.push((43, 0x10)) => ["icrc" * 1, "pad" * 1, "dma_length" * 1];
    a_low_source_port: |shots| shots.iter_mut().for_each(|shot| shot.frame.source_port = 69) => ["udp_ports" * 10];
    an_answer_to_the_source_port: |shots| {
        // Ports of the acknowledgement exchanged: 50800 to 4791 becomes 4791 to 50800.
        let exchange = [(34, 0xc6 ^ 0x12), (35, 0x70 ^ 0xb7), (36, 0x12 ^ 0xc6), (37, 0xb7 ^ 0x70)];
        shots[5].damage.extend(exchange);
    } => ["udp_ports" * 1];
    an_ip_length_of_its_own: |shots| {
        // Total length and header checksum both by two, so that the checksum holds.
        shots[5].damage.extend([(17, 0x30 ^ 0x32), (25, 0x02)]);
    } => ["icrc" * 1, "lengths" * 1];
    another_partition: |shots| shots[2].frame.bth.partition_key = 0x7fff => ["bth_constants" * 1];
    another_version: |shots| shots[2].frame.bth.version = 1 => ["bth_constants" * 1];
    a_lost_middle: |shots| { shots.remove(3); } => ["psn_consecutive" * 1];
    a_repeated_number: |shots| shots[3].frame.bth.psn = Psn::ZERO => ["psn_consecutive" * 2];
    a_message_without_end: |shots| {
        shots[4] = forth(1_179, Opcode::WriteOnly, 2, reth(452), 452);
    } => ["message_grammar" * 1];
    an_end_without_message: |shots| {
        shots.push(forth(9_000, Opcode::WriteLast, 4, Extensions::default(), 4));
        shots.push(back(9_900, Opcode::Acknowledge, 4, ack(3), 0));
    } => ["message_grammar" * 1];
    a_send_within_a_write: |shots| {
        shots[3] = forth(1_090, Opcode::SendMiddle, 1, Extensions::default(), 1024);
    } => ["message_grammar" * 2];
    a_middle_that_is_not_full: |shots| {
        shots[3] = forth(1_090, Opcode::WriteMiddle, 1, Extensions::default(), 1020);
        shots[2].frame.extensions = reth(2496);
    } => ["payload_path_mtu" * 1];
    a_length_that_lies: |shots| shots[2].frame.extensions = reth(2499) => ["dma_length" * 1];
    an_answer_before_its_question: |shots| {
        shots[5].frame.bth.psn = Psn::wrapping(3);
    } => ["ack_causality" * 1, "msn_counts_messages" * 1];
    an_answer_that_goes_back: |shots| {
        shots.insert(6, back(4_500, Opcode::Acknowledge, 1, ack(1), 0));
    } => ["ack_monotone" * 1];
    a_message_number_that_goes_back: |shots| shots[7].frame.extensions = ack(0) => ["msn_monotone" * 1, "msn_counts_messages" * 1];
    a_question_without_answer: |shots| { shots.pop(); } => ["ack_requests_answered" * 1];
    a_wandering_source_port: |shots| {
        shots[3].frame.source_port += 1;
    } => ["source_port_constant" * 1];
    a_port_of_each_direction: |shots| {
        for shot in shots.iter_mut().filter(|shot| shot.frame.bth.destination.value() == HERE) {
            shot.frame.source_port += 1;
        }
    } => ["source_port_symmetric" * 4];
    another_way_through_the_network: |shots| shots[5].frame.network.ttl = 254 => ["ttl_constant" * 1];
    a_count_of_frames_that_jumps: |shots| {
        // This port sends 8, 9, 10, 11, 14, 15.
        for (identification, shot) in (7..).zip(&mut *shots) {
            shot.damage.push((19, identification));
            // The checksum goes down by as much; both are in the low byte.
            let low = bytes(&shot.frame)[25];
            shot.damage.push((25, low ^ low.wrapping_sub(identification)));
            shot.cut = 4;
        }
    } => ["ipv4_identification" * 1, "snap_constant" * 7];
    a_host_of_two_habits: |shots| shots[3].frame.bth.migrated = false => ["migrated_constant" * 1];
    data_to_management: |shots| shots[7].frame.bth.destination = Qpn::GENERAL_SERVICES => [
        "queue_pair_numbers" * 1
    ];
    a_mark_before_any_switch: |shots| {
        shots[3].frame.network.ecn = Ecn::CongestionExperienced;
        shots[5].frame.network.ecn = Ecn::CongestionExperienced;
    } => ["ecn_marks" * 1];
    a_message_that_is_not_counted: |shots| shots[9].frame.extensions = ack(1) => ["msn_counts_messages" * 1];
    a_clock_that_goes_back: |shots| shots[5].at = 1_178 => ["timestamps_sorted" * 1, "ack_delay" * 1];
    two_frames_at_once: |shots| shots[3].at = 1_080 => ["spacing" * 1];
    bytes_that_are_no_frame: |shots| shots[3].damage.push((14, 0x10)) => [
        "readable" * 1, "psn_consecutive" * 1
    ];
}

#[test]
fn an_example_says_where_and_what() {
    let mut shots = conversation();
    shots.remove(3);
    let checks = judge(&shots, here());
    let check = checks.iter().find(|check| check.name == "psn_consecutive").unwrap();
    let what = "PSN 2 leaves a gap, 1 was expected".to_owned();
    assert_eq!(check.examples, [Example { file: "nic0.pcap".to_owned(), frame: 4, what }]);
    assert_eq!((check.examined, check.violations), (5, 1));
}

#[test]
fn a_receiver_may_miss_what_it_asks_for() {
    let mut shots = conversation();
    let lost = shots.remove(3);
    // Seen from the other port: the gap, the negative acknowledgement, and all from there again.
    shots[4] = back(4_000, Opcode::Acknowledge, 1, nak(), 0);
    let mut again = [lost, shots[3].clone()];
    again[0].at = 4_200;
    again[1].at = 4_290;
    let done = back(4_800, Opcode::Acknowledge, 2, ack(1), 0);
    shots.splice(5..5, again.into_iter().chain([done]));
    let there = Vantage { mac: Some(shots[0].frame.link.source), ..here() };
    assert_eq!(violated(&judge(&shots, there.clone())), []);
    shots[4] = back(4_000, Opcode::Acknowledge, 0, ack(0), 0);
    let checks = judge(&shots, there);
    // The gap that nobody asked about, and the number that comes again.
    assert_eq!(violated(&checks), [("psn_consecutive", 2)]);
}

#[test]
fn frames_without_payload_bytes_are_judged_by_their_headers() {
    let mut shots = conversation();
    for shot in &mut shots {
        shot.cut = bytes(&shot.frame).len() - 74.min(bytes(&shot.frame).len());
    }
    shots[3].frame.bth.psn = Psn::wrapping(7);
    let checks = judge(&shots, here());
    assert_eq!(violated(&checks), [("psn_consecutive", 2)]);
    let icrc = checks.iter().find(|check| check.name == "icrc").unwrap();
    assert_eq!(icrc.examined, 4, "only acknowledgements are whole");
}

#[test]
fn without_a_vantage_some_checks_have_nothing_to_examine() {
    let idle = |checks: &[Check]| {
        let idle = checks.iter().filter(|check| check.verdict() == Verdict::Idle);
        idle.map(|check| check.name.clone()).collect::<Vec<_>>()
    };
    let checks = judge(&conversation(), Vantage::default());
    let (without, with) = (idle(&checks), idle(&judge(&conversation(), here())));
    let more: Vec<_> = without.iter().filter(|name| !with.contains(name)).collect();
    assert_eq!(more, ["ipv4_identification", "spacing", "one_vantage"]);
    assert!(passed(&checks));
}

#[test]
fn connections_that_look_alike_are_told_apart_by_who_knows_them() {
    // Two connections between the same hosts whose source ports say nothing.
    let mut shots = conversation();
    let mut twins = conversation();
    for shot in &mut twins {
        shot.at += 10_000;
        let queue_pair = shot.frame.bth.destination.value() + 0x1000;
        shot.frame.bth.destination = Qpn::for_data(queue_pair).unwrap();
    }
    shots.extend(twins);
    for shot in &mut shots {
        shot.frame.source_port = 49152;
    }
    let addresses = {
        let ip = shots[2].frame.network.ip;
        (ip.source(), ip.destination())
    };
    let end = |address, number| (address, Qpn::for_data(number).unwrap());
    let connections = [0, 0x1000]
        .map(|more| Connection { one: end(addresses.0, HERE + more), other: end(addresses.1, THERE + more) });
    let judge = |connections: &[Connection]| {
        let mut critic = Critic::new(connections);
        let port = critic.port(here());
        let file = critic.file("nic0.pcap", port);
        for (number, shot) in (1..).zip(&shots) {
            let bytes = bytes(&shot.frame);
            critic.frame(file, number, Nanos(shot.at), u32::try_from(bytes.len()).unwrap(), &bytes);
        }
        critic.finish()
    };
    let examined =
        |checks: &[Check]| checks.iter().find(|check| check.name == "ack_causality").unwrap().examined;
    let known = judge(&connections);
    assert_eq!((violated(&known), examined(&known)), (vec![], 8));
    let guessed = judge(&[]);
    assert_eq!(examined(&guessed), 4, "only those that came while there was one connection");
}

#[test]
fn a_file_is_judged_as_it_is_read() {
    let mut writer = PcapWriter::new(Vec::new());
    for shot in conversation() {
        let bytes = bytes(&shot.frame);
        writer.frame(Nanos(shot.at), &bytes, bytes.len()).unwrap();
    }
    let (file, _) = writer.finish().unwrap();
    let mut reader = CaptureReader::new(&file[..]).unwrap();
    let mut critic = Critic::new(&[]);
    assert_eq!(critic.capture("nic0.pcap", here(), &mut reader).unwrap(), 10);
    assert!(passed(&critic.finish()));
}

proptest::proptest! {
    #[test]
    fn no_frames_make_it_panic(
        damage in proptest::collection::vec((0..8_usize, 0..120_usize, proptest::arbitrary::any::<u8>()), 0..12),
        cut in 0..60_usize,
    ) {
        let mut shots = conversation();
        for (shot, at, change) in damage {
            let at = at % bytes(&shots[shot].frame).len();
            shots[shot].damage.push((at, change));
            shots[shot].cut = cut;
        }
        judge(&shots, Vantage::default());
        judge(&shots, here());
    }
}

/// Two clear-to-send messages to one slot, the first acknowledged, and no data.
fn cleared(slot: u64) -> Vec<Shot> {
    let clear = |index| -> &'static [u8] {
        worlds::clear(worlds::place(0), worlds::ROOM, worlds::DATA_KEY, index).leak()
    };
    let reth = Some(Reth { virtual_address: slot, remote_key: RemoteKey(7), length: 64 });
    let mut shots = vec![
        back(0, Opcode::WriteOnly, 0, Extensions { reth, ..Extensions::default() }, 64),
        forth(1_000, Opcode::Acknowledge, 0, ack(1), 0),
        back(2_000, Opcode::WriteOnly, 1, Extensions { reth, ..Extensions::default() }, 64),
    ];
    shots[0].frame.payload = clear(1);
    shots[2].frame.payload = clear(2);
    shots
}

#[test]
fn what_is_cleared_and_never_written_is_no_early_data() {
    let checks = judge(&cleared(0x7f00_0000_0000), here());
    assert!(!violated(&checks).iter().any(|(name, _)| *name == "data_within_cts"));
}

#[test]
fn a_slot_at_the_end_of_all_addresses_has_no_next_one() {
    let found = judge(&cleared(u64::MAX - 64), here());
    assert!(found.iter().any(|check| check.name == "cts_slot" && check.examined == 2));
}
