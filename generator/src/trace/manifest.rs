//! The manifest of a trace: what the plan decides, and what was counted.

use traces::folder::TraceFolderWriter;
use traces::graph::Totals as GraphTotals;
use traces::id::HostId;
use traces::manifest::{ClassTotals, FORMAT_VERSION, Host, Manifest, Nic, QueuePair, Totals, Transport};
use traces::wire::source_port::ROCE;

use super::sink::Written;
use crate::connection::{self, group_entry};
use crate::frames::Settings;
use crate::placement::Placement;
use crate::schedule::ideal_step;
use crate::timeline::Summary;

/// The manifest; `graphs` are by host, `captures` those that were written.
pub(super) fn manifest(
    settings: &Settings<'_>,
    placement: &Placement,
    summary: &Summary,
    graphs: &[Option<GraphTotals>],
    captures: &[Written],
) -> Manifest {
    let Settings { plan, network, epoch, snap, .. } = *settings;
    let host = |(id, graph): (HostId, &Option<GraphTotals>)| Host {
        id,
        name: id.to_string(),
        ranks: placement.ranks().filter(|&rank| placement.seat(rank).host == id).collect(),
        graph: graph.map(|_| TraceFolderWriter::graph_name(id)),
    };
    Manifest {
        schema_version: FORMAT_VERSION,
        generator: concat!("tokenwire ", env!("CARGO_PKG_VERSION")).to_owned(),
        name: plan.name.clone(),
        seed: plan.seed,
        plan_digest: plan.digest(),
        epoch_ns: epoch.0,
        steps: plan.training.steps,
        duration_ns: summary.duration.0,
        step_ends_ns: summary.step_ends.iter().map(|end| end.0).collect(),
        ideal_step_ns: ideal_step(plan).0,
        transport: Transport {
            path_mtu_bytes: plan.transport.path_mtu.bytes().into(),
            mtu_bytes: plan.cluster.mtu,
            dscp: plan.transport.dscp,
            ecn: plan.transport.profile.ecn.bits(),
            ttl: plan.transport.profile.ttl,
            nic_profile: plan.transport.profile.name.clone().into_owned(),
            cnp_dscp: plan.transport.cnp_dscp,
            cnp_interval_ns: plan.transport.profile.notification.interval.0,
            congestion_control: plan.fabric.dcqcn.name().to_owned(),
            ack_interval: plan.transport.profile.acks.interval(),
            setup: plan.transport.setup.name().to_owned(),
            udp_port: ROCE,
            vlan: plan.cluster.vlan,
            payload: plan.transport.payload.name().to_owned(),
            snap_bytes: snap,
        },
        hosts: (0_u32..).map(HostId).zip(graphs).map(host).collect(),
        nics: network.nics().iter().map(|own| nic(settings, own, captures)).collect(),
        queue_pairs: network.pairs().iter().map(pair).collect(),
        groups: placement.groups().map(|group| group_entry(placement, &group)).collect(),
        totals: totals(graphs, captures),
    }
}

fn nic(settings: &Settings<'_>, nic: &connection::Nic, captures: &[Written]) -> Nic {
    let own = captures
        .iter()
        .find_map(|capture| Some((capture, &capture.ports.iter().find(|(id, _)| *id == nic.id)?.1)));
    let totals = own.map(|(_, totals)| totals.clone()).unwrap_or_default();
    Nic {
        id: nic.id,
        host: nic.host,
        name: nic.name.clone(),
        mac: nic.mac.to_string(),
        addresses: vec![nic.address.to_string()],
        link_bps: settings.plan.cluster.link.bits_per_second(),
        pcap: own.map(|(capture, _)| capture.files.clone()).unwrap_or_default(),
        frames_sent: totals.sent.frames,
        frames_received: totals.received.frames,
        payload_bytes_sent: totals.sent.payload.0,
        payload_bytes_received: totals.received.payload.0,
        payload_bytes_repeated: totals.sent.repeated.0,
        frame_bytes_sent: totals.sent.frame_bytes.0,
        frame_bytes_received: totals.received.frame_bytes.0,
        classes: totals.classes.into_values().collect(),
    }
}

fn pair(pair: &connection::QueuePair) -> QueuePair {
    QueuePair {
        id: pair.id,
        nic: pair.nic,
        peer: pair.peer,
        qpn: pair.qpn.value(),
        source_port: pair.source_port,
        first_psn: pair.first_psn.value(),
        rkey: pair.remote_key.0,
        address: pair.address,
        connection: pair.connection.0,
        lane: pair.lane,
        sends_data: pair.sends_data,
        group: pair.group,
        channel: pair.channel,
        rank: pair.rank,
    }
}

fn totals(graphs: &[Option<GraphTotals>], captures: &[Written]) -> Totals {
    let mut totals =
        Totals { nodes: graphs.iter().flatten().map(|graph| graph.nodes).sum(), ..Totals::default() };
    let mut classes: Vec<ClassTotals> = Vec::new();
    totals.pcap_bytes = captures.iter().map(|capture| capture.bytes.0).sum();
    for (_, port) in captures.iter().flat_map(|capture| &capture.ports) {
        totals.frames += port.sent.frames + port.received.frames;
        totals.messages += port.sent.messages;
        totals.payload_bytes += port.sent.payload.0;
        for class in port.classes.values() {
            match classes.iter_mut().find(|sum| sum.class == class.class) {
                Some(sum) => {
                    sum.messages += class.messages;
                    sum.frames += class.frames;
                    sum.payload_bytes += class.payload_bytes;
                }
                None => classes.push(class.clone()),
            }
        }
    }
    classes.sort_by_key(|sum| sum.class);
    Totals { classes, ..totals }
}
