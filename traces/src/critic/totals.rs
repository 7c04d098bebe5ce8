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
    /// The payload of requests alone.
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
    let role = frame.bth.opcode().map(|opcode: Opcode| opcode.shape().role);
    if role == Some(Role::Request) { u64::try_from(frame.payload_length).unwrap_or(u64::MAX) } else { 0 }
}
