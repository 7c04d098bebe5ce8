//! Ethernet and IP between the NICs of a queue pair, alike for all that it sends.

use std::net::{IpAddr, Ipv6Addr};

use traces::wire::{Ecn, Ip, Link, Network as NetworkHeader, Vlan};

use crate::connection::{Network, QueuePair};
use crate::plan::Plan;

/// Ethernet between the NICs of a queue pair: the tag's priority is the upper half of the DSCP, as switches map it.
pub(super) fn link(plan: &Plan, network: &Network, sender: &QueuePair, dscp: u8) -> Link {
    let [from, to] = [sender.nic, network.pair(sender.peer).nic].map(|nic| network.nic(nic));
    Link {
        source: from.mac,
        destination: to.mac,
        vlan: plan.cluster.vlan.map(|id| Vlan { priority: dscp >> 3, drop_eligible: false, id }),
    }
}

/// IP between the NICs of a queue pair, as data have it.
pub(super) fn network_header(
    plan: &Plan,
    network: &Network,
    sender: &QueuePair,
    identification: u16,
    marked: bool,
) -> NetworkHeader {
    let [from, to] = [sender.nic, network.pair(sender.peer).nic].map(|nic| network.nic(nic));
    let ip = match (from.address, to.address) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Ip::V4 { source, destination, identification, dont_fragment: true }
        }
        // NCCL and RDMA-CM leave the flow label 0.
        (source, destination) => Ip::V6 { source: six(source), destination: six(destination), flow_label: 0 },
    };
    let profile = &plan.transport.profile;
    NetworkHeader {
        ip,
        dscp: plan.transport.dscp,
        ecn: if marked { Ecn::CongestionExperienced } else { profile.ecn },
        ttl: profile.ttl,
    }
}

fn six(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
