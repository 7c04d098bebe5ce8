//! The faults, in the order of the list of 43 that the critic was made from.

use super::super::world::{A, B, C, End, Taken, WAY, World, pattern};
use super::super::worlds::{
    AGAIN, BACK, FORTH, OTHER, OTHER_BACK, SLOTS, arp, clear, congestion, loss, managed, nccl, not_ready,
    pause, paused, place, reads, region, version_six,
};
use crate::critic::Payloads;
use crate::unit::Nanos;
use crate::wire::profile::NicProfile;
use crate::wire::{Aeth, Ecn, Extensions, Immediate, Ip, Mac, Opcode, Psn, Qpn, RemoteKey, Syndrome};

pub(super) type Make = fn() -> World;

/// A fault in a clean world, and what has to find it.
pub(super) struct Fault {
    /// The check's number in the list of 43 that the critic was made from.
    pub(super) number: u32,
    /// Its name here.
    pub(super) check: &'static str,
    pub(super) world: Make,
    pub(super) spoil: fn(&mut World),
    /// What else is wrong then, by the nature of the fault.
    pub(super) also: &'static [&'static str],
}

macro_rules! faults {
    ($($number:literal $check:literal $world:ident: $spoil:expr $(, also $($also:literal)*)?;)*) => {
        &[$(Fault {
            number: $number,
            check: $check,
            world: $world,
            spoil: $spoil,
            also: &[$($($also),*)?],
        }),*]
    };
}

