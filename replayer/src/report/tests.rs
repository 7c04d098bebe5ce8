//! The report of one run, in all of its forms.

use std::fs;

use serde_json::Value;
use traces::unit::Nanos;

use super::Report;
use super::html;
use super::sample::{circumstances, hosts, outcome, report, trace};
use super::summary::{Summary, summary_schema};
use super::text::{Colour, text};
use crate::outcome::{End, HostOutcome, LatencyKind, Mode, RunOutcome, Speed};

/// The same run, of which the last host was stopped and another never answered.
fn partial() -> Report {
    let mut hosts = hosts();
    hosts.remove(1);
    let last = hosts.pop().unwrap();
    hosts.push(HostOutcome { end: End::Stopped, steps: vec![last.steps[0].clone()], ..last });
    let outcome =
        RunOutcome::merge(7, Mode::Dependency, hosts, &["host1 did not answer".to_owned()]).unwrap();
    Report::new(&outcome, &trace(), None, &circumstances()).unwrap()
}

fn timed() -> Report {
    let outcome = RunOutcome {
        mode: Mode::Timed { speed: Speed::per_mille(1_500).unwrap() },
        steps: Vec::new(),
        computes: Vec::new(),
        collectives: Vec::new(),
        ..outcome()
    };
    Report::new(&outcome, &trace(), None, &circumstances()).unwrap()
}

#[test]
fn a_folder_has_every_file_and_the_summary_reads_back() {
    let above = tempfile::tempdir().unwrap();
    let report = report();
    let place = report.write(above.path()).unwrap();
    let mut names: Vec<_> = fs::read_dir(&place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["flows.csv", "intervals.ndjson", "latency.hlog", "manifest.json", "report.html", "summary.json"]
    );
    let read: Summary = serde_json::from_slice(&fs::read(place.join("summary.json")).unwrap()).unwrap();
    assert_eq!(read, report.summary);
    assert!(report.write(above.path()).unwrap_err().to_string().contains("exists"));
    let flows = fs::read_to_string(place.join("flows.csv")).unwrap();
    assert_eq!(flows.lines().count(), 1 + 8);
    let intervals = fs::read_to_string(place.join("intervals.ndjson")).unwrap();
    assert_eq!(intervals.lines().count(), 4 * 127);
    if let Some(copy) = std::env::var_os("TOKENWIRE_KEEP_REPORT") {
        for (report, name) in [(&report, "whole"), (&partial(), "partial"), (&timed(), "timed")] {
            let mut report = report.clone();
            report.summary.run = name.to_owned();
            let _ = fs::remove_dir_all(std::path::Path::new(&copy).join(name));
            let place = report.write(copy.as_ref()).unwrap();
            fs::write(place.join("text"), text(&report.summary, Colour::Plain)).unwrap();
        }
    }
}

#[test]
fn the_summary_is_what_its_schema_says_and_nothing_is_null() {
    let judge = jsonschema::validator_for(&serde_json::to_value(summary_schema()).unwrap()).unwrap();
    for report in [report(), partial(), timed()] {
        let document = serde_json::to_value(&report.summary).unwrap();
        let errors: Vec<_> = judge.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        let mut with_null = document.clone();
        with_null["latency"][0]["p50_ns"] = Value::Null;
        assert!(!judge.is_valid(&with_null));
    }
}

#[test]
fn what_is_absent_says_why() {
    // Schema and document name the same optional keys; each that is missing must have a reason beside it.
    fn check(object: &serde_json::Map<String, Value>, optional: &[&str]) {
        for key in optional.iter().filter(|key| !object.contains_key(**key)) {
            assert!(object["reason"].get(key).is_some(), "{key} is absent without a reason: {object:?}");
        }
    }
    for report in [report(), partial(), timed()] {
        let document = serde_json::to_value(&report.summary).unwrap();
        let each = |list: &str, optional: &[&str]| {
            for one in document[list].as_array().unwrap() {
                check(one.as_object().unwrap(), optional);
            }
        };
        check(document.as_object().unwrap(), &["speed"]);
        each(
            "nics",
            &[
                "address",
                "throughput_sent_bps",
                "throughput_received_bps",
                "goodput_bps",
                "peak_sent_bps",
                "icrc_errors",
            ],
        );
        each("classes", &["class", "active_ns", "throughput_bps"]);
        each("collectives", &["time_ns", "planned_ns", "algbw_bps", "busbw_bps"]);
        each("steps", &["time_ns", "ratio_to_planned", "ratio_to_ideal"]);
        each("latency", &["min_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns"]);
    }
}

