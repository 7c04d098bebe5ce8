//! A message cut into frames by the path MTU: First, Middle.., Last, or Only.
//!
//! All is closed form: any frame of a message, and the bytes of all its frames, are known without making the
//! others.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::bth::Bth;
use super::icrc;
use super::opcode::{Opcode, Place};
use super::psn::Psn;
use crate::unit::Bytes;

/// The payload of a full frame in bytes (IBTA vol. 1, 9.2.8): one of five sizes, and no 8192.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub enum PathMtu {
    /// 256 bytes.
    Mtu256,
    /// 512 bytes.
    Mtu512,
    /// 1024 bytes: what fits into Ethernet frames of 1500.
    Mtu1024,
    /// 2048 bytes.
    Mtu2048,
    /// 4096 bytes: needs Ethernet frames of 4160 (IPv6: 4180) or more.
    Mtu4096,
}

/// A number that is no path MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("path MTU {0} is none of 256, 512, 1024, 2048, 4096")]
pub struct PathMtuError(pub u16);

/// What carries a message, without what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImmediate,
    /// SEND that ends a key of the receiver's memory when it is complete.
    SendInvalidate,
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate data: NCCL's data messages.
    WriteImmediate,
}

/// A message to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// What carries it.
    pub verb: Verb,
    /// Its bytes; with none it is one Only frame.
    pub bytes: Bytes,
    /// The payload of all frames but the last.
    pub path_mtu: PathMtu,
    /// The sequence number of its first frame.
    pub first: Psn,
    /// Which of its frames ask for an acknowledgement beside the last.
    pub acks: AckCadence,
    /// The payload of a WRITE Only with immediate that closes it, if one does: of none in NCCL's form for adaptive routing,
    /// where the data go as a plain WRITE whose frames may overtake each other.
    pub closing: Option<u16>,
}

/// When frames ask for an acknowledgement. The last frame of a message always does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AckCadence {
    /// Frames within a message.
    pub between: Between,
    /// Whether the first frame asks too: HNS, with the first frame of a queue pair.
    pub opening: bool,
}

/// Which frames within a message ask for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Between {
    /// None.
    Never,
    /// Every frame whose sequence number is the last of so many (mlx5: 256).
    ///
    /// mlx5 sets `log_ack_req_freq = 8`; whether the NIC counts frames or sequence numbers is not public. By number it
    /// needs no state and is the same for a frame sent again.
    Sequence(u32),
    /// Every so manieth frame since one asked (rxe: 66); messages end by asking, so it is counted within the message.
    Run(u32),
}

/// One frame of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its place among the frames of the message, from zero.
    pub index: u64,
    /// Its opcode.
    pub opcode: Opcode,
    /// Its sequence number.
    pub psn: Psn,
    /// Where its payload starts in the message.
    pub offset: u64,
    /// The bytes of its payload.
    pub payload: u16,
    /// The pad behind the payload, 0 to 3.
    pub pad: u8,
    /// Whether it asks for an acknowledgement, see [`AckCadence`].
    pub ack_request: bool,
}

/// What is around the base transport header: it decides the length of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encapsulation {
    /// The version of IP.
    pub ip: IpVersion,
    /// Whether a VLAN tag is there.
    pub vlan: bool,
}

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// A header of 20 bytes; RoCE has no options.
    V4,
    /// A header of 40 bytes; RoCE has no extension headers.
    V6,
}

impl PathMtu {
    /// All of them, the smallest first.
    pub const ALL: [Self; 5] = [Self::Mtu256, Self::Mtu512, Self::Mtu1024, Self::Mtu2048, Self::Mtu4096];

    /// The payload of a full frame in bytes.
    #[must_use]
    pub const fn bytes(self) -> u16 {
        match self {
            Self::Mtu256 => 256,
            Self::Mtu512 => 512,
            Self::Mtu1024 => 1024,
            Self::Mtu2048 => 2048,
            Self::Mtu4096 => 4096,
        }
    }

