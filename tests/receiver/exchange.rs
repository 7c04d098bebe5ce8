//! A conversation written down frame by frame, for the judge's own tests: two ports, one connection.

use std::net::{IpAddr, Ipv4Addr};

use traces::id::{NicId, QueuePairId};
use traces::unit::Nanos;
use traces::wire::{
    Aeth, Bth, Ecn, Extensions, Frame, Immediate, Ip, Link, Mac, Network, Opcode, Parsed, ParsedFrame,
    Payload, Psn, Qpn, RemoteKey, Reth, Syndrome,
};

use super::judge::{End, Judge, Known};
use super::message::Delivered;

/// The path MTU of the conversations.
pub(crate) const MTU: u32 = 256;

/// A conversation between queue pair 0 (port 0, number 0x11) and queue pair 1 (port 1, number 0x22).
pub(crate) struct Exchange {
    judge: Judge,
    now: u64,
    frames: [u64; 2],
}

/// What is said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    opcode: Opcode,
    psn: u32,
    extensions: Extensions,
    /// Where in its message its payload stands, and how long it is.
    payload: (u64, usize),
    ack_request: bool,
    ecn: Ecn,
}

impl Exchange {
    /// Both numbers start at `first`.
    pub(crate) fn from(first: u32) -> Self {
        let end = |nic: u32, number| End {
            nic: NicId(nic),
            address: IpAddr::V4(address(nic)),
            peer: QueuePairId(1 - nic),
            number,
            first_psn: Psn::wrapping(first),
        };
        let known =
            Known { ends: vec![end(0, 0x11), end(1, 0x22)], path_mtu: 256, pattern: true, loss: true };
        Self { judge: Judge::new(known), now: 0, frames: [0; 2] }
    }

    /// `from` says it, and it arrives.
    pub(crate) fn pass(self, from: u32, said: Said) -> Self {
        self.sends(from, said).takes(1 - from, said)
    }

    /// `from` says it.
    pub(crate) fn sends(self, from: u32, said: Said) -> Self {
        self.seen(from, from, said)
    }

    /// It arrives at `to`.
    pub(crate) fn takes(self, to: u32, said: Said) -> Self {
        self.seen(to, 1 - to, said)
    }

    /// Time passes.
    pub(crate) fn waits(mut self, nanos: u64) -> Self {
        self.now += nanos;
        self
    }

    /// What queue pair 0 has delivered to queue pair 1, in bytes and immediates; or the objections.
    pub(crate) fn ends(self) -> Result<Vec<(u64, Option<u32>)>, String> {
        let delivered = self.judge.finish().map_err(|objections| objections.join("\n"))?;
        Ok(delivered[0].iter().map(|Delivered { bytes, immediate, .. }| (*bytes, *immediate)).collect())
    }

    fn seen(mut self, at: u32, from: u32, said: Said) -> Self {
        self.now += 1_000;
        let frames = &mut self.frames[NicId(at).index()];
        *frames += 1;
        let bytes = bytes(from, &said);
        let Ok(Parsed::Roce(frame)) = ParsedFrame::parse(&bytes, bytes.len()) else { panic!("{said:?}") };
        self.judge.frame(NicId(at), *frames, Nanos(self.now), &frame);
        self
    }
}

impl Said {
    /// It asks for an acknowledgement.
    pub(crate) fn asking(self) -> Self {
        Self { ack_request: true, ..self }
    }

    /// It does not ask for one.
    pub(crate) fn silent(self) -> Self {
        Self { ack_request: false, ..self }
    }

    /// A switch has marked it.
    pub(crate) fn marked(self) -> Self {
        Self { ecn: Ecn::CongestionExperienced, ..self }
    }

    /// Another payload stands in it.
    pub(crate) fn shifted(self) -> Self {
        Self { payload: (self.payload.0 + 1, self.payload.1), ..self }
    }
}

/// The first frame of a WRITE of `length` bytes.
pub(crate) fn first(psn: u32, length: u32) -> Said {
    said(Opcode::WriteFirst, psn, Extensions { reth: Some(reth(length)), ..Extensions::default() }, (0, 256))
}

