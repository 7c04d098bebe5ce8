//! Makes the frames of queue pairs: what the timeline says, in the habits of the plan's NICs.
//!
//! Data frames and answers come from templates, one per queue pair, opcode and length, so payloads are copied and never
//! read; the few others are made one by one.

use std::collections::BTreeMap;

use traces::id::{MessageId, QueuePairId};
use traces::wire::frame::FrameError;
use traces::wire::icrc::tables::TableSet;
use traces::wire::profile::{Identification, NotificationPort};
use traces::wire::{
    Aeth, Bth, Extensions, Frame, Immediate, Network as NetworkHeader, Opcode, Psn, RemoteKey, Reth, Segment,
    Template, Varying, template,
};

use super::cm;
use super::headers::{link, network_header};
use crate::connection::{Network, QueuePair};
use crate::content::{self, MessageContent};
use crate::plan::Plan;
use crate::timeline::{Burst, Carried, Content, Purpose};

/// Makes the frames of queue pairs.
#[derive(Debug)]
pub(super) struct FrameMaker<'a> {
    plan: &'a Plan,
    network: &'a Network,
    content: &'a content::Content<'a>,
    tables: TableSet,
    /// By queue pair: the templates of its frames, the latest last.
    templates: BTreeMap<QueuePairId, Vec<Stencil>>,
    /// The payload of the frame in the making, if its message has bytes of its own.
    payload: Vec<u8>,
}

#[derive(Debug)]
struct Stencil {
    opcode: Opcode,
    payload: u16,
    marked: bool,
    template: Template,
}

/// A frame that only has to be written.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are of the large kind, and there is one at a time")]
pub(super) enum Made<'m> {
    /// From a template, with the payload if it is the message's own.
    Cut(&'m Template, Cut, &'m [u8]),
    /// Whole.
    Whole(Vec<u8>),
}

/// What one frame of a queue pair carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    opcode: Opcode,
    psn: Psn,
    payload: u16,
    ack_request: bool,
    identification: u16,
    marked: bool,
    extensions: Option<Extensions>,
    own: Own,
}

/// What a frame carries other than the plan's payload.
#[derive(Clone, Copy, Debug)]
enum Own {
    /// Nothing else.
    None,
    /// Bytes of the message's own.
    Message,
    /// A clear-to-send write.
    Clearance([u8; 64]),
}

impl<'a> FrameMaker<'a> {
    pub(super) fn new(plan: &'a Plan, network: &'a Network, content: &'a content::Content<'a>) -> Self {
        let (tables, templates) = (TableSet::default(), BTreeMap::new());
        Self { plan, network, content, tables, templates, payload: Vec::new() }
    }

    /// The `index`-th frame of a burst, if it has so many.
    pub(super) fn make(&mut self, burst: &Burst, index: u64) -> Result<Option<Made<'_>>, FrameError> {
        let identification = match self.plan.transport.profile.identification {
            Identification::Zero => 0,
            Identification::Counter => {
                let [.., high, low] = index.to_be_bytes();
                burst.identification.wrapping_add(u16::from_be_bytes([high, low]))
            }
        };
        let plain = Cut {
            opcode: Opcode::Acknowledge,
            psn: Psn::ZERO,
            payload: 0,
            ack_request: false,
            identification,
            marked: burst.marked,
            extensions: None,
            own: Own::None,
        };
        let cut = match burst.content {
            Content::Data { carried, first, .. } => {
                let Some(segment) = carried.segments.get(first + index) else { return Ok(None) };
                let cut = data(plain, &carried, &segment);
                self.carry(burst.sender, &carried, segment.offset, cut)
            }
            Content::Answer { syndrome, psn, messages, .. } => {
                let aeth = Some(Aeth::new(syndrome, messages));
                Cut { psn, extensions: Some(Extensions { aeth, ..Extensions::default() }), ..plain }
            }
            Content::Notification(..) => return self.notification(burst, identification).map(Some),
            Content::Handshake(handshake) => {
                let bytes = cm::frame(self.plan, self.network, burst.sender, handshake, identification)?;
                return Ok(Some(Made::Whole(bytes)));
            }
        };
        let place = self.stencil(burst.sender, &cut)?;
        Ok(Some(Made::Cut(&self.templates[&burst.sender][place].template, cut, &self.payload)))
    }

    /// Makes the payload of a frame of a message whose bytes are its own, from `offset` in the message on.
    fn carry(&mut self, sender: QueuePairId, carried: &Carried, offset: u64, cut: Cut) -> Cut {
        let Carried { sequence, origin, offset: place, purpose, .. } = *carried;
        if matches!(purpose, Purpose::Clearance(_)) || self.content.fixed(origin.class).is_some() {
            return cut;
        }
        let message = MessageContent { id: MessageId { sender, sequence }, origin, offset: place };
        self.payload.resize(cut.payload.into(), 0);
        self.content.fill(&message, offset, &mut self.payload);
        Cut { own: Own::Message, ..cut }
    }

    /// The place of the template for such a frame among those of its queue pair.
    fn stencil(&mut self, sender: QueuePairId, cut: &Cut) -> Result<usize, FrameError> {
        let stencils = self.templates.entry(sender).or_default();
        let fits = |stencil: &Stencil| {
            (stencil.opcode, stencil.payload, stencil.marked) == (cut.opcode, cut.payload, cut.marked)
        };
        Ok(match stencils.iter().position(fits) {
            Some(place) => place,
            None => {
                let frame = frame(self.plan, self.network, self.network.pair(sender), cut);
                let payload = self.content.template();
                // Lengths of last frames vary from operation to operation; the oldest are forgotten, and with them the
                // tables of lengths that no template may have any more.
                if stencils.len() == MOST_TEMPLATES {
                    stencils.remove(0);
                    self.tables = TableSet::default();
                }
                let template = Template::new(&frame, payload, usize::from(cut.payload), &mut self.tables)?;
                let Cut { opcode, payload, marked, .. } = *cut;
                stencils.push(Stencil { opcode, payload, marked, template });
                stencils.len() - 1
            }
        })
    }

    /// A congestion notification: from the receiver of marked frames to their sender.
    fn notification(&self, burst: &Burst, identification: u16) -> Result<Made<'static>, FrameError> {
        let Self { plan, network, .. } = *self;
        let (sender, profile) = (network.pair(burst.sender), &plan.transport.profile);
        let receiver = network.pair(sender.peer);
        let frame = Frame {
            network: NetworkHeader {
                dscp: plan.transport.cnp_dscp,
                ..network_header(plan, network, sender, identification, burst.marked)
            },
            link: link(plan, network, sender, plan.transport.cnp_dscp),
            source_port: match profile.notification.source_port {
                NotificationPort::Zero => 0,
                NotificationPort::Connection => sender.source_port,
            },
            bth: Bth::notification(receiver.qpn),
            extensions: Extensions::default(),
            payload: &Bth::NOTIFICATION_PAYLOAD,
        };
        let mut bytes = Vec::new();
        frame.emit(&mut bytes)?;
        Ok(Made::Whole(bytes))
    }
}

