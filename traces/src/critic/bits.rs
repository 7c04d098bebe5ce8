//! Checks of a frame by itself: what can be read, ICRC, checksums, ports, lengths, constants.

use super::check::Tally;
use super::flow::state_of;
use super::sight::{Content, Look, Rule, Sight, family};
use crate::wire::segment::{ETHERNET_MINIMUM, pad};
use crate::wire::source_port::{self, LOWEST, ROCE};
use crate::wire::{Bth, Ecn, Ip, NotRoce, Opcode, ParsedFrame, Qpn};

family! {
    "bits and layers":
    Readable,
    Icrc,
    Ipv4Checksum,
    Ports,
    Lengths,
    Pad,
    BthConstants,
    QueuePairs,
    EcnMarks,
}

/// Every frame can be taken apart: no header is missing, no length contradicts another.
#[derive(Default)]
struct Readable;

impl Rule for Readable {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "readable"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let wrong = match &sight.content {
            Content::Roce(..) | Content::Other(_) => None,
            Content::Broken(error) => Some(error.to_string()),
        };
        sight.judge(tally, wrong);
    }
}

/// The ICRC is that of the frame's bytes. Frames cut by the capture have none to examine.
#[derive(Default)]
struct Icrc;

impl Rule for Icrc {
    fn name(&self) -> &'static str {
        "icrc"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        if let Some((found, right)) = frame.icrc.zip(frame.computed_icrc()) {
            sight.judge(tally, differ("ICRC", found, right));
        }
    }
}

/// The checksum of the IPv4 header is right.
#[derive(Default)]
struct Ipv4Checksum;

impl Rule for Ipv4Checksum {
    fn name(&self) -> &'static str {
        "ipv4_checksum"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        if let Ip::V4 { .. } = frame.network.ip {
            let length = usize::from(frame.datagram[0] & 0x0f) * 4;
            let (words, _) = frame.datagram[..length].as_chunks::<2>();
            let sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
            let folded = (sum & 0xffff) + (sum >> 16);
            let wrong = (folded != 0xffff).then(|| {
                format!(
                    "the IPv4 header with checksum 0x{:04x} adds up to 0x{folded:04x}, not 0xffff",
                    frame.network_checksum
                )
            });
            sight.judge(tally, wrong);
        }
    }
}

/// All goes to 4791, answers too, and comes from the range of ephemeral ports. Congestion notifications of
/// ConnectX come from port 0, and what HNS sends from the low byte of its own queue pair's number.
#[derive(Default)]
struct Ports(Vec<Low>);

/// A flow from low ports.
#[derive(Default)]
struct Low {
    destination: Option<Qpn>,
    /// The flow in the other direction, which goes to the own queue pair.
    peer: Option<usize>,
    port: u16,
    /// Frames from before that was known, and the first of them.
    waiting: u64,
    file: usize,
    frame: u64,
}

impl Rule for Ports {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "udp_ports"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        match &sight.content {
            Content::Roce(frame, placed) => {
                let notification = frame.bth.opcode() == Some(Opcode::CongestionNotification);
                let port = frame.udp.source;
                if port >= LOWEST || (notification && port == 0) {
                    tally.examine();
                    return;
                }
                let low = state_of(&mut self.0, placed.flow);
                low.destination = Some(frame.bth.destination);
                low.peer = placed.peer;
                let own = placed.peer.and_then(|peer| self.0.get(peer)?.destination);
                if own.is_some() || notification || port > 0xff {
                    let right = own.is_some_and(|own| source_port::low_byte(own) == port);
                    sight.expect(tally, right, || wrong_port(port));
                    return;
                }
                let low = state_of(&mut self.0, placed.flow);
                if low.waiting == 0 {
                    (low.port, low.file, low.frame) = (port, sight.file, sight.number);
                }
                low.waiting += 1;
                tally.examine();
            }
            Content::Other(NotRoce::Port { source: ROCE, destination }) => {
                sight.expect(tally, false, || {
                    format!("goes from port {ROCE} to {destination}; answers go to {ROCE} too")
                });
            }
            Content::Other(_) | Content::Broken(_) => {}
        }
    }

    fn finish(&mut self, names: &super::sight::Captures, tally: &mut Tally) {
        for low in self.0.iter().filter(|low| low.waiting > 0) {
            let own = low.peer.and_then(|peer| self.0.get(peer)?.destination);
            if own.is_none_or(|own| source_port::low_byte(own) != low.port) {
                tally.violate(names.get(low.file).map_or("", String::as_str), low.frame, || {
                    wrong_port(low.port)
                });
                tally.violate_many(low.waiting - 1);
            }
        }
    }
}