#[test]
fn numbers_are_the_outcome_s() {
    let (outcome, summary) = (outcome(), report().summary);
    assert_eq!(summary.duration_ns, 127_000_000);
    assert_eq!(summary.payload_bytes_sent, 4 * 7_600 * 4_096 + 4_096);
    assert_eq!(summary.goodput_bytes_received, 4 * 7_600 * 4_096);
    assert_eq!((summary.lost, summary.retransmitted, summary.reordered), (1, 1, 2 * (1 + 2 + 3)));
    // 7600 frames of 4096 bytes in 127 ms.
    assert_eq!(summary.nics[0].throughput_sent_bps, Some(7_600 * 4_096 * 8 * 1_000 / 127));
    assert_eq!(summary.nics[3].address.as_deref(), Some("198.18.0.4"));
    let overall =
        summary.latency.iter().find(|one| one.kind == LatencyKind::Response && one.class.is_none()).unwrap();
    let measured =
        outcome.latency.iter().find(|one| one.kind == LatencyKind::Response && one.class.is_none()).unwrap();
    assert_eq!((overall.count, overall.max_ns), (4 * 6_300, measured.samples.max_ns));
    assert!(
        overall.p50_ns <= overall.p99_ns
            && overall.p99_ns <= overall.p999_ns
            && overall.p999_ns <= overall.max_ns
    );
    let of_host = summary.latency.iter().find(|one| one.host.as_deref() == Some("host2")).unwrap();
    assert_eq!((of_host.kind, of_host.count), (LatencyKind::Response, 6_300));
}

#[test]
fn steps_are_counted_from_the_end_of_the_one_before() {
    let steps = report().summary.steps;
    assert_eq!(
        steps.iter().map(|step| step.time_ns).collect::<Vec<_>>(),
        [Some(61_000_000), Some(66_000_000)]
    );
    assert_eq!((steps[1].planned_ns, steps[1].ratio_to_planned), (52_000_000, Some(1.2692)));
    assert_eq!(steps[1].ratio_to_ideal, Some(1.65));
    let steps = partial().summary.steps;
    assert_eq!(steps[1].time_ns, None);
    assert_eq!(steps[0].reason["time_ns"], "3 of 4 ranks ended step 0");
    assert_eq!(steps[1].reason["time_ns"], "3 of 4 ranks ended step 0");
}

#[test]
fn a_collective_counts_from_its_last_member_and_a_send_from_its_sender() {
    let summary = report().summary;
    let find = |class: &str| summary.collectives.iter().find(|one| one.class.name() == class).unwrap();
    let reduce = find("dp_gradients");
    // Rank 1 is ready 40 us after rank 0; the plan has both done 5.8 ms after rank 0.
    assert_eq!((reduce.ranks, reduce.planned_ns), (2, Some(5_760_000)));
    assert_eq!(reduce.busbw_bps, reduce.algbw_bps, "2(n-1)/n of two is one");
    assert_eq!(reduce.factor, "2(n-1)/n");
    let send = find("pp_forward");
    assert_eq!((send.ranks, send.planned_ns, send.factor.as_str()), (2, Some(900_000), "1"));
    assert_eq!(send.payload_bytes, 200 * 4_096);
}

#[test]
fn nics_with_narrow_bins_are_drawn_in_wide_ones() {
    let mut outcome = outcome();
    let bins = &mut outcome.nics[0].intervals;
    (bins.bin_ns, bins.bins) = (bins.bin_ns / 2, bins.bins.iter().flat_map(|bin| [*bin, *bin]).collect());
    let report = Report::new(&outcome, &trace(), None, &circumstances()).unwrap();
    let [first, second, ..] = report.throughput.as_slice() else { panic!("four NICs") };
    assert_eq!((first.bin, second.bin), (Nanos(1_000_000), Nanos(1_000_000)));
    assert_eq!((first.sent.len(), second.sent.len()), (127, 127));
    let total: u64 = outcome.nics[0].intervals.bins.iter().map(|bin| bin.payload_bytes_sent).sum();
    assert_eq!(first.sent.iter().sum::<u64>(), total);
    assert_eq!(
        report.intervals.len(),
        2 * 127 + 3 * 127,
        "the lines for programs stay as they were measured"
    );
}

