//! Checks of the layers below the transport: addresses, code points and marks, what of them stays the same.

use super::check::Tally;
use super::flow::{Part, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::wire::{Ecn, Ip, Link, Mac, Opcode, ParsedFrame};

family! {
    "layers":
    MacAddresses,
    MacConstant,
    DontFragment,
    UdpChecksum,
    Dscp,
    NotificationDscp,
    EcnCapable,
    ByteFour,
}

/// Frames go from one NIC to another: neither address is that of a group or made of zeros in front.
#[derive(Default)]
struct MacAddresses;

impl Rule for MacAddresses {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "mac_addresses"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        let Link { source, destination, .. } = frame.link;
        sight.expect(tally, plausible(source) && plausible(destination), || {
            format!("goes from {source} to {destination}, which are not both addresses of NICs")
        });
    }
}

/// Group addresses have the lowest bit of the first byte; no NIC has a vendor of 00:00:00 (Xerox's first).
const fn plausible(mac: Mac) -> bool {
    let [a, b, c, ..] = mac.0;
    a & 1 == 0 && (a | b | c) != 0
}

/// The frames of a flow go from one MAC address to one other: the peer's, or that of the router on the way.
#[derive(Default)]
struct MacConstant(Vec<Option<(Mac, Mac)>>);

impl Rule for MacConstant {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "mac_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let now = (frame.link.source, frame.link.destination);
        let first = *state_of(&mut self.0, placed.flow).get_or_insert(now);
        sight.expect(tally, now == first, || {
            format!("goes from {} to {}, went from {} to {} before", now.0, now.1, first.0, first.1)
        });
    }
}

/// RoCE forbids that routers cut its frames.
#[derive(Default)]
struct DontFragment;

impl Rule for DontFragment {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "dont_fragment"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        if let Ip::V4 { dont_fragment, .. } = frame.network.ip {
            sight.expect(tally, dont_fragment, || "may be cut: DF is 0, should be 1".to_owned());
        }
    }
}

/// IPv6 wants a UDP checksum, and it is right; over IPv4 NICs send 0, and what is not 0 is right. Frames cut by
/// the capture have none to examine but for whether it is there.
#[derive(Default)]
struct UdpChecksum;

impl Rule for UdpChecksum {
    fn name(&self) -> &'static str {
        "udp_checksum"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        let v6 = matches!(frame.network.ip, Ip::V6 { .. });
        match frame.udp.checksum {
            0 => sight.expect(tally, !v6, || "UDP checksum 0, which IPv6 does not allow".to_owned()),
            found => {
                if let Some(sum) = checksum_sum(frame) {
                    sight.expect(tally, sum == 0xffff, || {
                        format!("UDP with checksum 0x{found:04x} adds up to 0x{sum:04x}, not 0xffff")
                    });
                }
            }
        }
    }
}

/// The one's complement sum of pseudo header and datagram, its checksum and ICRC included: 0xffff if all is
/// right. `None` if bytes are missing.
fn checksum_sum(frame: &ParsedFrame<'_>) -> Option<u32> {
    let icrc = frame.icrc?.to_le_bytes();
    let header = frame.network.ip.header_length();
    // Options, which no RoCE frame has, would move it.
    let udp = match frame.network.ip {
        Ip::V4 { .. } => frame.datagram.get(usize::from(*frame.datagram.first()? & 0x0f) * 4..)?,
        Ip::V6 { .. } => frame.datagram.get(header..)?,
    };
    let addresses = match frame.network.ip {
        Ip::V4 { source, destination, .. } => words(&source.octets()) + words(&destination.octets()),
        Ip::V6 { source, destination, .. } => words(&source.octets()) + words(&destination.octets()),
    };
    let mut sum = addresses + 17 + u64::from(frame.udp.length) + words(udp) + words(&icrc);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u32::try_from(sum).ok()
}

/// The sum of big-endian words; headers, payload and pad together are a multiple of four bytes.
fn words(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<2>();
    words.iter().map(|&word| u64::from(u16::from_be_bytes(word))).sum()
}

/// Of one queue pair and direction, all requests have one code point, and answers have that of the requests
/// that they answer. (With NCCL's `NCCL_IB_FIFO_TC` clear-to-send writes have another than data, but go in the
/// other direction.)
#[derive(Default)]
struct Dscp(Vec<Option<u8>>);

impl Rule for Dscp {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "dscp_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let now = frame.network.dscp;
        let requests = match placed.part {
            Part::Request(..) => placed.flow,
            Part::Answer(_, Some(requests)) => requests,
            Part::Answer(_, None) | Part::Other => return,
        };
        let first = *state_of(&mut self.0, requests).get_or_insert(now);
        sight.expect(tally, now == first, || {
            format!("DSCP {now}, but requests and answers in this direction had {first} before")
        });
    }
}

/// The congestion notifications of a host have one code point.
#[derive(Default)]
struct NotificationDscp(Vec<Option<u8>>);

impl Rule for NotificationDscp {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "cnp_dscp_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        if frame.bth.opcode() == Some(Opcode::CongestionNotification) {
            let now = frame.network.dscp;
            let first = *state_of(&mut self.0, placed.host).get_or_insert(now);
            sight
                .expect(tally, now == first, || format!("notifies with DSCP {now}, did with {first} before"));
        }
    }
}

/// Either all frames of a host's connections can be marked, or none: it is a habit of its NIC.
#[derive(Default)]
struct EcnCapable(Vec<Option<bool>>);

impl Rule for EcnCapable {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "ecn_capable_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        if matches!(placed.part, Part::Other) {
            return;
        }
        let now = frame.network.ecn != Ecn::NotCapable;
        let first = *state_of(&mut self.0, placed.host).get_or_insert(now);
        sight.expect(tally, now == first, || {
            let capable = |yes| if yes { "ECN capable" } else { "not ECN capable" };
            format!("is {}, this host was {} before", capable(now), capable(first))
        });
    }
}

/// Byte 4 of BTH, with FECN and BECN, is always the same in a host's requests, and in its answers: 0x00, or
/// HNS's 0x10 on data.
#[derive(Default)]
struct ByteFour(Vec<[Option<u8>; 2]>);

impl Rule for ByteFour {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "bth_byte4_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let kind = match placed.part {
            Part::Request(..) => 0,
            Part::Answer(..) => 1,
            Part::Other => return,
        };
        let now = frame.bth.congestion;
        let first = *state_of(&mut self.0, placed.host)[kind].get_or_insert(now);
        sight.expect(tally, now == first, || {
            format!("byte 4 of BTH is 0x{now:02x}, was 0x{first:02x} in others of this host")
        });
    }
}