fn wrong_port(port: u16) -> String {
    format!("source port {port}, should be {LOWEST} or above")
}

/// The lengths of IP, UDP and the frame agree.
#[derive(Default)]
struct Lengths;

impl Rule for Lengths {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "lengths"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        sight.judge(tally, wrong_lengths(frame));
    }
}

fn wrong_lengths(frame: &ParsedFrame<'_>) -> Option<String> {
    if frame.network_payload != frame.udp.length {
        return Some(format!("IP carries {} bytes, UDP says {}", frame.network_payload, frame.udp.length));
    }
    let needs = frame.link.length() + frame.network.ip.header_length() + usize::from(frame.udp.length);
    let right = needs.max(ETHERNET_MINIMUM);
    // A tap at the sender may see a short frame before it is filled up.
    (frame.length != right && frame.length != needs)
        .then(|| format!("the frame has {} bytes, its headers make {right}", frame.length))
}

/// The pad fills the payload up to four bytes, and is zero.
#[derive(Default)]
struct Pad;

impl Rule for Pad {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "pad"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        let right = pad(frame.payload_length);
        let wrong = if frame.bth.pad != right {
            Some(format!("pad {} behind {} bytes, should be {right}", frame.bth.pad, frame.payload_length))
        } else if frame.pad.iter().any(|&byte| byte != 0) {
            Some(format!("pad bytes {:02x?} are not zero", frame.pad))
        } else {
            None
        };
        sight.judge(tally, wrong);
    }
}

/// BTH has a known opcode, version 0, the default partition, and nothing in its reserved bits.
#[derive(Default)]
struct BthConstants;

impl Rule for BthConstants {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "bth_constants"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        let bth = &frame.bth;
        let wrong = if bth.opcode().is_none() {
            Some(format!("opcode 0x{:02x} is not known", bth.opcode))
        } else if bth.version != 0 {
            Some(format!("transport version {}, should be 0", bth.version))
        } else if bth.partition_key != Bth::DEFAULT_PARTITION {
            Some(format!("partition key 0x{:04x}, should be 0xffff", bth.partition_key))
        } else if bth.reserved != 0 {
            Some(format!("reserved bits 0x{:02x} beside AckReq, should be 0", bth.reserved))
        } else {
            None
        };
        sight.judge(tally, wrong);
    }
}

/// Data of reliable connections go to no management queue pair.
#[derive(Default)]
struct QueuePairs;

impl Rule for QueuePairs {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "queue_pair_numbers"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        let Some(opcode) = frame.bth.opcode().filter(|opcode| opcode.is_reliable_connection()) else {
            return;
        };
        let to = frame.bth.destination;
        sight.judge(
            tally,
            to.is_management().then(|| format!("{opcode} to queue pair {to}, which is for management")),
        );
    }
}

/// RoCE NICs never send ECT(1), and what a port sends no switch has marked yet.
#[derive(Default)]
struct EcnMarks;

impl Rule for EcnMarks {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "ecn_marks"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        let wrong = match frame.network.ecn {
            Ecn::Capable1 => Some("ECN is ECT(1), which no NIC sends".to_owned()),
            Ecn::CongestionExperienced if sight.sent == Some(true) => {
                Some("congestion is marked at the port that sends it".to_owned())
            }
            Ecn::NotCapable | Ecn::Capable0 | Ecn::CongestionExperienced => None,
        };
        sight.judge(tally, wrong);
    }
}

fn differ(what: &str, found: u32, right: u32) -> Option<String> {
    (found != right).then(|| format!("{what} 0x{found:08x}, should be 0x{right:08x}"))
}
