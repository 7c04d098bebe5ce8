//! The clean worlds: NCCL's conversation, READ, loss, a receiver that is not ready, congestion, flow control,
//! IPv6, and the habits of other NICs.

use super::world::{A, B, End, Host, MTU, Shot, WAY, World, pattern, reth, six};
use crate::unit::Nanos;
use crate::wire::datagram::Deth;
use crate::wire::management::{
    Communication, DisconnectReply, DisconnectRequest, Endpoint, IpHeader, Mad, ReadyToUse, Reply, Request,
    ServiceId,
};
use crate::wire::profile::NicProfile;
use crate::wire::{Aeth, Extensions, Immediate, Mac, Opcode, PathMtu, Psn, Reth, Syndrome};

pub(super) const AT_A: End = End { host: A, number: 0x124 };
pub(super) const AT_B: End = End { host: B, number: 0x2a7 };
pub(super) const FORTH: (End, End) = (AT_A, AT_B);
pub(super) const BACK: (End, End) = (AT_B, AT_A);
/// Another connection of the same hosts.
pub(super) const OTHER: (End, End) = (End { host: A, number: 0x12b }, End { host: B, number: 0x2b1 });
pub(super) const OTHER_BACK: (End, End) = (OTHER.1, OTHER.0);

pub(super) const DATA_KEY: u32 = 0x0018_29ed;
pub(super) const SLOTS: u64 = 0x55d0_1234_0000;
pub(super) const SLOT_KEY: u32 = 0x0020_a1c7;
pub(super) const ROOM: u64 = 0x2_0000;

/// Where message `index` goes, of which eight buffers are used in turn.
pub(super) fn place(index: u64) -> u64 {
    0x7f3a_2000_0000 + ROOM * (index % 8)
}

/// A clear-to-send as NCCL writes it.
pub(super) fn clear(address: u64, size: u64, key: u32, index: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(address.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend(key.to_le_bytes());
    bytes.extend([0; 28]);
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(7_u32.to_le_bytes());
    bytes.extend(index.to_le_bytes());
    bytes
}

/// B clears message `index` (from 0) to send, and A acknowledges it.
fn clear_to_send(world: &mut World, at: u64, index: u64) {
    let number = u32::try_from(index).unwrap();
    let bytes = clear(place(index), ROOM, DATA_KEY, index + 1);
    let slot = reth(SLOTS + 512 * index, SLOT_KEY, 64);
    world.write(at, BACK, number, slot, None, &bytes);
    world.ack(at + WAY + 900 + index * 331 % 701, FORTH, number, number + 1);
}

/// NCCL on ConnectX: ARP, another connection's message, then twenty messages of which the last has 70 frames.
pub(super) fn nccl() -> World {
    let mut world = World::new(NicProfile::MLX5_NCCL);
    let ask = arp(1, A, Mac([0; 6]), B);
    world.shots.push(Shot::raw(103, A.mac, Mac([0xff; 6]), &ask));
    world.shots.push(Shot::raw(3_518, B.mac, A.mac, &arp(2, B, A.mac, A)));
    for index in 0..4 {
        clear_to_send(&mut world, 10_013 + index * 700, index);
    }
    let there = 0x7f77_0000_2000;
    let bytes = clear(there, 4096, 0x0031_02aa, 1);
    world.write(18_003, OTHER_BACK, 0, reth(SLOTS + 0x10_0000, 0x0031_0301, 64), None, &bytes);
    world.ack(20_500, OTHER, 0, 1);
    world.write(22_007, OTHER, 0, reth(there, 0x0031_02aa, 512), Some(512), &pattern(512));
    world.ack(26_544, OTHER_BACK, 0, 1);
    let mut psn = 0;
    for index in 0..20 {
        let at = 30_003 + index * 20_000 + index * index * 37 % 501;
        let bytes = pattern(match index {
            3 => 2_501,
            19 => 70 * MTU,
            _ => 2_500,
        });
        let immediate = u32::try_from(bytes.len()).unwrap();
        let to = reth(place(index), DATA_KEY, bytes.len());
        let (last, next) = world.write(at, FORTH, psn, to, Some(immediate), &bytes);
        psn = next;
        let at = last + WAY + 3_100 + index * 613 % 997;
        world.ack(at, BACK, psn - 1, u32::try_from(index).unwrap() + 1);
        if index < 16 {
            clear_to_send(&mut world, at + 2_011, index + 4);
        }
    }
    world
}

/// The content of an ARP frame.
pub(super) fn arp(operation: u8, from: Host, mac: Mac, to: Host) -> Vec<u8> {
    let octets = |host: Host| match host.address {
        std::net::IpAddr::V4(address) => address.octets(),
        std::net::IpAddr::V6(_) => unreachable!("ARP is of IPv4"),
    };
    let head = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, operation];
    [&head[..], &from.mac.0, &octets(from), &mac.0, &octets(to)].concat()
}

