//! Timed replay: the frames that a NIC sends in its capture, each at its time.
//!
//! A frame that cannot leave in time leaves as soon as it can, and all others keep their times: nothing is stretched,
//! and what is late is counted. Nothing is answered; the receiving side only counts.

use std::collections::VecDeque;

use traces::origin::Class;
use traces::unit::Nanos;
use traces::wire::bth::Bth;
use traces::wire::icrc;
use traces::wire::opcode::{Opcode, Role};

use super::directory::{Admitted, Directory};
use super::setup::Setup;
use super::{Burst, Fault, Next, Progress, blank, packet};
use crate::measure::{Arrived, Departed, Meter, Novelty};
use crate::outcome::{End, HostOutcome, Mode, SamplesError, Speed};
use crate::stamp::Stamp;

/// A frame of a capture that this host is to send.
#[derive(Clone, Copy, Debug)]
pub struct TimedFrame<'a> {
    /// Its time in the trace.
    pub at: Nanos,
    /// The queue pair that sends it, by its place in [`Setup::queue_pairs`].
    pub flow: usize,
    /// Its class, if it is known.
    pub class: Option<Class>,
    /// What UDP carries, from the base transport header on, as far as it was captured.
    pub bytes: &'a [u8],
    /// How many bytes UDP carried on the wire, the ICRC included: what was not captured is sent as zeros.
    pub length: usize,
}

/// An engine that plays captures.
#[derive(Debug)]
pub(super) struct Timed {
    setup: Setup,
    speed: Speed,
    /// When the trace is over, at this speed.
    end: Nanos,
    frames: VecDeque<Held>,
    /// The bytes of the frames held, one behind the other.
    bytes: VecDeque<u8>,
    directory: Directory,
    meter: Meter,
    fed: u64,
    sent: u64,
    fed_all: bool,
    finished: Option<Nanos>,
    stopped: Option<Nanos>,
    fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    due: Nanos,
    flow: usize,
    class: Option<Class>,
    captured: usize,
    length: usize,
    /// Where the payload starts, and its length; `None` if it is no data frame.
    payload: Option<(usize, usize)>,
    ends_message: bool,
    /// Whether it is an answer, and then whether a negative one; neither data nor answer is what clears a sender to send.
    answer: Option<bool>,
}

impl Timed {
    pub(super) fn new(setup: Setup, speed: Speed, duration: Nanos) -> Self {
        let mut meter = setup.meter();
        meter.count_late(setup.limits.late_after);
        Self {
            speed,
            end: Nanos(setup.start.0.saturating_add(speed.scale(duration.0))),
            frames: VecDeque::with_capacity(setup.limits.held),
            bytes: VecDeque::with_capacity(HELD_BYTES),
            directory: Directory::new(&setup),
            meter,
            fed: 0,
            sent: 0,
            fed_all: false,
            finished: None,
            stopped: None,
            fault: None,
            setup,
        }
    }

    pub(super) const fn speed(&self) -> Speed {
        self.speed
    }

    pub(super) fn wants(&self) -> bool {
        !self.fed_all
            && self.stopped.is_none()
            && self.frames.len() < self.setup.limits.held
            && self.bytes.len() + LONGEST_FRAME <= HELD_BYTES
    }

