//! Bursts as the frames of a port's capture: merged in order of time, and written byte by byte as the wire has them.
//!
//! One [`Capture`] is one port. What it sends and what it receives come in two streams, each in order; frames of both
//! interleave, so they are merged frame by frame, up to an instant before which nothing more can come. Frames are made from
//! templates ([`traces::wire::template`]), one per queue pair, opcode and length, so payloads are copied and never read.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};

use thiserror::Error;
use traces::id::{NicId, QueuePairId};
use traces::manifest::ClassTotals;
use traces::origin::Class;
use traces::pcap::write::{PcapWriter, Written};
use traces::unit::{BitRate, Bytes, Nanos};
use traces::wire::frame::FrameError;
use traces::wire::icrc::tables::TableSet;
use traces::wire::segment::{Segment, line_bytes};
use traces::wire::{
    Aeth, Bth, Ecn, Extensions, Frame, Immediate, Ip, Link, Network as NetworkHeader, Opcode, Payload, Psn,
    Reth, Syndrome, Template, Varying, Vlan,
};

use crate::connection::{Network, QueuePair};
use crate::plan::Plan;
use crate::timeline::{Burst, Content, Direction};

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
    /// Payload of data frames.
    pub payload: Bytes,
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

/// Makes the frames of queue pairs.
#[derive(Debug)]
struct FrameMaker<'a> {
    plan: &'a Plan,
    network: &'a Network,
    tables: TableSet,
    /// By queue pair: the templates of its frames, the latest first.
    templates: BTreeMap<QueuePairId, Vec<Made>>,
}

#[derive(Debug)]
struct Made {
    opcode: Opcode,
    payload: u16,
    template: Template,
}

/// What one frame carries.
struct Cut {
    opcode: Opcode,
    psn: Psn,
    payload: u16,
    ack_request: bool,
    extensions: Option<Extensions>,
}

