//! The host's connections: acknowledgements first, then data, queue pairs in turn, time-outs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use traces::unit::Nanos;
use traces::wire::aeth::Aeth;
use traces::wire::bth::Bth;
use traces::wire::extensions::Extensions;
use traces::wire::immediate::Immediate;
use traces::wire::opcode::{Opcode, Place};
use traces::wire::psn::Psn;
use traces::wire::reth::Reth;

use super::receiver::{Receiver, Taken};
use super::sender::{Answered, Due, Outgoing, Sender};
use super::setup::{QueuePairEnd, Setup};
use super::turns::Turns;
use super::{Burst, Fault, packet};
use crate::measure::{Departed, Meter};
use crate::stamp::Stamp;

/// All connections of a host, by their place in [`Setup::queue_pairs`].
#[derive(Debug)]
pub(super) struct Transport {
    setup: Setup,
    connections: Vec<Connection>,
    answers: Turns,
    data: Turns,
    /// Frames that the first of `data` has sent in its turn.
    served: u32,
    /// Times to look at a connection's time-out; each armed connection stands once.
    alarms: BinaryHeap<Reverse<(Nanos, usize)>>,
}

/// Both directions of a connection, at this end.
#[derive(Debug)]
struct Connection {
    end: QueuePairEnd,
    sender: Sender,
    receiver: Receiver,
    armed: bool,
}

impl Transport {
    pub(super) fn new(setup: Setup) -> Self {
        let ends = &setup.queue_pairs;
        let connection = |end: &QueuePairEnd| Connection {
            end: *end,
            sender: Sender::new(end.first_psn, setup.path_mtu, setup.limits),
            receiver: Receiver::new(end.peer_first_psn),
            armed: false,
        };
        Self {
            connections: ends.iter().map(connection).collect(),
            answers: Turns::new(ends.len()),
            data: Turns::new(ends.len()),
            served: 0,
            alarms: BinaryHeap::with_capacity(ends.len()),
            setup,
        }
    }

    pub(super) const fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Takes the `sequence`-th message of a queue pair to be sent; whether its place was free.
    pub(super) fn stage(&mut self, flow: usize, sequence: u32, message: Outgoing) -> bool {
        let staged = self.connections[flow].sender.stage(sequence, message);
        if staged {
            self.data.join(flow);
        }
        staged
    }

    /// The number of the message that a queue pair receives next.
    pub(super) fn expects(&self, flow: usize) -> u32 {
        self.connections[flow].receiver.messages()
    }

    /// A data frame arrived.
    pub(super) fn take(&mut self, flow: usize, bth: &Bth, place: Place) -> Taken {
        let receiver = &mut self.connections[flow].receiver;
        let taken = receiver.take(bth.psn, place, bth.ack_request);
        if receiver.has_answer() {
            self.answers.join(flow);
        }
        taken
    }

    /// An answer arrived; `complete` is told each message that is acknowledged whole.
    pub(super) fn on_answer(
        &mut self,
        now: Nanos,
        flow: usize,
        psn: Psn,
        aeth: Aeth,
        complete: impl FnMut(&Outgoing),
    ) -> Result<(), Fault> {
        let connection = &mut self.connections[flow];
        match connection.sender.on_answer(now, psn, aeth.syndrome(), complete) {
            Answered::Taken => self.data.join(flow),
            Answered::Old => {}
            Answered::Refused => {
                return Err(Fault::Refused { sender: connection.end.id, syndrome: aeth.syndrome });
            }
        }
        Ok(())
    }

    /// Looks at connections whose time-out may be over.
    pub(super) fn ring(&mut self, now: Nanos, meter: &mut Meter) -> Result<(), Fault> {
        while let Some(&Reverse((at, flow))) = self.alarms.peek() {
            if at > now {
                break;
            }
            self.alarms.pop();
            let connection = &mut self.connections[flow];
            connection.armed = false;
            match connection.sender.deadline() {
                Some(deadline) if deadline <= now => {
                    let tries = connection.sender.time_out();
                    meter.sender(flow).timeouts += 1;
                    if tries >= self.setup.limits.tries {
                        return Err(Fault::PeerSilent { sender: connection.end.id, tries });
                    }
                    self.data.join(flow);
                }
                _ => self.arm(flow),
            }
        }
        Ok(())
    }

    /// When time-outs have to be looked at.
    pub(super) fn alarm(&self) -> Option<Nanos> {
        self.alarms.peek().map(|Reverse((at, _))| *at)
    }

    /// Sends no data any more.
    pub(super) fn silence(&mut self) {
        self.data.clear();
    }