pub(super) const FAULTS: &[Fault] = faults! {
    1 "icrc" nccl: |world| {
        let shot = &mut world.of(Opcode::WriteMiddle)[0];
        let last = shot.bytes().len() - 1;
        shot.damage.push((last, 0x01));
    };
    2 "readable" nccl: |world| world.spoil = Some(|[_, b]| received_ack(b).bytes[14] ^= 0x10);
    2 "ipv4_checksum" nccl: |world| world.of(Opcode::WriteMiddle)[0].damage.push((24, 0x01));
    2 "udp_checksum" version_six: |world| {
        let shot = &mut world.of(Opcode::WriteMiddle)[0];
        let bytes = shot.bytes();
        shot.damage.extend([(60, bytes[60]), (61, bytes[61])]);
    };
    2 "udp_checksum" version_six: |world| world.of(Opcode::WriteMiddle)[0].damage.push((61, 0x01));
    3 "payload_no_trap" nccl: |world| {
        // As if a little-endian counter stood in front, at 8: Wireshark shows IPv4.
        world.content = Some(Payloads::Varied);
        world.of(Opcode::WriteFirst)[2].payload[..4].copy_from_slice(&[0x08, 0, 0, 0]);
    };
    3 "bth_constants" nccl: |world| world.spoil = Some(|[_, b]| {
        // An opcode that no one knows, with its ICRC.
        let ack = received_ack(b);
        ack.bytes[42] = 0x1e;
        reseal(ack);
    });
    4 "udp_ports" nccl: |world| world.spoil = Some(|[_, b]| {
        // An answer that goes to where the question came from.
        let ack = received_ack(b);
        let (from, to) = ([ack.bytes[34], ack.bytes[35]], [ack.bytes[36], ack.bytes[37]]);
        ack.bytes[34..36].copy_from_slice(&to);
        ack.bytes[36..38].copy_from_slice(&from);
    });
    4 "udp_ports" loss: |world| world.shots.iter_mut().for_each(|shot| shot.port = 69);
    5 "source_port_constant" nccl: |world| world.of(Opcode::WriteMiddle)[0].port += 1;
    5 "source_port_symmetric" loss: |world| {
        for shot in world.shots.iter_mut().filter(|shot| shot.link.source == B.mac) {
            shot.port += 1;
        }
    };
    5 "source_port_rule" nccl: |world| {
        for shot in world.shots.iter_mut().filter(|shot| is_other(shot.bth.destination)) {
            shot.port = 50_001;
        }
    };
    6 "lengths" nccl: |world| world.spoil = Some(|[_, b]| {
        // IP says two bytes more than UDP, with checksum and ICRC.
        let ack = received_ack(b);
        ack.bytes[17] += 2;
        let sum = u16::from_be_bytes([ack.bytes[24], ack.bytes[25]]) - 2;
        ack.bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        reseal(ack);
    });
    6 "dont_fragment" nccl: |world| {
        if let Ip::V4 { dont_fragment, .. } = &mut world.of(Opcode::WriteMiddle)[0].network.ip {
            *dont_fragment = false;
        }
    };
    7 "ipv4_identification" nccl: |world| world.of(Opcode::WriteMiddle)[0].identification = Some(5);
    8 "ttl_constant" nccl: |world| world.of(Opcode::WriteMiddle)[0].network.ttl = 63;
    9 "dscp_constant" nccl: |world| world.of(Opcode::Acknowledge)[6].network.dscp = 0;
    9 "cnp_dscp_constant" congestion: |world| world.of(Opcode::CongestionNotification)[1].network.dscp = 26;
    10 "ecn_marks" nccl: |world| world.of(Opcode::WriteMiddle)[0].network.ecn = Ecn::Capable1;
    10 "ecn_marks" nccl: |world| world.of(Opcode::WriteMiddle)[0].network.ecn = Ecn::CongestionExperienced;
    10 "ecn_capable_constant" nccl: |world| world.of(Opcode::Acknowledge)[6].network.ecn = Ecn::NotCapable;
    11 "bth_constants" nccl: |world| world.of(Opcode::WriteMiddle)[0].bth.partition_key = 0x7fff;
    11 "bth_constants" nccl: |world| world.of(Opcode::WriteMiddle)[0].bth.version = 1;
    11 "bth_constants" nccl: |world| world.of(Opcode::WriteMiddle)[0].bth.reserved = 1;
    11 "bth_byte4_constant" nccl: |world| world.of(Opcode::WriteMiddle)[0].bth.congestion = 0x10;
    12 "migrated_constant" nccl: |world| world.of(Opcode::Acknowledge)[6].bth.migrated = false;
    13 "mac_constant" nccl: |world| world.spoil = Some(|[_, b]| received_ack(b).bytes[11] ^= 0x40);
    13 "mac_addresses" nccl: |world| {
        let ends = (End { host: C, number: 0x11 }, End { host: A, number: 0x999 });
        world.ack(15_017, ends, 0, 0).link.source = Mac([0, 0, 0, 0, 0, 3]);
    };
    14 "psn_consecutive" nccl: |world| {
        let lost = world.shots.iter().position(|shot| shot.bth.opcode() == Some(Opcode::WriteMiddle));
        world.shots.remove(lost.unwrap());
    };
    14 "psn_consecutive" loss: |world| {
        // A gap that nobody names, and a sender that goes back as if one had.
        let nak = world.shots.iter().position(|shot| is_nak(&shot.extensions));
        world.shots.remove(nak.unwrap());
    };
    15 "message_grammar" nccl: |world| {
        let last = &mut world.of(Opcode::WriteLastImmediate)[0];
        last.bth.opcode = Opcode::WriteOnlyImmediate.byte();
        last.extensions.reth = Some(super::super::world::reth(place(0), super::super::worlds::DATA_KEY, 452));
        last.extensions.immediate = Some(Immediate::from_u32(452));
    };
    15 "message_grammar" loss: |world| {
        let opcode = Opcode::SendMiddle.byte();
        world.of(Opcode::WriteMiddle)[0].bth.opcode = opcode;
    };
    16 "payload_path_mtu" nccl: |world| {
        world.of(Opcode::WriteMiddle)[0].payload.truncate(1_020);
        lengthen(world, 2_496);
    };
    17 "dma_length" nccl: |world| lengthen(world, 2_499);
    18 "pad" nccl: |world| {
        let shot = &mut world.of(Opcode::WriteLastImmediate)[3];
        let pad = shot.bytes().len() - 5;
        (shot.damage, shot.sealed) = (vec![(pad, 0x01)], true);
    };
    18 "pad" nccl: |world| {
        // A pad of one byte behind 452.
        let shot = &mut world.of(Opcode::WriteLastImmediate)[0];
        (shot.damage, shot.sealed) = (vec![(43, 0x10)], true);
    }, also "dma_length";
    19 "read_response_psn" reads: |world| {
        world.of(Opcode::ReadResponseFirst)[0].bth.psn = Psn::wrapping(501);
    };
    19 "read_length" reads: |world| world.of(Opcode::ReadResponseLast)[0].payload.truncate(448);
    19 "read_takes_psns" reads: |world| {
        for shot in world.shots.iter_mut().filter(|shot| shot.bth.psn == Psn::wrapping(505)) {
            shot.bth.psn = Psn::wrapping(506);
        }
    };
    20 "ack_causality" nccl: |world| {
        let ack = &mut world.of(Opcode::Acknowledge)[6];
        ack.bth.psn = ack.bth.psn + 1;
    };
    20 "ack_requests_answered" nccl: |world| { world.shots.pop(); };
    21 "msn_counts_messages" nccl: |world| {
        let ack = &mut world.of(Opcode::Acknowledge)[6];
        ack.extensions.aeth = ack.extensions.aeth.map(|aeth| Aeth { message_sequence: aeth.message_sequence + 1, ..aeth });
    };
    21 "msn_monotone" nccl: |world| {
        world.of(Opcode::Acknowledge)[8].extensions.aeth.as_mut().unwrap().message_sequence = Psn::ZERO;
    }, also "msn_counts_messages";
    22 "ack_without_payload" nccl: |world| world.of(Opcode::Acknowledge)[6].payload = vec![1, 2, 3, 4];
    22 "ack_once" nccl: |world| {
        let mut again = world.shots.last().unwrap().clone();
        again.at += 5_003;
        world.shots.push(again);
    };
    22 "ack_monotone" nccl: |world| {
        let mut again = world.shots.last().unwrap().clone();
        again.at += 5_003;
        again.bth.psn = Psn::wrapping(40);
        world.shots.push(again);
    };
    22 "credits_constant" nccl: |world| {
        world.of(Opcode::Acknowledge)[6].extensions.aeth.as_mut().unwrap().syndrome = 5;
    };
    23 "ack_request_on_last" nccl: |world| world.of(Opcode::WriteLastImmediate)[0].bth.ack_request = false;
    23 "ack_request_sparse" nccl: |world| {
        for index in [20, 50] {
            world.of(Opcode::WriteMiddle)[index].bth.ack_request = true;
        }
    };
    24 "nak_names_gap" nccl: |world| {
        // In the middle of the last message, of a frame that has come.
        let first = &world.of(Opcode::WriteFirst)[19];
        let (at, psn) = (first.at + 60 * 91 + WAY, first.bth.psn.value() + 40);
        world.answer(at, BACK, psn, Syndrome::SequenceError, 19);
    };
    24 "nak_once" loss: |world| {
        let mut again = world.shots.iter().find(|shot| is_nak(&shot.extensions)).unwrap().clone();
        again.at += 500;
        world.shots.push(again);
    };
    24 "nak_goes_back" loss: |world| {
        world.shots.retain(|shot| shot.at < AGAIN);
        world.write(3_000_007, OTHER, 0, region(100), Some(100), &pattern(100));
        world.ack(3_005_007, OTHER_BACK, 0, 1);
    };
    25 "rnr_wait" not_ready: |world| world.of(Opcode::SendOnly)[1].at = 606_900;
    26 "cnp_after_mark" congestion: |world| world.shots[3].marked = false;
    26 "cnp_after_mark" congestion: |world| {
        // To the queue pair that received the mark, not the one that sent it.
        world.of(Opcode::CongestionNotification)[0].bth.destination = FORTH.1.qpn();
    };
    26 "cnp_form" congestion: |world| world.of(Opcode::CongestionNotification)[0].bth.congestion = 0;
    26 "cnp_spacing" congestion: |world| {
        // Behind the second mark, which comes 4968 ns into the trace.
        world.of(Opcode::CongestionNotification)[1].at = 5_500;
    };
    26 "cnp_slows_sender" congestion: |world| {
        for (index, shot) in (0..).zip(world.shots.iter_mut().filter(|shot| shot.at >= 16_002 && shot.at < 28_000)) {
            // What a full frame needs of the line: (1098 or 1082 + 24) * 8 / 100.
            shot.at = 16_002 + index * 89;
        }
    };
    27 "queue_pair_numbers" nccl: |world| {
        world.of(Opcode::Acknowledge)[0].bth.destination = Qpn::GENERAL_SERVICES;
    };
    27 "queue_pairs_distinct" nccl: |world| {
        let ends = (End { host: C, number: 0x11 }, FORTH.0);
        world.ack(15_017, ends, 0, 0);
    };
    28 "cm_starting_psn" managed: |world| {
        // Both ends taken for each other: each starts at the number that it asked for itself.
        for shot in world.shots.iter_mut().filter(|shot| shot.bth.psn == Psn::wrapping(0xc2_3298)) {
            shot.bth.psn = Psn::wrapping(0x89_bb0e);
        }
    };
    28 "management_form" managed: |world| {
        world.of(Opcode::DatagramSendOnly)[1].extensions.deth.as_mut().unwrap().queue_key = 0;
    };
    29 "address_canonical" loss: |world| {
        for shot in &mut world.shots {
            if let Some(reth) = &mut shot.extensions.reth {
                reth.virtual_address |= 0x0123 << 48;
            }
        }
    };
    29 "key_constant" loss: |world| {
        world.of(Opcode::WriteFirst)[1].extensions.reth.as_mut().unwrap().remote_key = RemoteKey(7);
    };
    30 "nccl_without_cm" managed: |world| {
        for shot in world.shots.iter_mut().filter(|shot| !shot.bth.destination.is_management()) {
            shot.network.ttl = 255;
        }
    };
    31 "cts_index" nccl: |world| {
        let bytes = clear(place(5), super::super::worlds::ROOM, super::super::worlds::DATA_KEY, 9);
        clears(world)[5].payload = bytes;
    };
    31 "cts_slot" nccl: |world| {
        clears(world)[5].extensions.reth.as_mut().unwrap().virtual_address = SLOTS + 512 * 7;
    };
    31 "data_within_cts" nccl: |world| {
        let first = &mut world.of(Opcode::WriteFirst)[2];
        first.extensions.reth.as_mut().unwrap().virtual_address += 0x100_0000;
    };
    31 "data_within_cts" nccl: |world| {
        // Before the first clear-to-send of its connection.
        for shot in world.shots.iter_mut().filter(|shot| is_other(shot.bth.destination)) {
            shot.at = match shot.bth.opcode() {
                Some(Opcode::WriteOnlyImmediate) => 4_000,
                Some(Opcode::Acknowledge) if shot.link.source == B.mac => 9_000,
                _ => shot.at,
            };
        }
    };
    32 "immediate_is_length" nccl: |world| {
        world.of(Opcode::WriteLastImmediate)[0].extensions.immediate = Some(Immediate::from_u32(2_501));
    };
    33 "data_within_cts" nccl: |world| {
        // Cleared are 2000 bytes, sent 2500.
        let bytes = clear(place(2), 2_000, super::super::worlds::DATA_KEY, 3);
        clears(world)[2].payload = bytes;
    };
    35 "data_dependency" not_ready: |world| world.departures[0].1[0].1 = Nanos(1_002);
    36 "spacing" nccl: |world| world.of(Opcode::WriteMiddle)[0].at -= 10;
    37 "timestamps_sorted" nccl: |world| world.spoil = Some(|[a, _]| a[0].at = 5_000);
    37 "timestamps_resolution" nccl: |world| world.spoil = Some(|captures| {
        for taken in captures.iter_mut().flatten() {
            taken.at -= taken.at % 1_000;
        }
    }), also "spacing" "ack_delay";
    37 "timestamps_vary" nccl: |world| world.spoil = Some(|captures| {
        for capture in captures {
            for (index, taken) in (0..).zip(capture) {
                taken.at = 1_234 + 2_001 * index;
            }
        }
    }), also "ack_delay_varies";
    38 "ack_delay" nccl: |world| {
        let last = world.of(Opcode::WriteLastImmediate)[0].at;
        let ack = world.shots.iter_mut().find(|shot| shot.at > last && shot.link.source == B.mac).unwrap();
        ack.at = last + WAY + 12;
    };
    38 "ack_delay_varies" nccl: |world| {
        let asked: Vec<_> = world.of(Opcode::WriteLastImmediate).iter().map(|shot| (shot.bth.psn, shot.at)).collect();
        for ack in world.of(Opcode::Acknowledge).into_iter().filter(|shot| shot.bth.destination == FORTH.0.qpn()) {
            let (_, at) = asked.iter().find(|(psn, _)| *psn == ack.bth.psn).unwrap();
            ack.at = at + WAY + 3_500;
        }
    };
    39 "one_vantage" nccl: |world| world.spoil = Some(|[a, _]| {
        let mut world = World::new(NicProfile::MLX5_NCCL);
        let ends = (End { host: B, number: 0x777 }, End { host: C, number: 0x778 });
        let bytes = world.ack(0, ends, 0, 0).bytes();
        let at = a.last().unwrap().at + 1_003;
        a.push(Taken { at, length: bytes.len(), bytes });
    });
    40 "pause_form" paused: |world| {
        let mut shot = pause(55_000, 100);
        shot.raw.as_mut().unwrap()[16] = 0x40;
        world.shots.push(shot);
    };
    40 "pause_heeded" paused: |world| {
        for shot in world.shots.iter_mut().filter(|shot| shot.at >= 64_000) {
            shot.at -= 40_000;
        }
    };
    41 "arp_agrees" nccl: |world| {
        let wrong = super::super::world::Host { mac: Mac([0x02, 0, 198, 18, 0, 0x77]), ..B };
        world.shots[1].raw.as_mut().unwrap()[12..].copy_from_slice(&{
            let mut rest = arp(2, wrong, A.mac, A);
            rest.resize(48, 0);
            rest
        });
    };
    42 "payload_as_declared" nccl: |world| world.of(Opcode::WriteMiddle)[0].payload = vec![0; 1024];
    42 "payload_as_declared" nccl: |world| {
        world.content = Some(Payloads::Varied);
        world.of(Opcode::WriteMiddle)[0].payload = vec![0x5a; 1024];
    };
    43 "snap_constant" nccl: |world| world.spoil = Some(|[a, _]| {
        let longest = a.iter_mut().max_by_key(|taken| taken.length).unwrap();
        longest.bytes.truncate(200);
    });
};

