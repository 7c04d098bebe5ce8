//! What went through a port: frames and bytes, sent and received.

use crate::wire::opcode::Role;
use crate::wire::{Opcode, ParsedFrame};

/// What was seen of a port so far. Where it is not known which frames the port sent, all count as received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What it sent.
    pub sent: Sums,
    /// What it received.
    pub received: Sums,
}

/// Frames and bytes in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Frames of all kinds.
    pub frames: u64,
    /// Their bytes on the wire, without FCS.
    pub frame_bytes: u64,
    /// The payload of requests, without clear-to-send writes.
    pub payload_bytes: u64,
}

impl Totals {
    #[inline]
    pub(super) fn add(&mut self, sent: bool, length: u32, frame: Option<&ParsedFrame<'_>>) {
        let sums = if sent { &mut self.sent } else { &mut self.received };
        sums.frames += 1;
        sums.frame_bytes += u64::from(length);
        sums.payload_bytes += frame.map_or(0, request_payload);
    }
}

fn request_payload(frame: &ParsedFrame<'_>) -> u64 {
    // Management datagrams are requests of no connection.
    let opcode = frame.bth.opcode().filter(|opcode| opcode.is_reliable_connection());
    let role = opcode.map(|opcode: Opcode| opcode.shape().role);
    let counts = role == Some(Role::Request) && !is_clearance(frame);
    if counts { u64::try_from(frame.payload_length).unwrap_or(u64::MAX) } else { 0 }
}

/// Whether it is a clear-to-send write of NCCL: a WRITE in one frame and without immediate, of 64 bytes a request, at most
/// eight. Data that go without immediate are larger than a frame.
fn is_clearance(frame: &ParsedFrame<'_>) -> bool {
    frame.bth.opcode() == Some(Opcode::WriteOnly)
        && matches!(frame.payload_length, 64..=512)
        && frame.payload_length.is_multiple_of(64)
}
