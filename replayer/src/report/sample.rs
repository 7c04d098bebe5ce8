//! A run as four hosts on one machine might give it, for tests and for looking at the page.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use traces::id::{NicId, Rank};
use traces::origin::{Class, Operation};
use traces::unit::Nanos;

use super::environment::{HostManifest, RunManifest};
use super::lanes::{Activity, Lanes};
use super::rows::{FlowRow, IntervalRow};
use super::summary::*;
use super::{Curve, Report, Tagged, Timeline};

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn hist(
    kind: &str,
    class: Option<Class>,
    base: u64,
    spread: u64,
    n: u64,
    seed: u64,
) -> (LatencySummary, Histogram<u64>) {
    let mut h = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    let mut s = seed;
    let (mut min, mut max) = (u64::MAX, 0);
    for _ in 0..n {
        let tail = match random(&mut s) % 1000 {
            0 => 400,
            1..10 => 40,
            10..100 => 6,
            _ => 1,
        };
        let v = base + random(&mut s) % (spread * tail);
        min = min.min(v);
        max = max.max(v);
        h.record(v).unwrap();
    }
    let [a, b, c] = super::latency::PERCENTILES.map(|p| p.of(&h, min, max));
    let mut reason = BTreeMap::new();
    for (v, p) in [a, b, c].iter().zip(super::latency::PERCENTILES) {
        if v.is_none() {
            reason.insert(format!("{}_ns", p.key), p.reason(n));
        }
    }
    (
        LatencySummary {
            kind: kind.into(),
            class,
            nic: None,
            tier: "T0".into(),
            uncertainty_ns: Some(0),
            count: n,
            min_ns: Some(min),
            p50_ns: a,
            p99_ns: b,
            p999_ns: c,
            max_ns: Some(max),
            saturated: 0,
            reason,
        },
        h,
    )
}

