//! Bursts as the frames of a port's capture: merged in order of time, and written byte by byte as the wire has them.
//!
//! One [`Capture`] is one port. What it sends and what it receives come in two streams, each in order; frames of both
//! interleave, so they are merged frame by frame, up to an instant before which nothing more can come. Frames are made from
//! templates ([`traces::wire::template`]), one per queue pair, opcode and length, so payloads are copied and never read.

mod headers;
mod cm;
mod maker;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};

use thiserror::Error;
use traces::id::NicId;
use traces::manifest::ClassTotals;
use traces::origin::Class;
use traces::pcap::write::{PcapWriter, Written};
use traces::unit::{BitRate, Bytes, Nanos};
use traces::wire::Payload;
use traces::wire::frame::FrameError;
use traces::wire::segment::line_bytes;

use crate::connection::Network;
use crate::plan::Plan;
use crate::timeline::{Burst, Content, Direction, Purpose};
use maker::FrameMaker;

/// The capture of one port in the making.
#[derive(Debug)]
pub struct Capture<'a, W> {
    maker: FrameMaker<'a>,
    rate: BitRate,
    epoch: Nanos,
    snap: usize,
    pcap: PcapWriter<W>,
    sent: Lane,
    received: Lane,
    totals: PortTotals,
}

/// What a capture holds, counted as its frames were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortTotals {
    /// What the port sends.
    pub sent: LineTotals,
    /// What it receives.
    pub received: LineTotals,
    /// What it sends, by class.
    pub classes: BTreeMap<Class, ClassTotals>,
    /// The file.
    pub file: Written,
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
    /// The wall-clock instant of the trace's time zero.
    pub epoch: Nanos,
    /// Bytes kept of each frame.
    pub snap: Option<u32>,
    /// Bytes of a block of the file.
    pub block: usize,
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

impl<'a, W: Write> Capture<'a, W> {
    /// The capture of a port of the plan, written to `file`, which stands at its beginning.
    #[must_use]
    pub fn new(settings: &Settings<'a>, file: W) -> Self {
        let Settings { plan, network, epoch, snap, block } = *settings;
        Self {
            maker: FrameMaker::new(plan, network),
            rate: plan.cluster.link,
            epoch,
            snap: snap.and_then(|snap| usize::try_from(snap).ok()).unwrap_or(usize::MAX),
            pcap: PcapWriter::with_block(file, block),
            sent: Lane::default(),
            received: Lane::default(),
            totals: PortTotals::default(),
        }
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

    /// Writes all frames that start before `until`: no burst that starts earlier may come after this.
    ///
    /// # Errors
    /// [`CaptureError`] when the file refuses.
    pub fn write_until(&mut self, until: Nanos) -> Result<(), CaptureError> {
        loop {
            let sent = self.sent.next.filter(|&next| next < until);
            let received = self.received.next.filter(|&next| next < until);
            match (sent, received) {
                (None, None) => return Ok(()),
                (Some(sent), received) if received.is_none_or(|received| sent <= received) => {
                    self.frame(Direction::Sent, sent)?;
                }
                (_, Some(received)) => self.frame(Direction::Received, received)?,
                (Some(sent), None) => self.frame(Direction::Sent, sent)?,
            }
        }
    }

    /// Writes what is left, and says what there is.
    ///
    /// # Errors
    /// [`CaptureError`] when the file refuses.
    pub fn finish(mut self) -> Result<PortTotals, CaptureError> {
        self.write_until(Nanos(u64::MAX))?;
        let (_, file) = self.pcap.finish()?;
        Ok(PortTotals { file, ..self.totals })
    }

    fn frame(&mut self, direction: Direction, time: Nanos) -> Result<(), CaptureError> {
        let (lane, totals) = match direction {
            Direction::Sent => (&mut self.sent, &mut self.totals.sent),
            Direction::Received => (&mut self.received, &mut self.totals.received),
        };
        let Some(&burst) = lane.bursts.front() else { return Ok(()) };
        let Some(made) = self.maker.make(&burst, lane.written)? else { return Ok(()) };
        let length = made.length();
        let record = self.pcap.record(self.epoch + time, length.min(self.snap), length)?;
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

/// The name of a payload in manifests.
#[must_use]
pub const fn payload_name(payload: Payload) -> &'static str {
    match payload {
        Payload::Pattern => "pattern",
        Payload::Zero => "zero",
    }
}

/// Whose capture it is, for sinks that keep several.
pub type Captures<'a, W> = BTreeMap<NicId, Capture<'a, W>>;