    pub(super) fn feed(&mut self, frame: &TimedFrame<'_>) -> Result<(), Fault> {
        let wrong = |what| Fault::Frame { at: frame.at, what };
        if frame.flow >= self.setup.queue_pairs.len() {
            return Err(wrong("is sent by a queue pair that this host does not have"));
        }
        if frame.length > LONGEST_FRAME || frame.bytes.len() > frame.length {
            return Err(wrong("is longer than the greatest path MTU allows"));
        }
        let head = frame
            .bytes
            .first_chunk::<{ Bth::LEN }>()
            .ok_or(wrong("ends within its base transport header"))?;
        let bth = Bth::parse(head);
        let opcode = bth.opcode().ok_or(wrong("has an unknown opcode"))?;
        let shape = opcode.shape();
        let data = shape.role == Role::Request && self.setup.queue_pairs[frame.flow].sends_data;
        let at = Bth::LEN + shape.extension_length();
        let tail = usize::from(bth.pad) + icrc::LEN;
        let payload = frame.length.checked_sub(at + tail).ok_or(wrong("is shorter than its headers"))?;
        self.bytes.extend(frame.bytes);
        self.fed += 1;
        self.frames.push_back(Held {
            due: Nanos(self.setup.start.0.saturating_add(self.speed.scale(frame.at.0))),
            flow: frame.flow,
            class: frame.class,
            captured: frame.bytes.len(),
            length: frame.length,
            payload: (data && shape.payload).then_some((at, payload)),
            ends_message: shape.place.ends(),
            // A negative acknowledgement has a syndrome of 0x20 and above.
            answer: (opcode == Opcode::Acknowledge)
                .then(|| frame.bytes.get(Bth::LEN).is_some_and(|&syndrome| syndrome >= 0x20)),
        });
        Ok(())
    }

    pub(super) const fn end_of_input(&mut self) {
        self.fed_all = true;
    }

    pub(super) fn poll(&mut self, now: Nanos, buffer: &mut [u8]) -> Next {
        if self.fault.is_some() {
            return Next::Done;
        }
        if let Some(stopped) = self.stopped {
            let end = Nanos(stopped.0.saturating_add(STOP_DRAIN.0));
            return if now >= end { Next::Done } else { Next::Wait(end) };
        }
        let mut burst = Burst { flow: 0, frames: 0, frame_bytes: 0, bytes: 0 };
        let most = usize::try_from(self.setup.limits.burst.max(1)).unwrap_or(usize::MAX);
        while burst.frames < most {
            let Some(frame) = self.frames.front().copied().filter(|frame| frame.due <= now) else { break };
            if burst.frames == 0 {
                if buffer.len() < frame.length {
                    self.fault = Some(Fault::Buffer { has: buffer.len(), needs: frame.length });
                    return Next::Done;
                }
                burst.flow = frame.flow;
                burst.frame_bytes = frame.length;
            }
            let fits = burst.bytes + frame.length <= buffer.len().min(packet::MOST_BURST);
            if frame.flow != burst.flow || frame.length > burst.frame_bytes || !fits {
                break;
            }
            self.frames.pop_front();
            self.write(now, &frame, &mut buffer[burst.bytes..burst.bytes + frame.length]);
            burst.frames += 1;
            burst.bytes += frame.length;
            if frame.length < burst.frame_bytes {
                break;
            }
        }
        if burst.frames > 0 { Next::Send(burst) } else { self.rest(now) }
    }

    pub(super) fn on_arrival(&mut self, now: Nanos, nic: usize, bytes: &[u8], ecn: u8) {
        let Some(admitted) = self.directory.admit(&self.setup, &mut self.meter, now, nic, (bytes, ecn))
        else {
            return;
        };
        let Admitted { flow, packet, shape, stamp, sizes, .. } = admitted;
        if admitted.data {
            let frame = Arrived { flow, sizes, stamp, class: None, novelty: Novelty::ByStamp };
            let new = self.meter.arrived(now, &frame);
            if new && shape.is_some_and(|shape| shape.place.ends()) {
                self.meter.message_received(flow, stamp.and_then(|stamp| stamp.class));
            }
        } else if let Some(aeth) = packet.extensions.aeth {
            let sent = self.meter.sender(flow);
            *if aeth.syndrome().is_ack() { &mut sent.acknowledgements } else { &mut sent.naks } += 1;
        }
    }

    pub(super) fn stop(&mut self, now: Nanos) {
        self.stopped.get_or_insert(now);
    }