/// A reads 2500 bytes of B's, then writes.
pub(super) fn reads() -> World {
    let mut world = World::new(NicProfile::MLX5_CM);
    let asked = Extensions { reth: Some(reth(0x7f00_1000_0040, 0x11_2233, 2_500)), ..Extensions::default() };
    world.shot(1_003, FORTH, Opcode::ReadRequest, 500, asked, &[]);
    let bytes = pattern(2_500);
    let aeth = Some(Aeth::new(world.profile.acknowledgement(), Psn::wrapping(1)));
    let with = Extensions { aeth, ..Extensions::default() };
    let parts = [
        (Opcode::ReadResponseFirst, with),
        (Opcode::ReadResponseMiddle, Extensions::default()),
        (Opcode::ReadResponseLast, with),
    ];
    for ((number, (opcode, extensions)), piece) in (500..).zip(parts).zip(bytes.chunks(MTU)) {
        world.shot(5_011 + u64::from(number - 500) * 91, BACK, opcode, number, extensions, piece);
    }
    world.write(9_004, FORTH, 503, reth(0x7f00_1000_0040, 0x11_2233, 64), None, &pattern(64));
    world.ack(13_509, BACK, 503, 2);
    // A second one, with a request behind it before it is answered.
    let asked = Extensions { reth: Some(reth(0x7f00_1000_0040, 0x11_2233, 1_000)), ..Extensions::default() };
    world.shot(20_001, FORTH, Opcode::ReadRequest, 504, asked, &[]);
    world.write(20_107, FORTH, 505, reth(0x7f00_1000_0040, 0x11_2233, 64), None, &pattern(64));
    let aeth = Some(Aeth::new(world.profile.acknowledgement(), Psn::wrapping(3)));
    let with = Extensions { aeth, ..Extensions::default() };
    world.shot(24_050, BACK, Opcode::ReadResponseOnly, 504, with, &pattern(1_000));
    world.ack(24_777, BACK, 505, 4);
    world
}

pub(super) fn region(length: usize) -> Reth {
    reth(0x7f5b_c000_1000, 0x0009_77ab, length)
}

/// When what the NAK asked for is sent again.
pub(super) const AGAIN: u64 = 16_003;

/// A frame is lost and asked for; a message is lost whole and comes again after the time-out; an
/// acknowledgement is lost, and what it was about comes again.
pub(super) fn loss() -> World {
    let mut world = World::new(NicProfile::MLX5_NCCL);
    world.write(1_001, FORTH, 0, region(2_500), Some(2_500), &pattern(2_500));
    world.ack(6_043, BACK, 2, 1);
    let bytes = pattern(6 * MTU);
    let before = world.shots.len();
    world.write(12_002, FORTH, 3, region(bytes.len()), Some(6_144), &bytes);
    world.shots[before + 2].lost = true;
    let tail: Vec<_> = world.shots[before + 2..before + 6].to_vec();
    world.answer(14_020, BACK, 5, Syndrome::SequenceError, 1);
    for (index, mut shot) in (0..).zip(tail) {
        (shot.at, shot.lost) = (AGAIN + index * 91, false);
        world.shots.push(shot);
    }
    world.ack(21_404, BACK, 8, 2);
    world.write(30_007, FORTH, 9, region(100), Some(100), &pattern(100));
    let mut again = world.shots.last().unwrap().clone();
    world.shots.last_mut().unwrap().lost = true;
    again.at += 601_115;
    world.shots.push(again);
    world.ack(635_200, BACK, 9, 3);
    world.write(700_011, FORTH, 10, region(100), Some(100), &pattern(100));
    let mut again = world.shots.last().unwrap().clone();
    world.ack(704_100, BACK, 10, 4).lost = true;
    again.at += 600_901;
    world.shots.push(again);
    world.ack(1_305_777, BACK, 10, 4);
    world
}

/// A frame is lost, and asked for when the next message has left: A goes back into the one before.
pub(super) fn far_back() -> World {
    let mut world = World::new(NicProfile::MLX5_NCCL);
    for index in 0..2 {
        clear_to_send(&mut world, 1_001 + index * 700, index);
    }
    let before = world.shots.len();
    let (last, next) =
        world.write(20_003, FORTH, 0, reth(place(0), DATA_KEY, 2_500), Some(2_500), &pattern(2_500));
    let (last, _) =
        world.write(last + 91, FORTH, next, reth(place(1), DATA_KEY, 100), Some(100), &pattern(100));
    let tail: Vec<_> = world.shots[before + 1..].to_vec();
    world.shots[before + 1].lost = true;
    let at = last + WAY + 1_507;
    world.answer(at, BACK, 1, Syndrome::SequenceError, 0);
    for (index, mut shot) in (0..).zip(tail) {
        shot.at = at + WAY + 11 + index * 91;
        world.shots.push(shot);
    }
    world.ack(at + 3 * WAY, BACK, 2, 1);
    world.ack(at + 3 * WAY + 97, BACK, 3, 2);
    world
}

