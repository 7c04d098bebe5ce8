//! Checks of what frames carry, where who made the capture says what that is.

use super::check::Tally;
use super::conversation::is_clear_to_send;
use super::flow::Part;
use super::sight::{Rule, Sight, family};
use crate::wire::opcode::Operation;
use crate::wire::{Opcode, ParsedFrame, Payload};

family! {
    "payload":
    AsDeclared,
    NoTrap,
}

/// What the data of a capture are said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The same bytes in every frame.
    Fixed(Payload),
    /// Bytes that differ, as random ones do.
    Varied,
}

impl Content {
    /// What a manifest's word for it means, as far as it can be examined.
    #[must_use]
    pub fn named(payload: &str) -> Option<Self> {
        match payload {
            "pattern" => Some(Self::Fixed(Payload::Pattern)),
            "zero" => Some(Self::Fixed(Payload::Zero)),
            "random" => Some(Self::Varied),
            _ => None,
        }
    }
}

/// Data are what they are said to be. Clear-to-send messages are no data.
#[derive(Default)]
struct AsDeclared;

impl Rule for AsDeclared {
    fn name(&self) -> &'static str {
        "payload_as_declared"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some(content) = sight.vantage.content else { return };
        let Some((frame, opcode)) = data(sight) else { return };
        let bytes = frame.payload;
        // Of a cut frame it cannot be said whether it is a clear-to-send.
        let clear =
            opcode == Opcode::WriteOnly && (bytes.len() < frame.payload_length || is_clear_to_send(frame));
        if bytes.is_empty() || clear {
            return;
        }
        match content {
            Content::Fixed(payload) => {
                let right = payload.bytes(0, bytes.len()).is_some_and(|right| right == bytes);
                sight.expect(tally, right, || format!("{} bytes that are not {payload:?}", bytes.len()));
            }
            // A few bytes may be alike by chance.
            Content::Varied if bytes.len() < FEW => {}
            Content::Varied => {
                let alike = bytes.iter().all(|byte| *byte == bytes[0]);
                sight.expect(tally, !alike, || format!("{} times the byte 0x{:02x}", bytes.len(), bytes[0]));
            }
        }
    }
}

const FEW: usize = 16;

/// Payload that is made up avoids what Wireshark takes for another protocol: an Ethernet type with two zeros
/// behind it, and SENDs that start with zeros (SMB-Direct, RPC-over-RDMA) or with SMC-R's message types.
#[derive(Default)]
struct NoTrap;

impl Rule for NoTrap {
    fn name(&self) -> &'static str {
        "payload_no_trap"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        if sight.vantage.content.is_none() {
            return;
        }
        let Some((frame, opcode)) = data(sight) else { return };
        let Some(head) = frame.payload.first_chunk::<4>() else { return };
        let [a, b, c, d] = *head;
        let ethernet = (c, d) == (0, 0) && TYPES.contains(&u16::from_be_bytes([a, b]));
        let zeros =
            opcode.shape().operation == Operation::Send && frame.payload.iter().all(|&byte| byte == 0);
        sight.expect(tally, !ethernet && !zeros, || match zeros {
            true => format!("{opcode} of zeros, which Wireshark takes for RPC or SMB"),
            false => format!(
                "starts {a:02x} {b:02x} 00 00, which Wireshark takes for Ethernet type {a:02x}{b:02x}"
            ),
        });
    }
}

/// IPv4, ARP, Wake-on-LAN, RARP, AppleTalk, VLAN, IPX, IPv6, flow control, slow protocols, MPLS, `PPPoE`, EAPOL,
/// `PROFINET`, ATA, service tags, LLDP, `MACsec`, PTP, FCoE, RoCE, loopback: those of 154 that real data meets.
const TYPES: [u16; 25] = [
    0x0800, 0x0806, 0x0842, 0x8035, 0x809b, 0x8100, 0x8137, 0x86dd, 0x8808, 0x8809, 0x8847, 0x8848, 0x8863,
    0x8864, 0x888e, 0x8892, 0x88a2, 0x88a8, 0x88cc, 0x88e5, 0x88f7, 0x8906, 0x8914, 0x8915, 0x9000,
];

/// A frame of data: a request or the answer to a READ, with payload.
fn data<'s, 'a>(sight: &'s Sight<'a>) -> Option<(&'s ParsedFrame<'a>, Opcode)> {
    let (frame, placed) = sight.roce()?;
    match placed.part {
        Part::Request(opcode, _) | Part::Answer(opcode, _) if opcode.shape().payload => Some((frame, opcode)),
        _ => None,
    }
}