#[test]
fn differences_are_listed_with_their_cause() {
    let unequal: Vec<_> = report().summary.reconciliation.into_iter().filter(|row| !row.equal).collect();
    let short: Vec<_> = unequal
        .iter()
        .map(|row| {
            (
                row.nic.as_str(),
                row.figure.as_str(),
                row.counted - row.expected.min(row.counted),
                row.explanation.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        short,
        [
            ("host2-nic0", "payload_bytes_sent", 4_096, Some("1 frame was sent again")),
            ("host3-nic0", "data_frames_received", 0, Some("1 lost")),
        ]
    );
}

#[test]
fn the_text_fits_a_hundred_columns_and_shows_the_numbers() {
    let text = text(&report().summary, Colour::Plain);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 100, "{widest} columns:\n{text}");
    assert!(!text.contains('\u{1b}'));
    for part in [
        "demo: dependency mode, 2 of 2 training steps in 127.0 ms on 4 NICs",
        " 1     66.00 ms  52.00 ms  40.00 ms         1.269       1.650",
        "Lost 1, duplicated 0, reordered 12, late 0, sent again 1 of ",
        "host2-nic0: payload_bytes_sent is 31133696, plan says 31129600 (1 frame was sent again)",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn a_partial_run_says_so_before_any_number() {
    let report = partial();
    assert!(report.summary.partial);
    let why = "host1 did not answer; host3 was stopped before its end";
    assert_eq!(report.summary.reason["partial"], why);
    let text = text(&report.summary, Colour::Plain);
    assert_eq!(text.lines().nth(1), Some(&*format!("PARTIAL: {why}. The numbers cover what ran.")));
    let page = html::page(&report);
    let (body, banner, first) =
        (page.find("<body>").unwrap(), page.find(why).unwrap(), page.find("<h1>").unwrap());
    assert!(body < banner && banner < first);
}

#[test]
fn timed_mode_has_no_steps_of_its_own() {
    let summary = timed().summary;
    assert_eq!((summary.mode.as_str(), summary.speed), ("timed", Some(1.5)));
    assert!(summary.steps[0].reason["time_ns"].starts_with("timed mode"));
    let head = "demo: timed mode at 1.5 times the trace's speed, 127.0 ms on 4 NICs";
    assert_eq!(text(&summary, Colour::Plain).lines().next(), Some(head));
    assert!(html::page(&timed()).contains("timed mode replays frames, not what they are for"));
}

#[test]
fn the_page_needs_no_network_and_every_picture_shows_something() {
    for report in [report(), partial(), timed()] {
        let page = html::page(&report);
        for word in ["http:", "https:", "<script", "<link", "@import", "url(", "src="] {
            assert!(!page.contains(word), "the page has {word}");
        }
        let pictures: Vec<_> =
            page.split("<svg").skip(1).map(|rest| rest.split("</svg>").next().unwrap()).collect();
        assert!(pictures.len() >= report.summary.nics.len());
        for picture in pictures {
            let drawn = ["class=\"fill\"", "class=\"curve", "class=\"dot\"", "<rect", "class=\"plan\""];
            assert!(drawn.iter().any(|mark| picture.contains(mark)), "empty picture: {picture}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf"), "a number is not one");
    }
}

#[test]
fn the_page_shows_the_summary_s_numbers() {
    let page = html::page(&report());
    for part in
        ["66.00 ms", "1.27 x planned", "31133696", "1 frame was sent again", "198.18.0.4", "blake3:00c0ffee"]
    {
        assert!(page.contains(part), "no `{part}`");
    }
}

#[test]
fn text_from_outside_is_escaped() {
    let mut trace = trace();
    trace.name = "<b>&".to_owned();
    let page = html::page(&Report::new(&outcome(), &trace, None, &circumstances()).unwrap());
    assert!(page.contains("<h1>&lt;b&gt;&amp;</h1>"));
}