    /// The one with this many bytes.
    #[must_use]
    pub fn new(bytes: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.bytes() == bytes)
    }
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Send, Self::SendImmediate, Self::SendInvalidate, Self::Write, Self::WriteImmediate];

    /// Whether immediate data come with the last frame.
    #[must_use]
    pub const fn has_immediate(self) -> bool {
        matches!(self, Self::SendImmediate | Self::WriteImmediate)
    }

    /// Whether the last frame names a key of the receiver that ends with the message.
    #[must_use]
    pub const fn has_invalidate(self) -> bool {
        matches!(self, Self::SendInvalidate)
    }

    /// Whether the first frame names the peer's memory.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteImmediate)
    }

    /// The opcode of a frame at this place of the message.
    #[must_use]
    pub const fn opcode(self, place: Place) -> Opcode {
        match (self, place) {
            (Self::Send | Self::SendImmediate | Self::SendInvalidate, Place::First) => Opcode::SendFirst,
            (Self::Send | Self::SendImmediate | Self::SendInvalidate, Place::Middle) => Opcode::SendMiddle,
            (Self::Send, Place::Last) => Opcode::SendLast,
            (Self::Send, Place::Only) => Opcode::SendOnly,
            (Self::SendImmediate, Place::Last) => Opcode::SendLastImmediate,
            (Self::SendImmediate, Place::Only) => Opcode::SendOnlyImmediate,
            (Self::SendInvalidate, Place::Last) => Opcode::SendLastInvalidate,
            (Self::SendInvalidate, Place::Only) => Opcode::SendOnlyInvalidate,
            (Self::Write | Self::WriteImmediate, Place::First) => Opcode::WriteFirst,
            (Self::Write | Self::WriteImmediate, Place::Middle) => Opcode::WriteMiddle,
            (Self::Write, Place::Last) => Opcode::WriteLast,
            (Self::Write, Place::Only) => Opcode::WriteOnly,
            (Self::WriteImmediate, Place::Last) => Opcode::WriteLastImmediate,
            (Self::WriteImmediate, Place::Only) => Opcode::WriteOnlyImmediate,
        }
    }
}

impl AckCadence {
    /// The frames from one that asks within a message to the next, if any do.
    #[must_use]
    pub const fn interval(self) -> Option<u32> {
        match self.between {
            Between::Never => None,
            Between::Sequence(count) | Between::Run(count) => Some(count),
        }
    }

    /// Whether the frame at `index` of its message asks, if it does not end it.
    #[must_use]
    pub const fn asks(self, index: u64, psn: Psn) -> bool {
        let between = match self.between {
            Between::Never => false,
            Between::Sequence(count) => (psn.value() + 1).is_multiple_of(count),
            Between::Run(count) => (index + 1).is_multiple_of(count as u64),
        };
        between || (self.opening && index == 0)
    }
}

impl Default for AckCadence {
    /// mlx5's.
    fn default() -> Self {
        Self { between: Between::Sequence(256), opening: false }
    }
}

impl Segments {
    /// A message whose first frame has the sequence number `first`, as mlx5 asks for its acknowledgements.
    #[must_use]
    pub fn new(verb: Verb, bytes: Bytes, path_mtu: PathMtu, first: Psn) -> Self {
        Self { verb, bytes, path_mtu, first, acks: AckCadence::default(), closing: None }
    }