/// B has posted no receive when the first SEND comes.
pub(super) fn not_ready() -> World {
    let mut world = World::new(NicProfile::MLX5_NCCL);
    let bytes = pattern(100);
    world.shot(1_001, FORTH, Opcode::SendOnly, 0, Extensions::default(), &bytes);
    world.answer(5_040, BACK, 0, Syndrome::ReceiverNotReady(12), 0);
    world.shot(646_900, FORTH, Opcode::SendOnly, 0, Extensions::default(), &bytes);
    world.ack(651_304, BACK, 0, 1);
    world.departures.push(((B.address, AT_B.qpn()), vec![(Psn::ZERO, Nanos(1_000))]));
    world
}

/// Two frames of a message are marked, and notified; the messages behind are slower.
pub(super) fn congestion() -> World {
    let mut world = World::new(NicProfile::MLX5_NCCL);
    let bytes = pattern(40 * MTU);
    let length = 40 * 1024;
    world.write(1_001, FORTH, 0, region(bytes.len()), Some(length), &bytes);
    world.shots[3].marked = true;
    world.shots[30].marked = true;
    notify(&mut world, 3_500);
    notify(&mut world, 8_007);
    world.ack(9_090, BACK, 39, 1);
    let before = world.shots.len();
    world.write(16_002, FORTH, 40, region(bytes.len()), Some(length), &bytes);
    for (index, shot) in (0..).zip(&mut world.shots[before..]) {
        shot.at += index * 100;
    }
    world.ack(28_011, BACK, 79, 2);
    world
}

pub(super) fn notify(world: &mut World, at: u64) {
    world.shot(at, BACK, Opcode::CongestionNotification, 0, Extensions::default(), &[0; 16]);
}

/// A frame of priority flow control for class 3, from the switch that a port is at.
pub(super) fn pause(at: u64, quanta: u16) -> Shot {
    let mut rest = vec![0x88, 0x08, 0x01, 0x01, 0x00, 0x08];
    for class in 0..8_u16 {
        rest.extend(if class == 3 { quanta } else { 0 }.to_be_bytes());
    }
    Shot::raw(at, Mac([0x02, 0, 0, 0, 9, 9]), Mac([0x01, 0x80, 0xc2, 0, 0, 1]), &rest)
}

/// Class 3, which DSCP 26 belongs to, is paused and released.
pub(super) fn paused() -> World {
    let mut world = World::new(NicProfile::MLX5_NCCL);
    world.write(1_001, FORTH, 0, region(2_500), Some(2_500), &pattern(2_500));
    world.ack(6_043, BACK, 2, 1);
    world.shots.push(pause(8_000, 0xffff));
    world.shots.push(pause(60_000, 0));
    world.write(64_002, FORTH, 3, region(2_500), Some(2_500), &pattern(2_500));
    world.ack(70_100, BACK, 5, 2);
    world
}

/// A connection made by RDMA-CM: each end sends from the number on that the other wants to receive.
pub(super) fn managed() -> World {
    let mut world = World::new(NicProfile::MLX5_CM);
    let (wants, serves) = (0x89_bb0e, 0xc2_3298);
    let asking = endpoint(0x11, AT_A, wants);
    let serving = endpoint(0x22, AT_B, serves);
    let addresses = IpHeader::new(40_000, A.address, B.address);
    let request = Request::new(&asking, ServiceId::tcp(7471), addresses, PathMtu::Mtu1024);
    let both = Communication { local: 0x11, remote: 0x22 };
    mad(&mut world, 1_003, (A, B), 82, &Mad::new(7, request));
    mad(&mut world, 40_007, (B, A), 45, &Mad::new(7, Reply::new(&serving, &request)));
    mad(&mut world, 80_100, (A, B), 83, &Mad::new(7, ReadyToUse { communication: both }));
    world.write(500_004, FORTH, serves, region(18), None, &pattern(18));
    world.ack(505_212, BACK, serves, 1);
    world.write(600_004, BACK, wants, region(18), None, &pattern(18));
    world.ack(605_212, FORTH, wants, 1);
    let end = DisconnectRequest { communication: both, remote_queue_pair: AT_B.qpn() };
    mad(&mut world, 900_008, (A, B), 84, &Mad::new(8, end));
    let ended = DisconnectReply { communication: both.reversed() };
    mad(&mut world, 940_009, (B, A), 46, &Mad::new(8, ended));
    world
}

