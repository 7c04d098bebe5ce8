//! Which of the host's queue pairs an id or a number on the wire means, and whether a datagram belongs to the run.

use traces::id::QueuePairId;
use traces::unit::Nanos;
use traces::wire::opcode::{Opcode, Role, Shape};
use traces::wire::packet::Packet;

use super::packet;
use super::setup::Setup;
use crate::measure::{Meter, Sizes};
use crate::stamp::Stamp;

/// Places of queue pairs in [`Setup::queue_pairs`].
#[derive(Debug)]
pub(super) struct Directory {
    /// Ascending.
    by_id: Vec<(QueuePairId, usize)>,
    /// By NIC and number; ascending.
    by_number: Vec<((usize, u32), usize)>,
}

/// A datagram of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted<'a> {
    pub(super) flow: usize,
    pub(super) packet: Packet<'a>,
    /// What its opcode means, if it is known.
    pub(super) shape: Option<Shape>,
    /// Whether it is a request with room for payload.
    pub(super) data: bool,
    pub(super) stamp: Option<Stamp>,
    pub(super) sizes: Sizes,
}

impl Directory {
    pub(super) fn new(setup: &Setup) -> Self {
        let ends = setup.queue_pairs.iter().enumerate();
        let mut by_id: Vec<_> = ends.clone().map(|(place, end)| (end.id, place)).collect();
        let mut by_number: Vec<_> = ends.map(|(place, end)| ((end.nic, end.number.value()), place)).collect();
        by_id.sort_unstable();
        by_number.sort_unstable();
        Self { by_id, by_number }
    }

    /// The place of a queue pair.
    pub(super) fn place(&self, id: QueuePairId) -> Option<usize> {
        let found = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.by_id[found].1)
    }

    /// Takes a datagram apart and counts it; `None` if it does not belong to the run.
    pub(super) fn admit<'a>(
        &self,
        setup: &Setup,
        meter: &mut Meter,
        now: Nanos,
        nic: usize,
        (bytes, ecn): (&'a [u8], u8),
    ) -> Option<Admitted<'a>> {
        let Ok(packet) = Packet::parse(bytes) else {
            meter.nic(nic)?.malformed += 1;
            return None;
        };
        let shape = packet.bth.opcode().map(Opcode::shape);
        let key = (nic, packet.bth.destination.value());
        let found = self.by_number.binary_search_by_key(&key, |(number, _)| *number);
        let receives = found.is_ok_and(|found| !setup.queue_pairs[self.by_number[found].1].sends_data);
        let data = receives && shape.is_some_and(|shape| shape.role == Role::Request && shape.payload);
        let stamp = if data && setup.stamps { Stamp::parse(packet.payload) } else { None };
        let ours = match stamp {
            Some(stamp) => stamp.run == setup.run,
            None => !data || !setup.stamps || packet.payload_length < Stamp::LEN,
        };
        let (Ok(found), true) = (found, ours) else {
            meter.nic(nic)?.unmatched += 1;
            return None;
        };
        let flow = self.by_number[found].1;
        let sizes =
            packet::sizes(setup.encapsulation, bytes.len(), if data { packet.payload_length } else { 0 });
        meter.arrives(now, flow, sizes, ecn & 3 == CONGESTION_EXPERIENCED);
        if shape.is_some_and(|shape| shape.role == Role::Notification) {
            meter.nic_of(flow).congestion_notifications += 1;
        }
        Some(Admitted { flow, packet, shape, data, stamp, sizes })
    }
}

/// The ECN field of a frame that a switch has marked (RFC 3168).
const CONGESTION_EXPERIENCED: u8 = 3;