    /// How many frames it takes: at least one.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.data_frames() + u64::from(self.closing.is_some())
    }

    /// How many frames its bytes take: at least one.
    #[must_use]
    pub fn data_frames(&self) -> u64 {
        self.bytes.0.div_ceil(u64::from(self.path_mtu.bytes())).max(1)
    }

    /// Whether the frame at `index` is the one that closes it behind its bytes.
    #[must_use]
    pub fn closes(&self, index: u64) -> bool {
        self.closing.is_some() && index == self.data_frames()
    }

    /// The frame at `index`, if the message has so many.
    #[must_use]
    pub fn get(&self, index: u64) -> Option<Segment> {
        if let Some(payload) = self.closing.filter(|_| self.closes(index)) {
            return Some(self.closing_segment(index, payload));
        }
        let mtu = u64::from(self.path_mtu.bytes());
        let last = self.data_frames() - 1;
        let place = match (index == 0, index == last) {
            (true, true) => Place::Only,
            (true, false) => Place::First,
            (false, true) => Place::Last,
            (false, false) if index < last => Place::Middle,
            (false, false) => return None,
        };
        let offset = index * mtu;
        let payload = u16::try_from((self.bytes.0 - offset).min(mtu)).ok()?;
        let psn = self.first + low_32(index);
        Some(Segment {
            index,
            opcode: self.verb.opcode(place),
            psn,
            offset,
            payload,
            pad: pad(usize::from(payload)),
            ack_request: place.ends() || self.acks.asks(index, psn),
        })
    }

    fn closing_segment(&self, index: u64, payload: u16) -> Segment {
        Segment {
            index,
            opcode: Opcode::WriteOnlyImmediate,
            psn: self.first + low_32(index),
            offset: self.bytes.0,
            payload,
            pad: pad(usize::from(payload)),
            ack_request: true,
        }
    }

    /// The frames in order.
    pub fn iter(self) -> impl Iterator<Item = Segment> {
        (0..self.frames()).filter_map(move |index| self.get(index))
    }

    /// The sequence number after the message.
    #[must_use]
    pub fn next_psn(&self) -> Psn {
        self.first + low_32(self.frames())
    }

    /// The bytes of all its frames, as a capture has them.
    #[must_use]
    pub fn frame_bytes(&self, encapsulation: Encapsulation) -> Bytes {
        let last = self.data_frames() - 1;
        let at_ends: Bytes = [Some(0), (last > 0).then_some(last), self.closing.map(|_| last + 1)]
            .into_iter()
            .filter_map(|index| self.get(index?))
            .map(|segment| segment.frame_bytes(encapsulation))
            .sum();
        let full = usize::from(self.path_mtu.bytes());
        let middle = frame_bytes(self.verb.opcode(Place::Middle), full, encapsulation);
        at_ends + middle * last.saturating_sub(1)
    }
}

impl Segment {
    /// The bytes of the frame, as a capture has it.
    #[must_use]
    pub fn frame_bytes(&self, encapsulation: Encapsulation) -> Bytes {
        frame_bytes(self.opcode, usize::from(self.payload), encapsulation)
    }
}

impl Encapsulation {
    /// The bytes in front of BTH.
    #[must_use]
    pub const fn length(self) -> usize {
        let vlan = if self.vlan { 4 } else { 0 };
        let ip = match self.ip {
            IpVersion::V4 => 20,
            IpVersion::V6 => 40,
        };
        14 + vlan + ip + 8
    }
}

/// The bytes of a frame with `payload` bytes, from Ethernet to the ICRC, at least Ethernet's 60; without FCS.
#[must_use]
pub fn frame_bytes(opcode: Opcode, payload: usize, encapsulation: Encapsulation) -> Bytes {
    let length = encapsulation.length()
        + Bth::LEN
        + opcode.shape().extension_length()
        + payload
        + usize::from(pad(payload))
        + icrc::LEN;
    Bytes(u64::try_from(length.max(ETHERNET_MINIMUM)).unwrap_or(u64::MAX))
}

/// The bytes that a frame of `frame` bytes takes on the line: with FCS 4, preamble and start 8, gap 12.
#[must_use]
pub const fn line_bytes(frame: Bytes) -> Bytes {
    Bytes(frame.0 + 24)
}