impl Made<'_> {
    /// The bytes of the frame.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Cut(template, ..) => template.length(),
            Self::Whole(bytes) => bytes.len(),
        }
    }

    /// The bytes of its payload that are data: none of the frame that closes a message.
    pub(super) fn data(&self) -> u64 {
        match self {
            Self::Cut(_, cut, _) => cut.payload.into(),
            Self::Whole(_) => 0,
        }
    }

    /// Writes it, or as much of it as `into` is long.
    pub(super) fn write(&self, into: &mut [u8]) -> Result<(), FrameError> {
        match self {
            Self::Cut(template, cut, payload) => template.write(&cut.varying(payload), into),
            Self::Whole(bytes) => {
                let length = into.len().min(bytes.len());
                into[..length].copy_from_slice(&bytes[..length]);
                Ok(())
            }
        }
    }
}

impl Cut {
    const fn varying<'v>(&'v self, payload: &'v [u8]) -> Varying<'v> {
        Varying {
            psn: self.psn,
            ack_request: self.ack_request,
            identification: self.identification,
            extensions: self.extensions.as_ref(),
            content: match &self.own {
                Own::None => template::Content::Template,
                Own::Message => template::Content::Own(payload),
                Own::Clearance(bytes) => template::Content::Own(bytes),
            },
        }
    }
}

/// A frame of a message.
fn data(plain: Cut, carried: &Carried, segment: &Segment) -> Cut {
    let Segment { index, opcode, psn, payload, ack_request, .. } = *segment;
    let shape = opcode.shape();
    let closes = carried.segments.closes(index);
    let extensions = (shape.extension_length() > 0).then(|| Extensions {
        reth: shape.reth.then(|| reth(carried, closes)),
        immediate: shape.immediate.then(|| match carried.purpose {
            Purpose::Data { whole } => Immediate::from_u32(whole),
            Purpose::Clearance(_) => Immediate::from_u32(0),
        }),
        ..Extensions::default()
    });
    let own = match carried.purpose {
        Purpose::Data { .. } => Own::None,
        Purpose::Clearance(clearance) => Own::Clearance(clearance.to_bytes()),
    };
    Cut { opcode, psn, payload, ack_request, extensions, own, ..plain }
}

/// Where a message is written. The empty WRITE that closes one names no memory (`ncclIbMultiSend` clears the request).
fn reth(carried: &Carried, closes: bool) -> Reth {
    if closes {
        return Reth { virtual_address: 0, remote_key: RemoteKey(0), length: 0 };
    }
    Reth {
        virtual_address: carried.address,
        remote_key: carried.remote_key,
        length: u32::try_from(carried.segments.bytes.0).unwrap_or(u32::MAX),
    }
}

/// A frame of a queue pair, without its payload.
fn frame(plan: &Plan, network: &Network, sender: &QueuePair, cut: &Cut) -> Frame<'static> {
    let receiver = network.pair(sender.peer);
    let profile = &plan.transport.profile;
    let answers = cut.opcode.shape().aeth;
    Frame {
        link: link(plan, network, sender, plan.transport.dscp),
        network: network_header(plan, network, sender, 0, cut.marked),
        source_port: sender.source_port,
        bth: Bth {
            migrated: profile.migrated,
            congestion: if answers { 0 } else { profile.congestion },
            ..Bth::new(cut.opcode, receiver.qpn, cut.psn)
        },
        extensions: cut.extensions.unwrap_or_default(),
        payload: &[],
    }
}

/// Templates of a queue pair.
const MOST_TEMPLATES: usize = 16;