    pub(super) const fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    pub(super) fn progress(&mut self) -> Progress {
        let finished = self.finished.is_some();
        let mut progress = Progress { done: self.sent, fed: self.fed, finished, ..Progress::default() };
        for nic in 0..self.setup.nics.len() {
            if let Some(counts) = self.meter.nic(nic) {
                progress.payload_bytes_sent += counts.payload_bytes_sent;
                progress.payload_bytes_received += counts.payload_bytes_received;
            }
        }
        progress
    }

    pub(super) const fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    pub(super) fn outcome(&self, now: Nanos) -> Result<HostOutcome, SamplesError> {
        let end = match (&self.fault, self.finished) {
            (Some(fault), _) => End::Fault { what: fault.to_string() },
            (None, Some(_)) => End::Complete,
            (None, None) => End::Stopped,
        };
        let mut outcome = blank(&self.setup, Mode::Timed { speed: self.speed }, end);
        outcome.end_ns = self.finished.or(self.stopped).unwrap_or(now).0;
        self.meter.report(&mut outcome)?;
        Ok(outcome)
    }

    fn write(&mut self, now: Nanos, frame: &Held, into: &mut [u8]) {
        let (captured, rest) = into.split_at_mut(frame.captured);
        let (front, back) = self.bytes.as_slices();
        let in_front = frame.captured.min(front.len());
        captured[..in_front].copy_from_slice(&front[..in_front]);
        captured[in_front..].copy_from_slice(&back[..frame.captured - in_front]);
        self.bytes.drain(..frame.captured);
        rest.fill(0);
        self.sent += 1;
        let payload = frame.payload.map_or(0, |(_, length)| length);
        let sizes = packet::sizes(self.setup.encapsulation, frame.length, payload);
        let Some((at, length)) = frame.payload else {
            self.meter.controlled(now, frame.flow, sizes.frame, frame.answer);
            return;
        };
        let stamped = self.setup.stamps && length >= Stamp::LEN;
        if stamped {
            let stamp = Stamp {
                class: frame.class,
                run: self.setup.run,
                sequence: self.meter.next_sequence(frame.flow),
                intended: frame.due,
                departure: now,
            };
            into[at..at + Stamp::LEN].copy_from_slice(&stamp.to_bytes());
        }
        let Held { flow, class, due: intended, .. } = *frame;
        self.meter.departed(now, &Departed { flow, class, sizes, intended, stamped, again: false });
        if frame.ends_message {
            self.meter.message_sent(flow, class);
        }
    }

    fn rest(&mut self, now: Nanos) -> Next {
        if let Some(frame) = self.frames.front() {
            return Next::Wait(frame.due);
        }
        let over = self.end.max(self.setup.start);
        let drained = Nanos(over.0.saturating_add(DRAIN.0));
        if !self.fed_all {
            return Next::Wait(drained.max(Nanos(now.0.saturating_add(1))));
        }
        if now < over {
            return Next::Wait(over);
        }
        let finished = over.max(self.last_sent());
        self.finished.get_or_insert(finished);
        if now < drained { Next::Wait(drained) } else { Next::Done }
    }

    fn last_sent(&mut self) -> Nanos {
        let nics = 0..self.setup.nics.len();
        Nanos(nics.filter_map(|nic| self.meter.nic(nic)?.last_sent_ns).max().unwrap_or(0))
    }
}

/// How long after the trace's end arrivals are waited for. RFC 2544 (23.) waits two seconds for a whole network; what
/// lies between test hosts holds a frame for milliseconds.
const DRAIN: Nanos = Nanos(200_000_000);

/// How long a stopped host counts what is under way.
const STOP_DRAIN: Nanos = Nanos(50_000_000);

/// The longest UDP content: headers with every extension, the greatest path MTU, pad, ICRC; rounded up.
const LONGEST_FRAME: usize = 4_224;

/// Bytes of frames that are held at most.
const HELD_BYTES: usize = 8 << 20;
