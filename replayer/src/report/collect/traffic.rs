//! Bytes and frames: NICs, classes, flows, and traffic in time.

use traces::id::NicId;
use traces::unit::{Bytes, Nanos};

use crate::outcome::{FlowOutcome, IntervalBin, NicOutcome, RunOutcome};
use crate::report::Curve;
use crate::report::bandwidth::rate;
use crate::report::directory::Directory;
use crate::report::environment::Circumstances;
use crate::report::rows::{FlowRow, INTERVALS_VERSION, IntervalRow};
use crate::report::summary::{ClassSummary, NicSummary, Reasons};

/// From the start to the end of the last host's own work.
pub(super) fn duration(outcome: &RunOutcome) -> Nanos {
    Nanos(outcome.end_ns.saturating_sub(outcome.start_ns))
}

/// Each NIC of the hosts that reported.
pub(super) fn nics(
    outcome: &RunOutcome,
    directory: &Directory<'_>,
    circumstances: &Circumstances,
) -> Vec<NicSummary> {
    outcome.nics.iter().map(|nic| nic_summary(nic, outcome, directory, circumstances)).collect()
}

fn nic_summary(
    nic: &NicOutcome,
    outcome: &RunOutcome,
    directory: &Directory<'_>,
    circumstances: &Circumstances,
) -> NicSummary {
    let planned = directory.nic(nic.nic);
    let host = planned.map_or_else(String::new, |planned| directory.host_name(planned.host));
    let time = duration(outcome);
    let mut reason = Reasons::new();
    let mut or_reason = |key: &str, value: Option<_>, why: &str| {
        if value.is_none() {
            reason.insert(key.to_owned(), why.to_owned());
        }
        value
    };
    let mut over_run =
        |key: &str, bytes: u64| or_reason(key, rate(Bytes(bytes), time), "the run took no time");
    let throughput_sent_bps = over_run("throughput_sent_bps", nic.payload_bytes_sent);
    let throughput_received_bps = over_run("throughput_received_bps", nic.payload_bytes_received);
    let goodput_bps = over_run("goodput_bps", nic.goodput_bytes_received);
    let peak = nic.intervals.bins.iter().map(|bin| bin.payload_bytes_sent).max();
    let peak = peak.and_then(|bytes| rate(Bytes(bytes), Nanos(nic.intervals.bin_ns)));
    let peak_sent_bps = or_reason("peak_sent_bps", peak, "nothing was sent or received");
    let icrc_errors = or_reason("icrc_errors", nic.icrc_errors, "the invariant CRC was not checked");
    let address = circumstances.hosts.iter().find(|place| place.host == host).and_then(|place| {
        let on_host = outcome.nics.iter().filter(|other| {
            directory.nic(other.nic).map(|nic| nic.host) == planned.map(|planned| planned.host)
        });
        let index = on_host.take_while(|other| other.nic != nic.nic).count();
        place.addresses.get(index).cloned()
    });
    if address.is_none() {
        reason.insert("address".to_owned(), "the host's addresses are not known".to_owned());
    }
    let arriving = || {
        let to_it =
            |flow: &&FlowOutcome| directory.receiver(flow.sender).is_some_and(|pair| pair.nic == nic.nic);
        outcome.flows.iter().filter(to_it)
    };
    let received = || arriving().filter_map(|flow| flow.received.as_ref());
    NicSummary {
        id: nic.nic.0,
        host,
        name: directory.nic_name(nic.nic),
        address,
        link_bps: planned.map_or(0, |planned| planned.link_bps),
        frames_sent: nic.frames_sent,
        frames_received: nic.frames_received,
        payload_bytes_sent: nic.payload_bytes_sent,
        payload_bytes_received: nic.payload_bytes_received,
        goodput_bytes_received: nic.goodput_bytes_received,
        frame_bytes_sent: nic.frame_bytes_sent,
        frame_bytes_received: nic.frame_bytes_received,
        throughput_sent_bps,
        throughput_received_bps,
        goodput_bps,
        peak_sent_bps,
        lost: arriving().filter_map(|flow| flow.lost).sum(),
        duplicated: received().map(|flow| flow.duplicated).sum(),
        reordered: received().map(|flow| flow.reordered).sum(),
        late: nic.late,
        retransmitted: sent_by(nic.nic, outcome, directory).map(|flow| flow.retransmitted).sum(),
        unmatched: nic.unmatched,
        malformed: nic.malformed,
        congestion_marks: nic.congestion_marks,
        congestion_notifications: nic.congestion_notifications,
        icrc_errors,
        reason,
    }
}

/// The flows that a NIC sends, as it knows them.
pub(super) fn sent_by<'a>(
    nic: NicId,
    outcome: &'a RunOutcome,
    directory: &'a Directory<'_>,
) -> impl Iterator<Item = &'a crate::outcome::SentFlow> {
    outcome
        .flows
        .iter()
        .filter(move |flow| directory.sender(flow.sender).is_some_and(|pair| pair.nic == nic))
        .filter_map(|flow| flow.sent.as_ref())
}

