//! A run as four hosts on one machine might give it: pipeline 2 x data 2, two steps. For tests of the report.

mod plan;

pub(super) use plan::{sends, trace};

use hdrhistogram::Histogram;
use traces::id::{GroupId, HostId, NicId, QueuePairId, Rank};
use traces::origin::{Class, Operation};
use traces::unit::Nanos;

use self::plan::peer;
use super::Report;
use super::environment::{Circumstances, HostManifest};
use super::planned::PlannedCurve;
use crate::outcome::host::SCHEMA_VERSION;
use crate::outcome::samples::empty_histogram;
use crate::outcome::{
    ClassCounts, Clock, End, HostOutcome, IntervalBin, Intervals, LatencyKind, LatencySamples, Mode,
    NicOutcome, OperationTime, ReceivedFlow, RunOutcome, Samples, SentFlow, Span, StepEnd,
};

/// The report of the run.
pub(super) fn report() -> Report {
    let trace = trace();
    let mut planned = PlannedCurve::new(&trace, Nanos(MS));
    (0..HOSTS).flat_map(|host| sends(HostId(host))).for_each(|node| planned.add(&node));
    Report::new(&outcome(), &trace, Some(planned), &circumstances()).unwrap()
}

pub(super) fn circumstances() -> Circumstances {
    Circumstances {
        run: "run-20260314T150926Z-00c0ffee".to_owned(),
        program: "tokenwire 0.1.0".to_owned(),
        command: ["tokenwire", "replay", "demo"].map(str::to_owned).to_vec(),
        started_unix_ns: 1_773_500_966_000_000_000,
        hosts: (0..HOSTS)
            .map(|host| HostManifest {
                host: format!("host{host}"),
                addresses: vec![format!("198.18.0.{}", host + 1)],
                backend: "udp, GSO and GRO".to_owned(),
                kernel: "Linux 6.1.0".to_owned(),
            })
            .collect(),
    }
}

/// What the hosts measured: one frame was lost and sent again, and one step took longer than the other.
pub(super) fn outcome() -> RunOutcome {
    RunOutcome::merge(7, Mode::Dependency, hosts(), &[]).unwrap()
}

pub(super) fn hosts() -> Vec<HostOutcome> {
    (0..HOSTS).map(host).collect()
}

fn host(number: u32) -> HostOutcome {
    let again = u64::from(number == 2);
    let flows = [(number, PIPELINE_BYTES), (HOSTS + number, DATA_BYTES)];
    let pipeline = if number < 2 { Class::PpForward } else { Class::PpBackward };
    let arriving = if number < 2 { Class::PpBackward } else { Class::PpForward };
    HostOutcome {
        schema_version: SCHEMA_VERSION,
        run: 7,
        host: HostId(number),
        mode: Mode::Dependency,
        end: End::Complete,
        clock: Clock::same(),
        start_ns: 0,
        end_ns: 127 * MS,
        nodes_complete: 400,
        nodes_read: 400,
        nics: vec![nic(number, again)],
        classes: vec![
            class_counts(Class::DpGradients, DATA_BYTES, DATA_BYTES, again),
            class_counts(pipeline, PIPELINE_BYTES, 0, 0),
            class_counts(arriving, 0, PIPELINE_BYTES, 0),
        ],
        sent: flows
            .map(|(sender, bytes)| {
                let again = if sender < HOSTS { 0 } else { again };
                SentFlow {
                    sender: QueuePairId(sender),
                    messages: MESSAGES,
                    frames: bytes / FRAME_BYTES + again,
                    payload_bytes: bytes + again * FRAME_BYTES,
                    frame_bytes: bytes + bytes / FRAME_BYTES * 58,
                    stamped: bytes / FRAME_BYTES + again,
                    retransmitted: again,
                    acknowledgements: MESSAGES,
                    naks: again,
                    timeouts: 0,
                    first_intended_ns: Some(5 * MS),
                    first_sent_ns: Some(5 * MS + 2_000),
                    last_sent_ns: Some(120 * MS),
                }
            })
            .to_vec(),
        received: flows
            .map(|(receiver, bytes)| ReceivedFlow {
                sender: QueuePairId(peer(receiver)),
                messages: MESSAGES,
                frames: bytes / FRAME_BYTES,
                payload_bytes: bytes,
                frame_bytes: bytes + bytes / FRAME_BYTES * 58,
                stamped: bytes / FRAME_BYTES,
                distinct: bytes / FRAME_BYTES,
                sequence_end: bytes / FRAME_BYTES,
                duplicated: 0,
                reordered: u64::from(number),
                reorder_extent: u64::from(number),
                beyond_window: 0,
                acknowledgements: MESSAGES,
                naks: 0,
                congestion_marks: 0,
                first_ns: Some(5 * MS + 30_000),
                last_ns: Some(120 * MS + 30_000),
                min_latency_ns: Some(22_000 + u64::from(receiver)),
                max_latency_ns: Some(2_100_000),
            })
            .to_vec(),
        latency: latencies(number, pipeline, arriving),
        operations: operations(number, pipeline),
        steps: [(0, 61 * MS), (1, 127 * MS)]
            .map(|(step, end_ns)| StepEnd {
                rank: Rank(number),
                step,
                end_ns: end_ns - u64::from(number) * MS / 4,
                planned_end_ns: u64::from(step + 1) * PLANNED_STEP,
            })
            .to_vec(),
        computes: computes(number),
        left_off: 0,
    }
}