impl<'a, W: Write> Capture<'a, W> {
    /// The capture of a port of the plan, written to `file`, which stands at its beginning.
    #[must_use]
    pub fn new(settings: &Settings<'a>, file: W) -> Self {
        let Settings { plan, network, epoch, snap, block } = *settings;
        Self {
            maker: FrameMaker { plan, network, tables: TableSet::default(), templates: BTreeMap::new() },
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
        let Some(cut) = cut(&burst, lane.written, self.maker.network) else { return Ok(()) };
        let [.., high, low] = lane.written.to_be_bytes();
        let identification = burst.identification.wrapping_add(u16::from_be_bytes([high, low]));
        let template = self.maker.template(burst.sender, &cut)?;
        let length = template.length();
        let varying = Varying {
            ack_request: cut.ack_request,
            identification,
            extensions: cut.extensions.as_ref(),
            ..Varying::new(cut.psn)
        };
        let record = self.pcap.record(self.epoch + time, length.min(self.snap), length)?;
        template.write(&varying, record)?;

        let bytes = Bytes(u64::try_from(length).unwrap_or(u64::MAX));
        totals.frames += 1;
        totals.frame_bytes += bytes;
        totals.payload += Bytes(cut.payload.into());
        lane.written += 1;
        lane.line += line_bytes(bytes);
        if let Content::Data { origin, first, .. } = burst.content {
            let class = origin.class;
            let begins = u64::from(first == 0 && lane.written == 1);
            totals.messages += begins;
            if direction == Direction::Sent {
                let fresh = ClassTotals { class, messages: 0, frames: 0, payload_bytes: 0 };
                let totals = self.totals.classes.entry(class).or_insert(fresh);
                totals.messages += begins;
                totals.frames += 1;
                totals.payload_bytes += u64::from(cut.payload);
            }
        }
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

impl FrameMaker<'_> {
    /// The template for such a frame of a queue pair.
    fn template(&mut self, sender: QueuePairId, cut: &Cut) -> Result<&Template, FrameError> {
        let made = self.templates.entry(sender).or_default();
        let known = made.iter().position(|made| made.opcode == cut.opcode && made.payload == cut.payload);
        let place = match known {
            Some(place) => place,
            None => {
                let (plan, network) = (self.plan, self.network);
                let frame = frame(plan, network, network.pair(sender), cut);
                let length = usize::from(cut.payload);
                let template = Template::new(&frame, plan.transport.payload, length, &mut self.tables)?;
                // Lengths of last frames vary from operation to operation; the oldest are forgotten.
                if made.len() == MOST_TEMPLATES {
                    made.remove(0);
                    self.tables_kept();
                }
                let made = self.templates.entry(sender).or_default();
                made.push(Made { opcode: cut.opcode, payload: cut.payload, template });
                made.len() - 1
            }
        };
        Ok(&self.templates[&sender][place].template)
    }

    /// Tables of lengths that no template may have any more are let go.
    fn tables_kept(&mut self) {
        self.tables = TableSet::default();
    }
}

/// The `index`-th frame of a burst.
fn cut(burst: &Burst, index: u64, network: &Network) -> Option<Cut> {
    Some(match burst.content {
        Content::Acknowledge { psn, messages } => Cut {
            opcode: Opcode::Acknowledge,
            psn,
            payload: 0,
            ack_request: false,
            extensions: Some(Extensions {
                aeth: Some(Aeth::new(Syndrome::UNLIMITED, messages)),
                ..Extensions::default()
            }),
        },
        Content::Data { sequence, segments, first, .. } => {
            let Segment { opcode, psn, payload, ack_request, .. } = segments.get(first + index)?;
            let shape = opcode.shape();
            let length = u32::try_from(segments.bytes.0).unwrap_or(u32::MAX);
            let starts = first + index == 0;
            let extensions = (shape.extension_length() > 0).then(|| {
                let receiver = network.pair(network.pair(burst.sender).peer);
                Extensions {
                    reth: starts.then(|| Reth {
                        virtual_address: receiver.slot_address(sequence),
                        remote_key: receiver.remote_key,
                        length,
                    }),
                    immediate: shape.place.ends().then(|| Immediate::from_u32(length)),
                    ..Extensions::default()
                }
            });
            Cut { opcode, psn, payload, ack_request, extensions }
        }
    })
}

/// A frame of a queue pair, without its payload.
fn frame(plan: &Plan, network: &Network, sender: &QueuePair, cut: &Cut) -> Frame<'static> {
    let receiver = network.pair(sender.peer);
    let (from, to) = (network.nic(sender.nic), network.nic(receiver.nic));
    let ip = match (from.address, to.address) {
        (std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination)) => {
            Ip::V4 { source, destination, identification: 0, dont_fragment: true }
        }
        (source, destination) => Ip::V6 {
            source: six(source),
            destination: six(destination),
            flow_label: sender.source_port.into(),
        },
    };
    let transport = &plan.transport;
    Frame {
        link: Link {
            source: from.mac,
            destination: to.mac,
            vlan: plan.cluster.vlan.map(|id| Vlan {
                priority: transport.dscp >> 3,
                drop_eligible: false,
                id,
            }),
        },
        network: NetworkHeader {
            ip,
            dscp: transport.dscp,
            ecn: if transport.ecn_capable { Ecn::Capable0 } else { Ecn::NotCapable },
            ttl: transport.ttl,
        },
        source_port: sender.source_port,
        bth: Bth::new(cut.opcode, receiver.qpn, cut.psn),
        extensions: cut.extensions.unwrap_or_default(),
        payload: &[],
    }
}

fn six(address: std::net::IpAddr) -> std::net::Ipv6Addr {
    match address {
        std::net::IpAddr::V4(address) => address.to_ipv6_mapped(),
        std::net::IpAddr::V6(address) => address,
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

/// Templates of a queue pair.
const MOST_TEMPLATES: usize = 16;
