//! The frames of RDMA-CM's handshakes: management datagrams between queue pairs 1.
//!
//! What each says follows from the queue pairs that are set up; the active side is the one that sends data.

use traces::id::QueuePairId;
use traces::wire::frame::FrameError;
use traces::wire::management::{
    DisconnectReply, DisconnectRequest, Endpoint, IpHeader, Mad, Message, ReadyToUse, Reply, Request,
    ServiceId,
};
use traces::wire::profile::PortRule;
use traces::wire::{Bth, Frame, Mac, Psn, Qpn, source_port};

use super::headers::{link, network_header};
use crate::connection::{Network, QueuePair};
use crate::plan::Plan;
use crate::random::Stream;
use crate::timeline::handshake::{Handshake, Step};

/// The frame of a message that `sender` says to its peer.
pub(super) fn frame(
    plan: &Plan,
    network: &Network,
    sender: QueuePairId,
    handshake: Handshake,
    identification: u16,
) -> Result<Vec<u8>, FrameError> {
    let sender = network.pair(sender);
    let (active, passive) = if handshake.step.is_active() {
        (sender, network.pair(sender.peer))
    } else {
        (network.pair(sender.peer), sender)
    };
    let datagram = datagram(plan, network, handshake.step, active, passive).to_bytes();
    let (bth, extensions) = Mad::headers(Psn::wrapping(handshake.psn));
    let frame = Frame {
        link: link(plan, network, sender, plan.transport.dscp),
        network: network_header(plan, network, sender, identification, false),
        source_port: match plan.transport.profile.source_port {
            PortRule::Own => source_port::own(Qpn::GENERAL_SERVICES),
            // mlx5 gives datagrams the lowest port (`r_roce_min_src_udp_port`).
            PortRule::Product | PortRule::Fixed => source_port::LOWEST,
        },
        bth: Bth { migrated: plan.transport.profile.migrated, ..bth },
        extensions,
        payload: &datagram,
    };
    let mut bytes = Vec::new();
    frame.emit(&mut bytes)?;
    Ok(bytes)
}

fn datagram(plan: &Plan, network: &Network, step: Step, active: &QueuePair, passive: &QueuePair) -> Mad {
    let asking = endpoint(plan, network, active, passive);
    let answering = endpoint(plan, network, passive, active);
    let addresses = [active, passive].map(|pair| network.nic(pair.nic).address);
    // An ephemeral port of the host that asks, as its TCP-like name of the connection.
    let port = drawn(plan, "ephemeral ports", active) % 28_232 + 32_768;
    let request = Request::new(
        &asking,
        ServiceId::tcp(SERVICE),
        IpHeader::new(u16::try_from(port).unwrap_or(u16::MAX), addresses[0], addresses[1]),
        plan.transport.path_mtu,
    );
    let reply = Reply::new(&answering, &request);
    let end =
        DisconnectRequest { communication: reply.communication.reversed(), remote_queue_pair: passive.qpn };
    let message: Message = match step {
        Step::Request => request.into(),
        Step::Reply => reply.into(),
        Step::Ready => ReadyToUse::new(&reply).into(),
        Step::Disconnect => end.into(),
        Step::Disconnected => DisconnectReply::new(&end).into(),
    };
    let apart = u64::from(matches!(step, Step::Disconnect | Step::Disconnected));
    let transaction = Stream::new(plan.seed, "transactions", active.id.0.into()).draw(apart);
    Mad::new(transaction, message)
}

/// What an end says of itself: it wants to receive from the number that the other one starts to send with.
fn endpoint(plan: &Plan, network: &Network, own: &QueuePair, other: &QueuePair) -> Endpoint {
    let Mac(mac) = network.nic(own.nic).mac;
    Endpoint {
        communication: drawn(plan, "communication ids", own),
        guid: guid(mac),
        queue_pair: own.qpn,
        starting_psn: other.first_psn,
    }
}

/// The GUID that NICs make of their MAC address: `ff:fe` in the middle, the second bit of the first byte turned (EUI-64).
const fn guid([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

fn drawn(plan: &Plan, purpose: &str, pair: &QueuePair) -> u32 {
    u32::try_from(Stream::new(plan.seed, purpose, pair.id.0.into()).below(1 << 32, 0)).unwrap_or(1)
}

/// The port of the service: rping's. Not 4420 nor 3260, whose payloads Wireshark would read as NVMe and iSCSI.
const SERVICE: u16 = 7174;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_the_mac_address_with_ff_fe_in_the_middle() {
        assert_eq!(guid([0x02, 0, 0xc6, 0x12, 0, 3]), 0x0000_c6ff_fe12_0003);
    }
}