fn nic(number: u32, again: u64) -> NicOutcome {
    let payload = DATA_BYTES + PIPELINE_BYTES;
    let frames = payload / FRAME_BYTES + 2 * MESSAGES;
    NicOutcome {
        nic: NicId(number),
        frames_sent: frames + again,
        frames_received: frames,
        frame_bytes_sent: payload + payload / FRAME_BYTES * 58,
        frame_bytes_received: payload + payload / FRAME_BYTES * 58,
        payload_bytes_sent: payload + again * FRAME_BYTES,
        payload_bytes_received: payload,
        goodput_bytes_received: payload,
        first_sent_ns: Some(5 * MS),
        last_sent_ns: Some(120 * MS),
        first_received_ns: Some(5 * MS),
        last_received_ns: Some(120 * MS),
        late: 0,
        congestion_marks: 0,
        congestion_notifications: 0,
        unmatched: 0,
        malformed: 0,
        icrc_errors: None,
        intervals: Intervals { bin_ns: MS, bins: (0..127).map(|bin| interval(bin, number)).collect() },
    }
}

/// Traffic in the last two fifths of each step, and a microbatch's now and then before.
fn interval(bin: u64, number: u32) -> IntervalBin {
    let within = bin % 63;
    let mut noise = Noise(bin * 31 + u64::from(number));
    let payload = match within {
        38..60 => 700_000 + noise.below(400_000),
        5..30 if within % 6 < 2 => 900_000 + noise.below(200_000),
        _ => 0,
    };
    let other = if payload == 0 { 0 } else { payload - noise.below(100_000) };
    IntervalBin {
        frames_sent: payload / FRAME_BYTES,
        frames_received: other / FRAME_BYTES,
        frame_bytes_sent: payload,
        frame_bytes_received: other,
        payload_bytes_sent: payload,
        payload_bytes_received: other,
    }
}

fn class_counts(class: Class, sent: u64, received: u64, again: u64) -> ClassCounts {
    ClassCounts {
        messages_sent: if sent > 0 { MESSAGES } else { 0 },
        messages_received: if received > 0 { MESSAGES } else { 0 },
        frames_sent: sent / FRAME_BYTES + again,
        frames_received: received / FRAME_BYTES,
        payload_bytes_sent: sent + again * FRAME_BYTES,
        payload_bytes_received: received,
        stamped_sent: sent / FRAME_BYTES + again,
        stamped_received: received / FRAME_BYTES,
        first_ns: Some(5 * MS),
        last_ns: Some(120 * MS),
        ..ClassCounts::new(Some(class))
    }
}

fn latencies(number: u32, sent: Class, arriving: Class) -> Vec<LatencySamples> {
    let seed = u64::from(number);
    let of = |kind, class, least, spread, count| LatencySamples {
        kind,
        class: Some(class),
        samples: samples(least, spread, count, seed),
    };
    let mut all = Vec::new();
    for (class, count) in [(Class::DpGradients, 6_000), (arriving, 300)] {
        all.push(of(LatencyKind::Response, class, 31_000, 40_000, count));
        all.push(of(LatencyKind::Service, class, 22_000, 15_000, count));
    }
    for (class, count) in [(Class::DpGradients, 6_000), (sent, 300)] {
        all.push(of(LatencyKind::Lateness, class, 900, 20_000, count));
        all.push(of(LatencyKind::Completion, class, 300_000, 900_000, count / 100));
    }
    all
}