/// The pad behind `payload` bytes.
#[must_use]
pub const fn pad(payload: usize) -> u8 {
    match payload % 4 {
        1 => 3,
        2 => 2,
        3 => 1,
        _ => 0,
    }
}

/// The least bytes of an Ethernet frame without FCS.
pub const ETHERNET_MINIMUM: usize = 60;

impl TryFrom<u16> for PathMtu {
    type Error = PathMtuError;

    fn try_from(bytes: u16) -> Result<Self, PathMtuError> {
        Self::new(bytes).ok_or(PathMtuError(bytes))
    }
}

impl From<PathMtu> for u16 {
    fn from(mtu: PathMtu) -> Self {
        mtu.bytes()
    }
}

impl fmt::Display for PathMtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().fmt(f)
    }
}

pub(super) const fn low_32(value: u64) -> u32 {
    let [_, _, _, _, a, b, c, d] = value.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const V4: Encapsulation = Encapsulation { ip: IpVersion::V4, vlan: false };

    fn message(verb: Verb, bytes: u64, path_mtu: PathMtu, first: u32) -> Segments {
        Segments {
            verb,
            bytes: Bytes(bytes),
            path_mtu,
            first: Psn::wrapping(first),
            acks: AckCadence::default(),
            closing: None,
        }
    }

    #[test]
    fn a_message_of_two_and_a_half_frames_is_first_middle_last() {
        let frames: Vec<_> =
            message(Verb::WriteImmediate, 2561, PathMtu::Mtu1024, 0xff_ffff).iter().collect();
        let opcodes = [Opcode::WriteFirst, Opcode::WriteMiddle, Opcode::WriteLastImmediate];
        assert!(frames.iter().map(|frame| frame.opcode).eq(opcodes));
        assert!(frames.iter().map(|frame| (frame.psn.value(), frame.offset)).eq([
            (0xff_ffff, 0),
            (0, 1024),
            (1, 2048)
        ]));
        assert!(frames.iter().map(|frame| (frame.payload, frame.pad)).eq([(1024, 0), (1024, 0), (513, 3)]));
        // 0xffffff is the last of its 256.
        assert!(frames.iter().map(|frame| frame.ack_request).eq([true, false, true]));
    }

    #[test]
    fn what_comes_with_a_message_comes_with_its_last_frame() {
        for verb in Verb::ALL {
            for place in [Place::First, Place::Middle, Place::Last, Place::Only] {
                let shape = verb.opcode(place).shape();
                assert_eq!(shape.place, place);
                assert_eq!(shape.immediate, verb.has_immediate() && place.ends(), "{verb:?} {place:?}");
                assert_eq!(shape.invalidate, verb.has_invalidate() && place.ends(), "{verb:?} {place:?}");
                assert_eq!(shape.reth, verb.is_write() && place.starts(), "{verb:?} {place:?}");
            }
        }
    }

    #[test]
    fn nothing_is_one_only_frame() {
        let frames: Vec<_> = message(Verb::Write, 0, PathMtu::Mtu4096, 7).iter().collect();
        assert_eq!(frames.len(), 1);
        assert_eq!((frames[0].opcode, frames[0].payload), (Opcode::WriteOnly, 0));
        assert!(frames[0].ack_request);
        assert_eq!(message(Verb::Write, 0, PathMtu::Mtu4096, 7).next_psn(), Psn::wrapping(8));
        assert_eq!(message(Verb::Write, 0, PathMtu::Mtu4096, 7).get(1), None);
    }

    /// The table of frame sizes on untagged IPv4, from captures.
    #[test]
    fn frames_have_the_sizes_of_captures() {
        for (opcode, payload, bytes) in [
            (Opcode::WriteMiddle, 1024, 1082),
            (Opcode::WriteMiddle, 4096, 4154),
            (Opcode::WriteFirst, 1024, 1098),
            (Opcode::WriteLastImmediate, 1024, 1086),
            (Opcode::WriteOnlyImmediate, 4096, 4174),
            (Opcode::ReadRequest, 0, 74),
            (Opcode::Acknowledge, 0, 62),
            (Opcode::AtomicAcknowledge, 0, 70),
            (Opcode::CompareSwap, 0, 86),
            (Opcode::CongestionNotification, 16, 74),
            (Opcode::DatagramSendOnly, 256, 322),
            (Opcode::SendOnly, 0, 60),
            (Opcode::WriteOnly, 5, 74 + 8),
        ] {
            assert_eq!(frame_bytes(opcode, payload, V4), Bytes(bytes), "{opcode}");
        }
        let tagged_v6 = Encapsulation { ip: IpVersion::V6, vlan: true };
        assert_eq!(frame_bytes(Opcode::WriteMiddle, 1024, tagged_v6), Bytes(1106));
        assert_eq!(line_bytes(Bytes(4154)), Bytes(4178));
    }

    #[test]
    fn an_empty_write_with_immediate_closes_a_write() {
        let whole = Segments { closing: Some(0), ..message(Verb::Write, 2049, PathMtu::Mtu1024, 5) };
        let opcodes =
            [Opcode::WriteFirst, Opcode::WriteMiddle, Opcode::WriteLast, Opcode::WriteOnlyImmediate];
        assert!(whole.iter().map(|frame| frame.opcode).eq(opcodes));
        assert!(whole.iter().map(|frame| frame.psn.value()).eq(5..9));
        assert!(whole.iter().map(|frame| frame.ack_request).eq([false, false, true, true]));
        assert_eq!((whole.next_psn(), whole.get(4)), (Psn::wrapping(9), None));
        let sum: Bytes = whole.iter().map(|segment| segment.frame_bytes(V4)).sum();
        assert_eq!(whole.frame_bytes(V4), sum);
    }

    #[test]
    fn an_mtu_is_one_of_five() {
        assert_eq!(PathMtu::new(4096), Some(PathMtu::Mtu4096));
        let error = PathMtu::try_from(8192).unwrap_err();
        assert_eq!(error.to_string(), "path MTU 8192 is none of 256, 512, 1024, 2048, 4096");
    }

    prop_compose! {
        fn messages()(
            verb in prop::sample::select(Verb::ALL.to_vec()),
            bytes in 0..20_000_u64, mtu in prop::sample::select(PathMtu::ALL.to_vec()), first: u32,
        ) -> Segments {
            message(verb, bytes, mtu, first)
        }
    }

    proptest! {
        #[test]
        fn bytes_are_conserved_and_sequence_numbers_consecutive(message in messages()) {
            let mut offset = 0;
            let mut psn = message.first;
            for segment in message.iter() {
                prop_assert_eq!((segment.offset, segment.psn), (offset, psn));
                prop_assert_eq!((u32::from(segment.payload) + u32::from(segment.pad)) % 4, 0);
                offset += u64::from(segment.payload);
                psn = psn + 1;
            }
            prop_assert_eq!((Bytes(offset), psn), (message.bytes, message.next_psn()));
        }

        #[test]
        fn the_closed_form_is_the_sum(message in messages(), vlan: bool, v6: bool) {
            let encapsulation = Encapsulation { ip: if v6 { IpVersion::V6 } else { IpVersion::V4 }, vlan };
            let sum: Bytes = message.iter().map(|segment| segment.frame_bytes(encapsulation)).sum();
            prop_assert_eq!(message.frame_bytes(encapsulation), sum);
        }

        #[test]
        fn the_grammar_of_messages_holds(message in messages()) {
            let places: Vec<_> = message.iter().map(|segment| segment.opcode.shape().place).collect();
            prop_assert!(places[0].starts() && places[places.len() - 1].ends());
            prop_assert!(places.len() == 1 || places[0] == Place::First);
            prop_assert!(places.iter().skip(1).rev().skip(1).all(|&place| place == Place::Middle));
        }
    }
}
