//! What messages carry: the bytes of a frame's payload, as the plan's `transport.payload` names them.
//!
//! `pattern` and `zero` are the same in every frame, and templates write them without looking ([`traces::wire::payload`]).
//! The others are made here, a piece of a message at a time. Every byte follows from the plan, the message and the byte's
//! place in it alone, so any frame can be made by itself: in any thread, in any part of a trace, and again when it is lost.
//!
//! - `random`: noise, by the plan's seed and the message. No byte is zero.
//! - `token`: activations name the token of each slot (`content/token.rs`); what has no token (gradients of parameters, the
//!   loss) carries the pattern.
//!
//! No piece is taken for another protocol by Wireshark's heuristics (4.0 to 4.6): without zero bytes none has the head of
//! an Ethernet frame (`xx xx 00 00`), of RPC-over-RDMA (version `00 00 00 01`) or of SMB-Direct (reserved zeros); and no frame
//! starts with a byte that SMC-R (`01` to `09`, `21` to `29`, `fe`) or LNet (`91`) starts with. Frames start at multiples of
//! the path MTU, so that too is a matter of the byte's place.

mod token;

use traces::id::MessageId;
use traces::origin::{Class, Origin};
use traces::wire;

use crate::connection::Network;
use crate::placement::Placement;
use crate::plan::{Payload, Plan};
use crate::random::Stream;
use token::{Sequence, TokenSlots};

/// What the messages of a plan carry.
#[derive(Debug)]
pub struct Content<'a> {
    kind: Kind,
    placement: Placement,
    network: &'a Network,
    path_mtu: usize,
}

/// What decides about the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageContent {
    /// Its name.
    pub id: MessageId,
    /// Why it exists.
    pub origin: Origin,
    /// Where its bytes stand in the operation's buffer.
    pub offset: u64,
}

#[derive(Debug)]
enum Kind {
    Fixed(wire::Payload),
    Random { seed: u64 },
    Token(TokenSlots),
}

impl<'a> Content<'a> {
    /// What the plan's messages carry.
    #[must_use]
    pub fn new(plan: &Plan, network: &'a Network) -> Self {
        let kind = match plan.transport.payload {
            Payload::Pattern => Kind::Fixed(wire::Payload::Pattern),
            Payload::Zero => Kind::Fixed(wire::Payload::Zero),
            Payload::Random => Kind::Random { seed: plan.seed },
            Payload::Token => Kind::Token(TokenSlots::new(plan)),
        };
        let path_mtu = plan.transport.path_mtu.bytes().into();
        Self { kind, placement: Placement::new(plan), network, path_mtu }
    }

    /// What messages of a class carry, if all of them carry the same: then [`Self::fill`] has nothing to say that a
    /// template does not.
    #[must_use]
    pub const fn fixed(&self, class: Class) -> Option<wire::Payload> {
        match self.kind {
            Kind::Fixed(payload) => Some(payload),
            Kind::Token(_) if !is_activation(class) => Some(wire::Payload::Pattern),
            Kind::Random { .. } | Kind::Token(_) => None,
        }
    }

    /// What the payload of templates is: what all messages carry, or those that carry nothing of their own.
    #[must_use]
    pub const fn template(&self) -> wire::Payload {
        match self.kind {
            Kind::Fixed(payload) => payload,
            Kind::Random { .. } | Kind::Token(_) => wire::Payload::Pattern,
        }
    }

    /// Writes the bytes of a message from `offset` on, as many as `into` is long.
    pub fn fill(&self, message: &MessageContent, offset: u64, into: &mut [u8]) {
        match (&self.kind, self.fixed(message.origin.class)) {
            (_, Some(payload)) => {
                for (piece, at) in
                    into.chunks_mut(wire::payload::LONGEST).zip((0..).step_by(wire::payload::LONGEST))
                {
                    piece.copy_from_slice(payload.bytes(offset + at, piece.len()).unwrap_or_default());
                }
            }
            (Kind::Random { seed }, None) => {
                noise(Stream::new(*seed, "payload", message.id.to_u64()), offset, into);
                self.tame(offset, into, |head| head ^ 0x40);
            }
            (Kind::Token(slots), None) => {
                let replica = self.placement.coordinates(self.network.pair(message.id.sender).rank).data;
                let Origin { step, microbatch, .. } = message.origin;
                let sequence = Sequence { step, microbatch: microbatch.unwrap_or(0), replica };
                slots.fill(sequence, message.offset + offset, into);
                self.tame(offset, into, |_| token::FILLER);
            }
            (Kind::Fixed(_), None) => {}
        }
    }

    /// Replaces bytes that a frame's payload must not start with.
    fn tame(&self, offset: u64, into: &mut [u8], stand_in: fn(u8) -> u8) {
        let mtu = u64::try_from(self.path_mtu).unwrap_or(u64::MAX);
        let first = usize::try_from(offset.next_multiple_of(mtu) - offset).unwrap_or(usize::MAX);
        for head in into.iter_mut().skip(first).step_by(self.path_mtu) {
            if matches!(*head, 0x01..=0x09 | 0x21..=0x29 | 0x91 | 0xfe) {
                *head = stand_in(*head);
            }
        }
    }
}

/// Whether what an operation moves is an activation or its gradient: a row of `hidden` numbers for each token.
const fn is_activation(class: Class) -> bool {
    matches!(
        class,
        Class::TpForward
            | Class::TpBackward
            | Class::TpEmbedding
            | Class::TpHead
            | Class::PpForward
            | Class::PpBackward
    )
}

/// Noise: the stream's numbers, little-endian, one after another, with ones in place of zero bytes.
fn noise(stream: Stream, offset: u64, into: &mut [u8]) {
    let word = |index: u64| without_zeros(stream.sequence(index)).to_le_bytes();
    let within = usize::try_from(offset % 8).unwrap_or(0);
    let (head, rest) = into.split_at_mut(into.len().min((8 - within) % 8));
    head.copy_from_slice(&word(offset / 8)[within..][..head.len()]);
    let (words, tail) = rest.as_chunks_mut();
    let mut index = offset.div_ceil(8);
    for piece in words {
        *piece = word(index);
        index += 1;
    }
    tail.copy_from_slice(&word(index)[..tail.len()]);
}

/// The word with `01` for each of its bytes that is `00`.
const fn without_zeros(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // Bit 7 of each byte: whether any of the byte's bits is set. No carry leaves a byte.
    let some = ((word & LOW) + LOW) | word;
    word | ((!some & !LOW) >> 7)
}

#[cfg(test)]
mod tests;