pub(super) fn report() -> Report {
    let mut latency = Vec::new();
    let mut histograms = Vec::new();
    for (kind, base, spread) in
        [("response", 31_000, 40_000), ("service", 22_000, 15_000), ("lateness", 900, 20_000)]
    {
        let (l, h) = hist(kind, None, base, spread, 48_200, 1);
        latency.push(l);
        histograms.push(Tagged { tag: kind.into(), histogram: h });
        for (class, n) in [
            (Class::DpGradients, 34_000),
            (Class::PpForward, 7_100),
            (Class::PpBackward, 7_100),
            (Class::TiedEmbedding, 800),
        ] {
            let (l, h) = hist(kind, Some(class), base, spread, n, n);
            latency.push(l);
            histograms.push(Tagged { tag: format!("{kind}/{class}"), histogram: h });
        }
    }
    let nics: Vec<_> = (0..4_u32)
        .map(|id| NicSummary {
            id,
            host: format!("host{id}"),
            name: format!("host{id}-nic0"),
            address: Some(format!("198.18.0.{}", id + 1)),
            link_bps: 10_000_000_000,
            frames_sent: 12_050 + u64::from(id),
            frames_received: 12_050,
            payload_bytes_sent: 49_283_072,
            payload_bytes_received: 49_283_072,
            frame_bytes_sent: 50_000_000,
            frame_bytes_received: 50_000_000,
            throughput_sent_bps: Some(3_120_000_000),
            throughput_received_bps: Some(3_120_000_000),
            peak_sent_bps: Some(9_100_000_000),
            lost: 0,
            duplicated: 0,
            reordered: u64::from(id),
            late: 231,
            retransmitted: 1,
            unmatched: 0,
            congestion_marks: 0,
            reason: Reasons::new(),
        })
        .collect();
    let class = |class, messages, bytes, bps| ClassSummary {
        class,
        messages,
        frames_sent: 100,
        frames_received: 100,
        payload_bytes_sent: bytes,
        payload_bytes_received: bytes,
        throughput_bps: Some(bps),
        lost: 0,
        duplicated: 0,
        reordered: 0,
        reason: Reasons::new(),
    };
    let classes = vec![
        class(Class::DpGradients, 96, 120_000_000, 7_600_000_000),
        class(Class::PpForward, 32, 33_554_432, 2_100_000_000),
        class(Class::PpBackward, 32, 33_554_432, 2_100_000_000),
        class(Class::TiedEmbedding, 8, 9_000_000, 400_000_000),
    ];
    let mut collectives = Vec::new();
    let mut s = 5;
    for instance in 0..12_u32 {
        for (class, operation, group, group_name, ranks, bytes) in [
            (Class::DpGradients, Operation::AllReduce, 0, "data", 2, 26_214_400),
            (Class::PpForward, Operation::SendReceive, 4, "pipeline", 2, 4_194_304),
        ] {
            let time = 9_000_000 + random(&mut s) % 3_000_000;
            let alg = super::bandwidth::rate(traces::unit::Bytes(bytes), Nanos(time)).unwrap();
            let factor = super::bandwidth::Factor::of(operation, ranks);
            collectives.push(CollectiveSummary {
                step: 0,
                class,
                operation,
                group,
                group_name: group_name.into(),
                instance,
                ranks,
                payload_bytes: bytes,
                time_ns: Some(time),
                algbw_bps: Some(alg),
                busbw_bps: Some(factor.bus(alg)),
                factor: factor.formula.into(),
                reason: Reasons::new(),
            });
        }
    }
    let steps = (0..2_u32)
        .map(|step| StepSummary {
            step,
            time_ns: Some(61_234_000 + u64::from(step) * 4_000_000),
            planned_ns: 52_000_000,
            ideal_ns: 40_000_000,
            ratio_to_planned: Some(1.178),
            ratio_to_ideal: Some(1.531),
            reason: Reasons::new(),
        })
        .collect();
    let reconciliation = nics
        .iter()
        .flat_map(|nic| {
            [
                ("payload_bytes_sent", 49_283_072, 49_283_072),
                ("frames_received", 12_050, 12_050 + u64::from(nic.id == 2)),
            ]
            .map(|(figure, expected, counted)| Reconciliation {
                nic: nic.name.clone(),
                figure: figure.into(),
                against: "plan".into(),
                expected,
                counted,
                equal: expected == counted,
                explanation: (expected != counted).then(|| "1 frame was sent again".to_owned()),
            })
        })
        .collect();
    let throughput = (0..4_u32)
        .map(|id| {
            let wave = |phase: u64, seed: u64| {
                let mut s = seed;
                (0..130_u64)
                    .map(|t| {
                        if (t + phase) % 65 > 20 && (t + phase) % 65 < 50 {
                            400_000 + random(&mut s) % 500_000
                        } else {
                            random(&mut s) % 20_000
                        }
                    })
                    .collect::<Vec<_>>()
            };
            Curve {
                id: NicId(id),
                name: format!("host{id}-nic0"),
                bin: Nanos(1_000_000),
                sent: wave(u64::from(id) * 5, 3),
                received: wave(u64::from(id) * 5 + 2, 9),
            }
        })
        .collect();
    let mut planned = Lanes::new(Nanos(0), Nanos(52_000_000));
    let mut measured = Lanes::new(Nanos(0), Nanos(65_000_000));
    for rank in 0..4_u32 {
        for (lanes, k) in [(&mut planned, 100), (&mut measured, 125)] {
            for m in 0..4_u64 {
                let at = (m * 5_000_000 + u64::from(rank / 2) * 5_500_000) * k / 100;
                lanes.add(Rank(rank), Activity::Compute, Nanos(at), Nanos(at + 4_500_000 * k / 100));
                lanes.add(
                    Rank(rank),
                    Activity::Class(Class::PpForward),
                    Nanos(at + 4_500_000 * k / 100),
                    Nanos(at + 5_500_000 * k / 100),
                );
                let back = at + 24_000_000 * k / 100;
                lanes.add(Rank(rank), Activity::Class(Class::PpBackward), Nanos(back), Nanos(back + 700_000));
            }
            lanes.add(
                Rank(rank),
                Activity::Compute,
                Nanos(24_000_000 * k / 100),
                Nanos(41_000_000 * k / 100),
            );
            lanes.add(
                Rank(rank),
                Activity::Class(Class::DpGradients),
                Nanos(33_000_000 * k / 100),
                Nanos(51_000_000 * k / 100),
            );
            lanes.add(
                Rank(rank),
                Activity::Class(Class::TiedEmbedding),
                Nanos(50_000_000 * k / 100),
                Nanos(51_900_000 * k / 100),
            );
        }
    }
    let flows = (0..8_u32)
        .map(|id| FlowRow {
            flow_name: format!("qp{id}"),
            port_tx: format!("host{}-nic0", id / 2),
            port_rx: format!("host{}-nic0", 3 - id / 2),
            src_qp: 100 + id,
            dest_qp: 200 + id,
            group: "data 0".into(),
            rx_bytes: 1_000_000 * u64::from(id + 1),
            message_complete_rx: 40,
            flow_completion_time_ns: Some(61_000_000),
            p50_latency_ns: Some(44_000),
            max_latency_ns: Some(2_100_000),
            ..FlowRow::default()
        })
        .collect();
    let summary = Summary {
        schema_version: SCHEMA_VERSION,
        run: "run-20260314T150926Z-00c0ffee".into(),
        program: "tokenwire 0.1.0".into(),
        plan: "demo".into(),
        plan_digest: "sha256:4f1c".into(),
        mode: "dependency".into(),
        speed: None,
        partial: false,
        reason: Reasons::new(),
        started_unix_ns: 1_773_500_966_000_000_000,
        duration_ns: 127_000_000,
        planned_duration_ns: 104_000_000,
        frames_sent: 48_204,
        frames_received: 48_200,
        payload_bytes_sent: 197_132_288,
        payload_bytes_received: 197_132_288,
        lost: 0,
        duplicated: 0,
        reordered: 6,
        late: 924,
        retransmitted: 4,
        nics,
        classes,
        collectives,
        steps,
        latency,
        reconciliation,
    };
    let manifest = RunManifest {
        schema_version: 1,
        run: summary.run.clone(),
        program: summary.program.clone(),
        command: vec!["tokenwire".into(), "demo".into()],
        plan: "demo".into(),
        plan_digest: "sha256:4f1c".into(),
        seed: 7,
        mode: "dependency".into(),
        started_unix_ns: summary.started_unix_ns,
        partial: false,
        hosts: (0..4)
            .map(|id| HostManifest {
                host: format!("host{id}"),
                addresses: vec![format!("198.18.0.{}", id + 1)],
                backend: "udp, GSO and GRO".into(),
                kernel: "Linux 6.1.0".into(),
                clock_tier: "T0".into(),
            })
            .collect(),
        reason: Reasons::new(),
    };
    let intervals = vec![IntervalRow {
        schema_version: 1,
        nic: "host0-nic0".into(),
        duration_ns: 1_000_000,
        ..IntervalRow::default()
    }];
    Report {
        summary,
        manifest,
        flows,
        intervals,
        histograms,
        throughput,
        planned: None,
        timeline: Some(Timeline { step: 1, planned, measured }),
    }
}

#[test]
fn look() {
    let Some(folder) = std::env::var_os("TOKENWIRE_LOOK") else { return };
    let report = report();
    let folder = std::path::Path::new(&folder);
    std::fs::write(folder.join("r.html"), super::html::page(&report)).unwrap();
    std::fs::write(folder.join("r.txt"), super::text::text(&report.summary, super::text::Colour::Plain))
        .unwrap();
    std::fs::write(
        folder.join("schema.json"),
        serde_json::to_string_pretty(&super::summary::summary_schema()).unwrap(),
    )
    .unwrap();
}

#[test]
fn the_summary_is_what_its_schema_says() {
    let schema = serde_json::to_value(super::summary::summary_schema()).unwrap();
    let judge = jsonschema::validator_for(&schema).unwrap();
    let document = serde_json::to_value(report().summary).unwrap();
    assert!(
        judge.is_valid(&document),
        "{:?}",
        judge.iter_errors(&document).map(|error| error.to_string()).collect::<Vec<_>>()
    );
    let mut with_null = document.clone();
    with_null["latency"][0]["uncertainty_ns"] = serde_json::Value::Null;
    assert!(!judge.is_valid(&with_null));
}
