//! What was planned against what was counted, and what senders counted against what receivers did. A difference is
//! never hidden: it is listed, with what explains it where something does.

use traces::manifest::{Manifest, Nic, Transport};

use super::traffic::sent_by;
use crate::outcome::{FlowOutcome, Mode, NicOutcome, RunOutcome};
use crate::report::directory::Directory;
use crate::report::summary::Reconciliation;

/// The figures of every NIC that reported.
pub(super) fn reconciliation(
    outcome: &RunOutcome,
    trace: &Manifest,
    directory: &Directory<'_>,
) -> Vec<Reconciliation> {
    let planned = |nic: &NicOutcome| trace.nics.iter().find(|planned| planned.id == nic.nic);
    let known = outcome.nics.iter().filter_map(|nic| Some((nic, planned(nic)?)));
    known.flat_map(|(nic, planned)| of_nic(nic, planned, &trace.transport, outcome, directory)).collect()
}

fn of_nic(
    nic: &NicOutcome,
    planned: &Nic,
    transport: &Transport,
    outcome: &RunOutcome,
    directory: &Directory<'_>,
) -> Vec<Reconciliation> {
    let sent = |figure: fn(&crate::outcome::SentFlow) -> u64| {
        sent_by(nic.nic, outcome, directory).map(figure).sum::<u64>()
    };
    let again = sent(|flow| flow.retransmitted);
    let arriving: Vec<&FlowOutcome> = outcome
        .flows
        .iter()
        .filter(|flow| directory.receiver(flow.sender).is_some_and(|pair| pair.nic == nic.nic))
        .collect();
    let expected: u64 = arriving.iter().filter_map(|flow| flow.sent.as_ref()).map(|sent| sent.frames).sum();
    let received = || arriving.iter().filter_map(|flow| flow.received.as_ref());
    let lost: u64 = arriving.iter().filter_map(|flow| flow.lost).sum();
    let duplicated: u64 = received().map(|flow| flow.duplicated).sum();
    let silent = arriving.iter().filter(|flow| flow.sent.is_none()).count();

    let row = |figure: &str, against: &str, expected: u64, counted: u64, explanation: Option<String>| {
        let equal = expected == counted;
        Reconciliation {
            nic: planned.name.clone(),
            figure: figure.to_owned(),
            against: against.to_owned(),
            expected,
            counted,
            equal,
            explanation: explanation.filter(|_| !equal),
        }
    };
    let partial = || outcome.partial.then(|| "the run ended early".to_owned());
    let resent = that(again, "sent again").or_else(partial);
    let messages = planned.classes.iter().map(|class| class.messages).sum();
    let frames = planned.classes.iter().map(|class| class.frames).sum();
    let mut rows = vec![
        row("messages_sent", PLAN, messages, sent(|flow| flow.messages), partial()),
        row("data_frames_sent_once", PLAN, frames, sent(|flow| flow.frames).saturating_sub(again), partial()),
        row("payload_bytes_sent", PLAN, planned.payload_bytes_sent, nic.payload_bytes_sent, resent),
        row(
            "goodput_bytes_received",
            PLAN,
            planned.payload_bytes_received,
            nic.goodput_bytes_received,
            that(lost, "lost").or_else(partial),
        ),
        row(
            "data_frames_received",
            "senders",
            expected,
            received().map(|flow| flow.frames).sum(),
            explained(&[(lost, "lost"), (duplicated, "duplicated")], silent).or_else(partial),
        ),
    ];
    if matches!(outcome.mode, Mode::Timed { .. }) {
        let set_up = || (transport.setup == "cm").then(|| "RDMA-CM's datagrams are not replayed".to_owned());
        let why = partial().or_else(set_up);
        rows.push(row("frames_sent", PLAN, planned.frames_sent, nic.frames_sent, why));
        let why = that(lost, "lost").or_else(partial).or_else(set_up);
        rows.push(row("frames_received", PLAN, planned.frames_received, nic.frames_received, why));
    }
    rows
}

/// That some frames were lost, sent again, or the like.
fn that(count: u64, what: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 frame was {what}")),
        _ => Some(format!("{count} frames were {what}")),
    }
}

fn explained(counts: &[(u64, &str)], silent: usize) -> Option<String> {
    let mut reasons: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if silent > 0 {
        reasons.push(format!("{silent} senders did not report"));
    }
    (!reasons.is_empty()).then(|| reasons.join(", "))
}

const PLAN: &str = "plan";