/// Samples with a tail, as hosts have it.
pub(super) fn samples(least: u64, spread: u64, count: u64, seed: u64) -> Samples {
    let (mut noise, mut histogram) = (Noise(seed), empty_histogram());
    let values: Vec<_> = (0..count)
        .map(|_| {
            let tail = match noise.below(1_000) {
                0 => 200,
                1..10 => 40,
                10..100 => 6,
                _ => 1,
            };
            least + noise.below(spread * tail)
        })
        .collect();
    values.iter().for_each(|value| record(&mut histogram, *value));
    let extremes = values.iter().copied().min().zip(values.iter().copied().max());
    Samples::new(&histogram, extremes, 0, 0).unwrap()
}

fn record(histogram: &mut Histogram<u64>, value: u64) {
    histogram.record(value).unwrap();
}

fn operations(number: u32, sent: Class) -> Vec<OperationTime> {
    let mut all = Vec::new();
    for step in 0..2_u32 {
        let (start, planned) = (u64::from(step) * 61 * MS, u64::from(step) * PLANNED_STEP);
        let slow = 100 + u64::from(step) * 8;
        let mut add = |class, operation, group, instance, bytes, from: u64, to: u64| {
            all.push(OperationTime {
                rank: Rank(number),
                step,
                class,
                operation,
                group: GroupId(group),
                instance,
                payload_bytes: bytes,
                ready_ns: start + from * slow / 100 * MS / 1_000,
                complete_ns: start + to * slow / 88 * MS / 1_000,
                planned_ready_ns: planned + from * MS / 1_000,
                planned_complete_ns: planned + to * MS / 1_000,
            });
        };
        for microbatch in 0..4_u32 {
            let from = 4_500 + u64::from(microbatch) * 5_200;
            for (class, offset) in [(Class::PpForward, 0), (Class::PpBackward, 21_000)] {
                let instance = step * 8 + microbatch * 2 + u32::from(class == Class::PpBackward);
                // The receiver is ready when the first byte arrives.
                let wait = if class == sent { 0 } else { 150 };
                let (from, to) = (from + offset + wait, from + offset + 900);
                add(class, Operation::SendReceive, number % 2, instance, PIPELINE_BYTES / 8, from, to);
            }
        }
        for bucket in 0..3_u32 {
            let from = 33_000 + u64::from(bucket) * 5_800 + u64::from(number) * 40;
            let group = 2 + number / 2;
            let (instance, to) = (step * 3 + bucket, 33_000 + u64::from(bucket + 1) * 5_800);
            add(Class::DpGradients, Operation::AllReduce, group, instance, DATA_BYTES / 6, from, to);
        }
    }
    all
}

fn computes(number: u32) -> Vec<Span> {
    let mut all = Vec::new();
    for step in 0..2_u32 {
        let (start, planned) = (u64::from(step) * 61 * MS, u64::from(step) * PLANNED_STEP);
        for microbatch in 0..4_u64 {
            for offset in [0, 21_000] {
                let from = (microbatch * 5_200 + u64::from(number / 2) * 6_000 + offset) * MS / 1_000;
                all.push(Span {
                    rank: Rank(number),
                    step,
                    start_ns: start + from * 11 / 10,
                    end_ns: start + (from + 4_500_000) * 11 / 10,
                    planned_start_ns: planned + from,
                    planned_end_ns: planned + from + 4_500_000,
                });
            }
        }
    }
    all
}

/// Numbers that look random and are always the same (Knuth's linear congruence).
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

const HOSTS: u32 = 4;
const MS: u64 = 1_000_000;
const PLANNED_STEP: u64 = 52 * MS;
const FRAME_BYTES: u64 = 4_096;
const MESSAGES: u64 = 48;
/// What a host sends of each kind in the whole run.
const DATA_BYTES: u64 = 6_000 * FRAME_BYTES;
const PIPELINE_BYTES: u64 = 1_600 * FRAME_BYTES;