/// Each class of traffic.
pub(super) fn classes(outcome: &RunOutcome) -> Vec<ClassSummary> {
    let summary = |class: &crate::outcome::ClassOutcome| {
        let counts = &class.counts;
        let active = counts.first_ns.zip(counts.last_ns).map(|(first, last)| last.saturating_sub(first));
        let throughput = active.and_then(|active| rate(Bytes(counts.payload_bytes_received), Nanos(active)));
        let mut reason = Reasons::new();
        if active.is_none() {
            reason.insert("active_ns".to_owned(), "no data frame of it left or arrived".to_owned());
        }
        if throughput.is_none() {
            let why = "there is no time between its first and its last data frame";
            reason.insert("throughput_bps".to_owned(), why.to_owned());
        }
        if counts.class.is_none() {
            let why = "frames without a stamp do not say which class they are of";
            reason.insert("class".to_owned(), why.to_owned());
        }
        ClassSummary {
            class: counts.class,
            messages: counts.messages_received,
            frames_sent: counts.frames_sent,
            frames_received: counts.frames_received,
            payload_bytes_sent: counts.payload_bytes_sent,
            payload_bytes_received: counts.payload_bytes_received,
            active_ns: active,
            throughput_bps: throughput,
            lost: class.lost,
            duplicated: counts.duplicated,
            reordered: counts.reordered,
            reason,
        }
    };
    outcome.classes.iter().map(summary).collect()
}

/// Each flow.
pub(super) fn flows(outcome: &RunOutcome, directory: &Directory<'_>) -> Vec<FlowRow> {
    outcome.flows.iter().map(|flow| flow_row(flow, directory, outcome.start_ns)).collect()
}

fn flow_row(flow: &FlowOutcome, directory: &Directory<'_>, start_ns: u64) -> FlowRow {
    let (sender, receiver) = (directory.sender(flow.sender), directory.receiver(flow.sender));
    let (sent, received) = (flow.sent.as_ref(), flow.received.as_ref());
    let group = sender.and_then(|pair| directory.group(pair.group));
    FlowRow {
        flow_name: flow.sender.to_string(),
        port_tx: sender.map_or_else(String::new, |pair| directory.nic_name(pair.nic)),
        port_rx: receiver.map_or_else(String::new, |pair| directory.nic_name(pair.nic)),
        // The number that frames to a queue pair carry is that queue pair's own.
        src_qp: sender.map_or(0, |pair| pair.qpn),
        dest_qp: receiver.map_or(0, |pair| pair.qpn),
        group: group.map_or_else(String::new, |group| format!("{} {}", group.name, group.id.0)),
        channel: sender.map_or(0, |pair| pair.channel),
        data_frames_tx: sent.map_or(0, |sent| sent.frames),
        data_frames_rx: received.map_or(0, |received| received.frames),
        data_frames_retransmitted: sent.map_or(0, |sent| sent.retransmitted),
        data_frames_lost: flow.lost,
        data_frames_duplicated: received.map_or(0, |received| received.duplicated),
        frame_sequence_error: received.map_or(0, |received| received.reordered),
        tx_bytes: sent.map_or(0, |sent| sent.payload_bytes),
        rx_bytes: received.map_or(0, |received| received.payload_bytes),
        message_tx: sent.map_or(0, |sent| sent.messages),
        message_complete_rx: received.map_or(0, |received| received.messages),
        ack_rx: sent.map_or(0, |sent| sent.acknowledgements),
        nak_rx: sent.map_or(0, |sent| sent.naks),
        timeouts: sent.map_or(0, |sent| sent.timeouts),
        ecn_ce_rx: received.map_or(0, |received| received.congestion_marks),
        flow_completion_time_ns: flow.completion_ns,
        min_latency_ns: received.and_then(|received| received.min_latency_ns),
        max_latency_ns: received.and_then(|received| received.max_latency_ns),
        first_timestamp_ns: sent.and_then(|sent| sent.first_sent_ns?.checked_sub(start_ns)),
        last_timestamp_ns: received.and_then(|received| received.last_ns?.checked_sub(start_ns)),
    }
}

/// Each NIC and interval, in order of time.
pub(super) fn intervals(outcome: &RunOutcome, directory: &Directory<'_>) -> Vec<IntervalRow> {
    let mut rows: Vec<_> = outcome
        .nics
        .iter()
        .flat_map(|nic| {
            let name = directory.nic_name(nic.nic);
            nic.intervals.bins.iter().zip(0_u64..).map(move |(bin, place)| IntervalRow {
                schema_version: INTERVALS_VERSION,
                nic: name.clone(),
                start_ns: place.saturating_mul(nic.intervals.bin_ns),
                duration_ns: nic.intervals.bin_ns,
                payload_bytes_sent: bin.payload_bytes_sent,
                payload_bytes_received: bin.payload_bytes_received,
                frames_sent: bin.frames_sent,
                frames_received: bin.frames_received,
                frame_bytes_sent: bin.frame_bytes_sent,
                frame_bytes_received: bin.frame_bytes_received,
            })
        })
        .collect();
    // Stable: NICs keep their order within an interval.
    rows.sort_by_key(|row| row.start_ns);
    rows
}

/// The same for pictures: all NICs in bins of the widest among them, since a busy NIC may have had to join its own.
pub(super) fn curves(outcome: &RunOutcome, directory: &Directory<'_>) -> Vec<Curve> {
    let widest = outcome.widest_bin();
    outcome
        .nics
        .iter()
        .map(|nic| {
            let joined = usize::try_from(widest.0 / nic.intervals.bin_ns.max(1)).unwrap_or(usize::MAX).max(1);
            let bins = |figure: fn(&IntervalBin) -> u64| {
                let joined = nic.intervals.bins.chunks(joined);
                joined.map(|bins| bins.iter().map(figure).sum()).collect()
            };
            Curve {
                id: nic.nic,
                name: directory.nic_name(nic.nic),
                bin: widest,
                sent: bins(|bin| bin.payload_bytes_sent),
                received: bins(|bin| bin.payload_bytes_received),
            }
        })
        .collect()
}
