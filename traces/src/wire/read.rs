//! RDMA READ: one request frame, answered by as many frames as the data take.
//!
//! The answers have the sequence numbers from the request's own on, so a request takes as many numbers of the
//! requester as there are answers, although it is one frame. Closed form, as [`super::segment`].

use super::opcode::Opcode;
use super::psn::Psn;
use super::reth::Reth;
use super::segment::{Encapsulation, PathMtu, Segment, frame_bytes, low_32, pad};
use crate::unit::Bytes;

/// A READ request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// What is read: where, with which key, how much.
    pub reth: Reth,
    /// The payload of all answers but the last.
    pub path_mtu: PathMtu,
    /// Its sequence number, which is that of the first answer.
    pub first: Psn,
}

/// The frames that answer a READ request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadResponses {
    /// The bytes that are read; none are one Only frame.
    pub bytes: Bytes,
    /// The payload of all frames but the last.
    pub path_mtu: PathMtu,
    /// The sequence number of the first: the request's.
    pub first: Psn,
}

impl Read {
    /// What answers it.
    #[must_use]
    pub fn responses(&self) -> ReadResponses {
        ReadResponses { bytes: Bytes(self.reth.length.into()), path_mtu: self.path_mtu, first: self.first }
    }

    /// The sequence number of the requester's next request.
    #[must_use]
    pub fn next_psn(&self) -> Psn {
        self.responses().next_psn()
    }

    /// The request that is sent when the answer `missing` did not come: a new one with that sequence number, for
    /// what is left from there on. `None` if no answer of this request has the number.
    ///
    /// (Linux rxe, `req_retry`: the address advances and the length shrinks by the path MTU per answer that came.)
    #[must_use]
    pub fn again_from(&self, missing: Psn) -> Option<Self> {
        let steps = u64::try_from(self.first.distance_to(missing)).ok()?;
        let arrived = u32::try_from(self.responses().get(steps)?.offset).ok()?;
        let reth = Reth {
            virtual_address: self.reth.virtual_address.wrapping_add(arrived.into()),
            length: self.reth.length - arrived,
            ..self.reth
        };
        Some(Self { reth, first: missing, ..*self })
    }
}