/// The second acknowledgement of a clear-to-send, as it comes to B.
pub(super) fn received_ack(b: &mut [Taken]) -> &mut Taken {
    let mut acks =
        b.iter_mut().filter(|taken| taken.bytes.get(42) == Some(&0x11) && taken.bytes[6..12] == A.mac.0);
    acks.nth(1).unwrap()
}

pub(super) fn reseal(taken: &mut Taken) {
    let end = taken.bytes.len() - 4;
    let crc = crate::wire::icrc::icrc(&taken.bytes[14..end]).unwrap();
    taken.bytes[end..].copy_from_slice(&crc.to_le_bytes());
}

pub(super) fn is_other(queue_pair: Qpn) -> bool {
    [OTHER.0.qpn(), OTHER.1.qpn()].contains(&queue_pair)
}

pub(super) fn is_nak(extensions: &Extensions) -> bool {
    extensions.aeth.is_some_and(|aeth| aeth.syndrome() == Syndrome::SequenceError)
}

/// The clear-to-send messages of the first connection.
pub(super) fn clears(world: &mut World) -> Vec<&mut super::super::world::Shot> {
    let all = world.of(Opcode::WriteOnly);
    all.into_iter().filter(|shot| shot.bth.destination == FORTH.0.qpn()).collect()
}

/// The first message says that it has so many bytes.
pub(super) fn lengthen(world: &mut World, length: u32) {
    world.of(Opcode::WriteFirst)[0].extensions.reth.as_mut().unwrap().length = length;
    world.of(Opcode::WriteLastImmediate)[0].extensions.immediate = Some(Immediate::from_u32(length));
}