/// Its `place`-th frame, counted from 0.
pub(crate) fn middle(psn: u32, place: u64) -> Said {
    said(Opcode::WriteMiddle, psn, Extensions::default(), (256 * place, 256))
}

/// Its last, with `bytes` of payload and its length as the immediate value.
pub(crate) fn last(psn: u32, place: u64, bytes: u32) -> Said {
    let length = u32::try_from(256 * place).unwrap() + bytes;
    let extensions = Extensions { immediate: Some(Immediate::from_u32(length)), ..Extensions::default() };
    let payload = (256 * place, usize::try_from(bytes).unwrap());
    said(Opcode::WriteLastImmediate, psn, extensions, payload).asking()
}

/// A WRITE of one frame.
pub(crate) fn only(psn: u32, bytes: u32) -> Said {
    let immediate = Some(Immediate::from_u32(bytes));
    let extensions = Extensions { reth: Some(reth(bytes)), immediate, ..Extensions::default() };
    said(Opcode::WriteOnlyImmediate, psn, extensions, (0, usize::try_from(bytes).unwrap())).asking()
}

/// A READ of `length` bytes.
pub(crate) fn read(psn: u32, length: u32) -> Said {
    said(Opcode::ReadRequest, psn, Extensions { reth: Some(reth(length)), ..Extensions::default() }, (0, 0))
        .asking()
}

/// A frame of its answer.
pub(crate) fn answer(opcode: Opcode, psn: u32, messages: u32, bytes: usize) -> Said {
    let aeth = opcode.shape().aeth.then(|| Aeth::new(Syndrome::UNLIMITED, Psn::wrapping(messages)));
    said(opcode, psn, Extensions { aeth, ..Extensions::default() }, (0, bytes))
}

/// An acknowledgement.
pub(crate) fn ack(psn: u32, messages: u32) -> Said {
    acknowledge(Syndrome::UNLIMITED, psn, messages)
}

/// A NAK of a sequence error.
pub(crate) fn nak(psn: u32, messages: u32) -> Said {
    acknowledge(Syndrome::SequenceError, psn, messages)
}

/// A NAK of a receiver that is not ready for 640 us.
pub(crate) fn not_ready(psn: u32, messages: u32) -> Said {
    acknowledge(Syndrome::ReceiverNotReady(12), psn, messages)
}

/// A notification of congestion.
pub(crate) fn notification() -> Said {
    said(Opcode::CongestionNotification, 0, Extensions::default(), (0, 16))
}

fn acknowledge(syndrome: Syndrome, psn: u32, messages: u32) -> Said {
    let aeth = Some(Aeth::new(syndrome, Psn::wrapping(messages)));
    said(Opcode::Acknowledge, psn, Extensions { aeth, ..Extensions::default() }, (0, 0))
}

fn said(opcode: Opcode, psn: u32, extensions: Extensions, payload: (u64, usize)) -> Said {
    Said { opcode, psn, extensions, payload, ack_request: false, ecn: Ecn::Capable0 }
}

fn reth(length: u32) -> Reth {
    Reth { virtual_address: 0x7f00_0000_0000, remote_key: RemoteKey(0x1801), length }
}

fn address(nic: u32) -> Ipv4Addr {
    Ipv4Addr::from(0xc612_0001 + nic)
}

fn bytes(from: u32, said: &Said) -> Vec<u8> {
    let mac = |nic: u32| Mac([2, 0, 198, 18, 0, u8::try_from(1 + nic).unwrap()]);
    let to = 1 - from;
    let mut bth =
        Bth::new(said.opcode, Qpn::new(if to == 0 { 0x11 } else { 0x22 }).unwrap(), Psn::wrapping(said.psn));
    bth.ack_request = said.ack_request;
    let ip =
        Ip::V4 { source: address(from), destination: address(to), identification: 0, dont_fragment: true };
    let frame = Frame {
        link: Link { source: mac(from), destination: mac(to), vlan: None },
        network: Network { ip, dscp: 26, ecn: said.ecn, ttl: 64 },
        source_port: 50_800,
        bth,
        extensions: said.extensions,
        payload: Payload::Pattern.bytes(said.payload.0, said.payload.1).unwrap(),
    };
    let mut bytes = Vec::new();
    frame.emit(&mut bytes).unwrap();
    bytes
}
