//! Bursts as the frames of a port, written byte by byte as the wire has them.
//!
//! What a [`Port`] sends and what it receives come in two streams, each in order; frames of both interleave, so they are
//! merged frame by frame ([`crate::capture`] does so with ports, and says up to when). Frames are made from templates
//! ([`traces::wire::template`]), one per queue pair, opcode and length, so payloads are copied and never read;
//! those of their own ([`content`]) are made and read once.

mod headers;
mod cm;
mod maker;
mod output;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use thiserror::Error;
use traces::id::NicId;
use traces::manifest::ClassTotals;
use traces::origin::Class;
use traces::pcap::write::{Files, Label, Split};
use traces::pcap::{Direction as Way, Packing};
use traces::unit::{BitRate, Bytes, Nanos};
use traces::wire::frame::FrameError;
use traces::wire::segment::line_bytes;

use crate::connection::Network;
use crate::content;
use crate::plan::Plan;
use crate::timeline::{Burst, Content, Direction, Purpose};
use maker::FrameMaker;

pub use output::Output;

/// What passes one port.
#[derive(Debug)]
pub struct Port<'a> {
    nic: NicId,
    /// Its place among the capture's interfaces.
    interface: usize,
    network: &'a Network,
    maker: FrameMaker<'a>,
    rate: BitRate,
    sent: Lane,
    received: Lane,
    totals: PortTotals,
}

/// What a capture holds of a port, counted as its frames were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortTotals {
    /// What the port sends.
    pub sent: LineTotals,
    /// What it receives.
    pub received: LineTotals,
    /// What it sends, by class.
    pub classes: BTreeMap<Class, ClassTotals>,
}

/// One direction of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineTotals {
    /// Frames, acknowledgements included.
    pub frames: u64,
    /// Payload of data frames, those sent again included; clear-to-send writes carry none.
    pub payload: Bytes,
    /// What of it was sent before.
    pub repeated: Bytes,
    /// Bytes of whole frames.
    pub frame_bytes: Bytes,
    /// Messages begun.
    pub messages: u64,
}

/// Why a capture can not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A frame can not be made.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// What all captures of a trace share.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its network.
    pub network: &'a Network,
    /// What its messages carry.
    pub content: &'a content::Content<'a>,
    /// The wall-clock instant of the trace's time zero.
    pub epoch: Nanos,
    /// Bytes kept of each frame.
    pub snap: Option<u32>,
    /// Bytes of a block of the file.
    pub block: usize,
    /// When a file is full.
    pub split: Split,
    /// How files are compressed.
    pub packing: Packing,
}

/// One direction's bursts that are not written, with the place in the first.
#[derive(Debug, Default)]
struct Lane {
    bursts: VecDeque<Burst>,
    /// Frames of the first burst that are written, and the line bytes that they took.
    written: u64,
    line: Bytes,
    /// When the next frame starts, if there is a burst.
    next: Option<Nanos>,
}

impl<'a> Port<'a> {
    /// The port of a NIC, which is the capture's interface in this place.
    #[must_use]
    pub fn new(settings: &Settings<'a>, nic: NicId, interface: usize) -> Self {
        let Settings { plan, network, content, .. } = *settings;
        Self {
            nic,
            interface,
            network,
            maker: FrameMaker::new(plan, network, content),
            rate: plan.cluster.link,
            sent: Lane::default(),
            received: Lane::default(),
            totals: PortTotals::default(),
        }
    }

    /// Whose port it is.
    #[must_use]
    pub const fn nic(&self) -> NicId {
        self.nic
    }

    /// What was written of it.
    #[must_use]
    pub fn into_totals(self) -> PortTotals {
        self.totals
    }

    /// Takes the next burst of its direction.
    pub fn push(&mut self, burst: Burst) {
        let lane = match burst.direction {
            Direction::Sent => &mut self.sent,
            Direction::Received => &mut self.received,
        };
        lane.next.get_or_insert(burst.start);
        lane.bursts.push_back(burst);
    }

    /// When the next frame passes, and which way; what is sent goes first.
    #[must_use]
    pub fn next(&self) -> Option<(Nanos, Direction)> {
        match (self.sent.next, self.received.next) {
            (Some(sent), Some(received)) if received < sent => Some((received, Direction::Received)),
            (Some(sent), _) => Some((sent, Direction::Sent)),
            (None, received) => received.map(|received| (received, Direction::Received)),
        }
    }

    /// Writes the frame that [`Self::next`] tells of.
    ///
    /// # Errors
    /// [`CaptureError`] when the file refuses.
    pub fn frame<F: Files>(
        &mut self,
        direction: Direction,
        time: Nanos,
        output: &mut Output<F>,
    ) -> Result<(), CaptureError> {
        let (lane, totals) = match direction {
            Direction::Sent => (&mut self.sent, &mut self.totals.sent),
            Direction::Received => (&mut self.received, &mut self.totals.received),
        };
        let Some(&burst) = lane.bursts.front() else { return Ok(()) };
        let Some(made) = self.maker.make(&burst, lane.written)? else { return Ok(()) };
        let length = made.length();
        let noted = output.note(lane.written == 0, &burst, self.network);
        let comment = noted.then_some(output.note.as_str());
        let way = if direction == Direction::Sent { Way::Outbound } else { Way::Inbound };
        let label = Label { interface: self.interface, direction: Some(way), comment };
        let at = output.epoch + time;
        let record = output.writer.record(&label, at, length.min(output.snap), length)?;
        made.write(record)?;

        let bytes = Bytes(u64::try_from(length).unwrap_or(u64::MAX));
        totals.frames += 1;
        totals.frame_bytes += bytes;
        if let Content::Data { carried, first, again, .. } = burst.content
            && let Purpose::Data { .. } = carried.purpose
        {
            let payload = made.data();
            let begins = u64::from(first == 0 && lane.written == 0 && !again);
            totals.payload += Bytes(payload);
            totals.messages += begins;
            totals.repeated += Bytes(if again { payload } else { 0 });
            if direction == Direction::Sent && !again {
                let class = carried.origin.class;
                let fresh = ClassTotals { class, messages: 0, frames: 0, payload_bytes: 0 };
                let totals = self.totals.classes.entry(class).or_insert(fresh);
                totals.messages += begins;
                totals.frames += 1;
                totals.payload_bytes += payload;
            }
        }
        lane.written += 1;
        lane.line += line_bytes(bytes);
        if lane.written == burst.content.frames() {
            lane.bursts.pop_front();
            (lane.written, lane.line) = (0, Bytes::ZERO);
            lane.next = lane.bursts.front().map(|burst| burst.start);
        } else {
            lane.next = Some(burst.start + self.rate.time_of(lane.line));
        }
        Ok(())
    }
}