impl ReadResponses {
    /// How many frames they are, and how many sequence numbers the request takes: at least one.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.bytes.0.div_ceil(self.path_mtu.bytes().into()).max(1)
    }

    /// The frame at `index`, if there are so many. No answer asks for an acknowledgement.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<Segment> {
        let mtu = u64::from(self.path_mtu.bytes());
        let left = self.frames().checked_sub(index + 1)?;
        let opcode = match (index, left) {
            (0, 0) => Opcode::ReadResponseOnly,
            (0, _) => Opcode::ReadResponseFirst,
            (_, 0) => Opcode::ReadResponseLast,
            _ => Opcode::ReadResponseMiddle,
        };
        let offset = index * mtu;
        let payload = u16::try_from((self.bytes.0 - offset).min(mtu)).ok()?;
        Some(Segment {
            index,
            opcode,
            psn: self.first + low_32(index),
            offset,
            payload,
            pad: pad(usize::from(payload)),
            ack_request: false,
        })
    }

    /// The frames in order.
    pub fn iter(self) -> impl Iterator<Item = Segment> {
        (0..self.frames()).filter_map(move |index| self.get(index))
    }

    /// The sequence number of the requester's next request.
    #[must_use]
    pub fn next_psn(&self) -> Psn {
        self.first + low_32(self.frames())
    }

    /// The bytes of all its frames, as a capture has them.
    #[must_use]
    pub fn frame_bytes(&self, encapsulation: Encapsulation) -> Bytes {
        let last = self.frames() - 1;
        let at_ends: Bytes = [Some(0), (last > 0).then_some(last)]
            .into_iter()
            .filter_map(|index| self.get(index?))
            .map(|segment| segment.frame_bytes(encapsulation))
            .sum();
        let middle = frame_bytes(Opcode::ReadResponseMiddle, self.path_mtu.bytes().into(), encapsulation);
        at_ends + middle * last.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::reth::RemoteKey;
    use super::super::segment::IpVersion;
    use super::*;

    fn read(length: u32, path_mtu: PathMtu, first: u32) -> Read {
        let reth = Reth { virtual_address: 0x7f00_0000_1000, remote_key: RemoteKey(0x1aed), length };
        Read { reth, path_mtu, first: Psn::wrapping(first) }
    }

    /// A capture of rxe: READ 9209054 of 4096 bytes, answers 9209054 to 9209057 of 1024, the next request 9209058.
    #[test]
    fn a_request_takes_as_many_numbers_as_there_are_answers() {
        let read = read(4096, PathMtu::Mtu1024, 9_209_054);
        let answers: Vec<_> =
            read.responses().iter().map(|answer| (answer.opcode, answer.psn.value())).collect();
        assert_eq!(
            answers,
            [
                (Opcode::ReadResponseFirst, 9_209_054),
                (Opcode::ReadResponseMiddle, 9_209_055),
                (Opcode::ReadResponseMiddle, 9_209_056),
                (Opcode::ReadResponseLast, 9_209_057),
            ]
        );
        assert_eq!(read.next_psn(), Psn::wrapping(9_209_058));
    }

    #[test]
    fn nothing_read_is_one_empty_answer() {
        let answers: Vec<_> = read(0, PathMtu::Mtu256, 0xff_ffff).responses().iter().collect();
        assert_eq!(answers.len(), 1);
        assert_eq!((answers[0].opcode, answers[0].payload, answers[0].pad), (Opcode::ReadResponseOnly, 0, 0));
        assert_eq!(read(0, PathMtu::Mtu256, 0xff_ffff).next_psn(), Psn::ZERO);
    }

    #[test]
    fn a_retry_asks_for_what_is_left() {
        let whole = read(2561, PathMtu::Mtu1024, 0xff_ffff);
        assert_eq!(whole.again_from(whole.first), Some(whole));
        let rest = whole.again_from(Psn::wrapping(1)).unwrap();
        assert_eq!((rest.reth.virtual_address, rest.reth.length), (0x7f00_0000_1800, 513));
        assert_eq!((rest.reth.remote_key, rest.first), (whole.reth.remote_key, Psn::wrapping(1)));
        assert_eq!(rest.responses().get(0).unwrap().opcode, Opcode::ReadResponseOnly);
        for foreign in [0xff_fffe, 2] {
            assert_eq!(whole.again_from(Psn::wrapping(foreign)), None);
        }
    }

    prop_compose! {
        fn reads()(
            length in 0..20_000_u32, mtu in prop::sample::select(PathMtu::ALL.to_vec()), first: u32,
        ) -> Read {
            read(length, mtu, first)
        }
    }

    proptest! {
        #[test]
        fn bytes_are_conserved_and_sequence_numbers_consecutive(read in reads()) {
            let mut offset = 0;
            let mut psn = read.first;
            let mut grammar = String::new();
            for answer in read.responses().iter() {
                prop_assert_eq!((answer.offset, answer.psn), (offset, psn));
                offset += u64::from(answer.payload);
                psn = psn + 1;
                grammar.push(match answer.opcode {
                    Opcode::ReadResponseFirst => 'f',
                    Opcode::ReadResponseMiddle => 'm',
                    Opcode::ReadResponseLast => 'l',
                    _ => 'o',
                });
            }
            prop_assert_eq!((offset, psn), (u64::from(read.reth.length), read.next_psn()));
            let middles = "m".repeat(grammar.len().saturating_sub(2));
            prop_assert!(grammar == "o" || grammar == format!("f{middles}l"), "{}", grammar);
        }

        #[test]
        fn a_retry_ends_where_the_request_did(read in reads(), arrived in 0..100_u64) {
            let arrived = arrived % read.responses().frames();
            let missing = read.responses().get(arrived).unwrap();
            let rest = read.again_from(missing.psn).unwrap();
            prop_assert_eq!(rest.next_psn(), read.next_psn());
            prop_assert_eq!(missing.offset + u64::from(rest.reth.length), u64::from(read.reth.length));
            prop_assert_eq!(
                rest.reth.virtual_address + u64::from(rest.reth.length),
                read.reth.virtual_address + u64::from(read.reth.length)
            );
            // What comes now has the payload that was to come at each number.
            for (again, once) in rest.responses().iter().zip(read.responses().iter().skip(missing.index.try_into().unwrap())) {
                prop_assert_eq!((again.psn, again.payload), (once.psn, once.payload));
            }
        }

        #[test]
        fn the_closed_form_is_the_sum(read in reads(), vlan: bool) {
            let encapsulation = Encapsulation { ip: IpVersion::V4, vlan };
            let sum: Bytes = read.responses().iter().map(|answer| answer.frame_bytes(encapsulation)).sum();
            prop_assert_eq!(read.responses().frame_bytes(encapsulation), sum);
        }
    }
}