fn endpoint(communication: u32, end: End, psn: u32) -> Endpoint {
    let guid = 0x0200_c6ff_fe12_0000 | u64::from(communication);
    Endpoint { communication, guid, queue_pair: end.qpn(), starting_psn: Psn::wrapping(psn) }
}

fn mad(world: &mut World, at: u64, (from, to): (Host, Host), psn: u32, mad: &Mad) {
    let ends = (End { host: from, number: 1 }, End { host: to, number: 1 });
    let extensions = Extensions { deth: Some(Deth::GENERAL_SERVICES), ..Extensions::default() };
    let shot = world.shot(at, ends, Opcode::DatagramSendOnly, psn, extensions, &mad.to_bytes());
    (shot.port, shot.bth.ack_request) = (49_152, false);
}

/// A message over IPv6.
pub(super) fn version_six() -> World {
    let mut world = World::new(NicProfile::MLX5_NCCL);
    let (here, there) = (End { host: six(A), ..AT_A }, End { host: six(B), ..AT_B });
    world.write(1_001, (here, there), 0, region(2_501), Some(2_501), &pattern(2_501));
    world.ack(6_043, (there, here), 2, 1);
    world
}

/// HNS as it was captured: SENDs of two frames from the low byte of the own number, byte 4 of data 0x10, the
/// first frame asks, and a First is acknowledged that did not; credits are counted.
pub(super) fn hns() -> World {
    let mut world = World::new(NicProfile::HNS);
    let bytes = pattern(1_497);
    let ends = (End { host: A, number: 0x48 }, End { host: B, number: 0x45 });
    let back = (ends.1, ends.0);
    for index in 0..20 {
        let (at, psn) = (1_000 + u64::from(index) * 18_003, 2 * index);
        world.shot(at, ends, Opcode::SendFirst, psn, Extensions::default(), &bytes[..MTU]).bth.ack_request =
            index == 0;
        let immediate = Extensions { immediate: Some(Immediate::from_u32(1)), ..Extensions::default() };
        world.shot(at + 2_001, ends, Opcode::SendLastImmediate, psn + 1, immediate, &bytes[MTU..]);
        if index == 0 || index == 7 {
            world.answer(at + 1_900, back, psn, Syndrome::Ack(6), index);
        }
        let delay = 13_000 + u64::from(index) * 277 % 1_009;
        world.answer(at + delay, back, psn + 1, Syndrome::Ack(5), index + 1);
    }
    for shot in &mut world.shots {
        shot.port = if shot.link.source == A.mac { 0x48 } else { 0x45 };
    }
    world
}

/// rxe: M and ECN clear, time to live 64, a port of its own for each direction, the 66th frame in a row asks,
/// other traffic takes identifications too.
pub(super) fn rxe() -> World {
    let mut world = World::new(NicProfile::RXE);
    world.write(1_003, FORTH, 9_209_053, region(18), None, &pattern(18));
    world.ack(18_010, BACK, 9_209_053, 1);
    let bytes = pattern(100 * MTU);
    let before = world.shots.len();
    world.write(40_001, FORTH, 9_209_054, region(bytes.len()), None, &bytes);
    world.shots[before + 65].bth.ack_request = true;
    world.shots[before + 65].identification = Some(9_000);
    world.ack(48_300, BACK, 9_209_119, 1);
    world.ack(52_700, BACK, 9_209_153, 2);
    let asked = Extensions { reth: Some(region(4_096)), ..Extensions::default() };
    world.shot(60_001, FORTH, Opcode::ReadRequest, 9_209_154, asked, &[]);
    let aeth = Some(Aeth::new(Syndrome::UNLIMITED, Psn::wrapping(3)));
    let with = Extensions { aeth, ..Extensions::default() };
    let bytes = pattern(4_096);
    for (index, piece) in (0..).zip(bytes.chunks(MTU)) {
        let (opcode, extensions) = match index {
            0 => (Opcode::ReadResponseFirst, with),
            3 => (Opcode::ReadResponseLast, with),
            _ => (Opcode::ReadResponseMiddle, Extensions::default()),
        };
        world.shot(78_000 + 2_000 * u64::from(index), BACK, opcode, 9_209_154 + index, extensions, piece);
    }
    // The counter of A jumped; of what follows it must not go back.
    let mut number = 9_000;
    for shot in world.shots.iter_mut().skip(before + 66).filter(|shot| shot.link.source == A.mac) {
        number += 2;
        shot.identification = Some(number);
    }
    world
}