    /// Writes the next acknowledgement.
    pub(super) fn answer(
        &mut self,
        now: Nanos,
        meter: &mut Meter,
        buffer: &mut [u8],
    ) -> Result<Option<Burst>, Fault> {
        while let Some(flow) = self.answers.first() {
            fits(buffer, packet::length(Opcode::Acknowledge, 0))?;
            self.answers.leave();
            let connection = &mut self.connections[flow];
            let Some((psn, aeth)) = connection.receiver.answer() else { continue };
            let bth = Bth::new(Opcode::Acknowledge, connection.end.peer_number, psn);
            let bytes = packet::write_answer(&bth, &aeth, buffer);
            let sizes = packet::sizes(self.setup.encapsulation, bytes, 0);
            meter.answered(now, flow, sizes.frame, !aeth.syndrome().is_ack());
            return Ok(Some(Burst { flow, frames: 1, frame_bytes: bytes, bytes }));
        }
        Ok(None)
    }

    /// Writes frames of the queue pair whose turn it is: equal in length but for a shorter last one.
    pub(super) fn send(
        &mut self,
        now: Nanos,
        meter: &mut Meter,
        buffer: &mut [u8],
    ) -> Result<Option<Burst>, Fault> {
        let quantum = self.setup.limits.quantum.max(1);
        let most = usize::try_from(self.setup.limits.burst.max(1)).unwrap_or(usize::MAX);
        let room = buffer.len().min(packet::MOST_BURST);
        while let Some(flow) = self.data.first() {
            let mut burst = Burst { flow, frames: 0, frame_bytes: 0, bytes: 0 };
            while burst.frames < most && self.served < quantum {
                let Some(due) = self.connections[flow].sender.due() else { break };
                let length = packet::length(due.segment.opcode, usize::from(due.segment.payload));
                if burst.frames == 0 {
                    fits(buffer, length)?;
                    burst.frame_bytes = length;
                }
                if length > burst.frame_bytes || burst.bytes + length > room {
                    break;
                }
                self.write(now, meter, flow, &due, &mut buffer[burst.bytes..]);
                self.connections[flow].sender.advance(now);
                self.served += 1;
                burst.frames += 1;
                burst.bytes += length;
                if length < burst.frame_bytes {
                    break;
                }
            }
            self.arm(flow);
            let more = self.connections[flow].sender.due().is_some();
            if !more || self.served >= quantum {
                self.served = 0;
                self.data.leave();
                if more {
                    self.data.join(flow);
                }
            }
            if burst.frames > 0 {
                return Ok(Some(burst));
            }
        }
        Ok(None)
    }

    fn arm(&mut self, flow: usize) {
        let connection = &mut self.connections[flow];
        if let Some(deadline) = connection.sender.deadline().filter(|_| !connection.armed) {
            connection.armed = true;
            self.alarms.push(Reverse((deadline, flow)));
        }
    }

    fn write(&self, now: Nanos, meter: &mut Meter, flow: usize, due: &Due, into: &mut [u8]) {
        let Due { message, segment, psn, ack_request, again } = *due;
        let end = self.connections[flow].end;
        let shape = segment.opcode.shape();
        let extensions = Extensions {
            reth: shape.reth.then(|| Reth {
                virtual_address: message.address,
                remote_key: end.peer_key,
                length: u32::try_from(message.bytes.0).unwrap_or(u32::MAX),
            }),
            immediate: message.immediate.filter(|_| shape.immediate).map(Immediate::from_u32),
            ..Extensions::default()
        };
        let mut bth = Bth::new(segment.opcode, end.peer_number, psn);
        bth.pad = segment.pad;
        bth.ack_request = ack_request;
        let stamped = self.setup.stamps && usize::from(segment.payload) >= Stamp::LEN;
        let class = Some(message.class);
        let intended = message.ready;
        let stamp = stamped.then(|| Stamp {
            class,
            run: self.setup.run,
            sequence: meter.next_sequence(flow),
            intended,
            departure: now,
        });
        let content = packet::content(self.setup.payload, segment.offset, segment.payload);
        let udp = packet::write_data(&bth, segment.opcode, &extensions, stamp.as_ref(), content, into);
        let sizes = packet::sizes(self.setup.encapsulation, udp, content.len());
        meter.departed(now, &Departed { flow, class, sizes, intended, stamped, again });
    }
}

const fn fits(buffer: &[u8], needs: usize) -> Result<(), Fault> {
    if buffer.len() < needs { Err(Fault::Buffer { has: buffer.len(), needs }) } else { Ok(()) }
}
