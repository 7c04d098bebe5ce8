//! Checks of congestion: a notification has its form, its cause and its pace, and the sender heeds it.

use super::check::Tally;
use super::flow::{Part, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::unit::{Bytes, Nanos};
use crate::wire::segment::line_bytes;
use crate::wire::{Bth, Ecn, Opcode, ParsedFrame};

family! {
    "congestion":
    Form,
    Cause,
    Spacing,
    Heeded,
}

/// A notification is what ConnectX sends: BECN set, nothing asked, sixteen zero bytes behind BTH.
#[derive(Default)]
struct Form;

impl Rule for Form {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "cnp_form"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = notification(sight) else { return };
        let Bth { congestion, ack_request, pad, .. } = frame.bth;
        let zero = frame.payload.iter().all(|&byte| byte == 0);
        let right =
            congestion == Bth::BECN && !ack_request && pad == 0 && frame.payload_length == BODY && zero;
        sight.expect(tally, right, || {
            format!(
                "byte 4 of BTH 0x{congestion:02x}, AckReq {}, {} bytes{}; should be 0x40, 0, 16, all zero",
                u8::from(ack_request),
                frame.payload_length,
                if zero { "" } else { ", not all zero" }
            )
        });
    }
}

/// Bytes behind BTH (annex A17.9.3).
const BODY: usize = 16;

/// A host notifies after a marked frame came to it, and tells the queue pair that sent it. At the port that is
/// told nothing can be said: marks are made behind it.
#[derive(Default)]
struct Cause(Vec<Marks>);

#[derive(Default)]
struct Marks {
    /// Marked frames that came by this flow since the last notification, and between that and the one before.
    marked: u32,
    taken: u32,
    /// Requests or answers were seen.
    connected: bool,
    /// The first notification to a queue pair of which nothing else is known.
    stray: Option<(usize, u64)>,
}

impl Rule for Cause {
    fn name(&self) -> &'static str {
        "cnp_after_mark"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        if frame.bth.opcode() != Some(Opcode::CongestionNotification) {
            if !matches!(placed.part, Part::Other) {
                let marks = state_of(&mut self.0, placed.flow);
                marks.connected = true;
                if frame.network.ecn == Ecn::CongestionExperienced {
                    marks.marked = marks.marked.saturating_add(1);
                }
            }
            return;
        }
        if sight.sent != Some(true) {
            return;
        }
        let Some(marked) = placed.peer else {
            let stray = (sight.file, sight.number);
            state_of(&mut self.0, placed.flow).stray.get_or_insert(stray);
            return;
        };
        let marks = state_of(&mut self.0, marked);
        // Two that wait for the line together leave after both of their marks.
        let was = marks.marked > 0 || marks.taken > 1;
        marks.taken =
            if marks.marked > 0 { std::mem::take(&mut marks.marked) } else { marks.taken.saturating_sub(1) };
        sight.expect(tally, was, || {
            format!("notifies queue pair {}, none of whose frames was marked since", frame.bth.destination)
        });
    }

    fn finish(&mut self, names: &super::sight::Captures, tally: &mut Tally) {
        for marks in self.0.iter().filter(|marks| !marks.connected) {
            if let Some((file, frame)) = marks.stray {
                tally.examine();
                tally.violate(names.get(file).map_or("", String::as_str), frame, || {
                    "notifies a queue pair that nothing else goes to".to_owned()
                });
            }
        }
    }
}

/// A host does not notify a queue pair more often than its limiter lets it: once in 4 us, or in what the trace says. One that had to wait for the
/// line is not examined: it was due before.
#[derive(Default)]
struct Spacing {
    flows: Vec<Option<Nanos>>,
    /// What each port sent last.
    lines: Vec<Option<(Nanos, u32)>>,
}

impl Rule for Spacing {
    fn name(&self) -> &'static str {
        "cnp_spacing"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        // On the way two may come closer.
        if sight.sent != Some(true) {
            return;
        }
        let last = state_of(&mut self.lines, sight.port).replace((sight.time, sight.length));
        let Some((_, flow)) = notification(sight) else { return };
        let waited = last.zip(sight.rate).is_some_and(|((time, length), rate)| {
            sight.time.0.saturating_sub(time.0) <= rate.time_of(line_bytes(Bytes(u64::from(length)))).0 + 1
        });
        if let Some(before) = state_of(&mut self.flows, flow).replace(sight.time).filter(|_| !waited) {
            let (gap, least) = (sight.time.0.saturating_sub(before.0), sight.vantage.habits.notice_interval);
            sight.expect(tally, gap >= least.0, || {
                format!("{gap} ns after the last one to this queue pair, should be {} ns", least.0)
            });
        }
    }
}

/// A sender that is notified slows down: once it has had time to, its queue pair does not fill the line.
#[derive(Default)]
struct Heeded(Vec<Pace>);

/// How a queue pair sends after it was notified.
#[derive(Default)]
struct Pace {
    told: Option<Nanos>,
    last: Option<(Nanos, u32)>,
    /// Frames in a row that left as soon as the line was free.
    run: u32,
}

impl Rule for Heeded {
    fn name(&self) -> &'static str {
        "cnp_slows_sender"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let Some(rate) = sight.rate.filter(|_| sight.vantage.habits.slows_down) else { return };
        match (sight.sent, placed.part) {
            (Some(false), Part::Other) if frame.bth.opcode() == Some(Opcode::CongestionNotification) => {
                // The notification comes in the flow of answers; what it is about is the other direction.
                if let Some(flow) = placed.peer {
                    let pace = state_of(&mut self.0, flow);
                    *pace = Pace { told: Some(sight.time), ..Pace::default() };
                }
            }
            (Some(true), Part::Request(..)) => {
                let pace = state_of(&mut self.0, placed.flow);
                let Some(told) = pace.told else { return };
                let before = pace.last.replace((sight.time, sight.length));
                let since = sight.time.0.saturating_sub(told.0);
                if since < REACTION.0 {
                    return;
                }
                if since > MEMORY.0 {
                    pace.told = None;
                    return;
                }
                let Some((time, length)) = before else { return };
                let needs = rate.time_of(line_bytes(Bytes(u64::from(length)))).0;
                let full = sight.time.0.saturating_sub(time.0) <= needs + 1;
                pace.run = if full { pace.run + 1 } else { 0 };
                if pace.run == LONG || !full {
                    sight.expect(tally, pace.run < LONG, || {
                        format!("{LONG} frames fill the line, {since} ns after congestion was notified")
                    });
                }
            }
            _ => {}
        }
    }
}

/// A NIC has so long to react,
const REACTION: Nanos = Nanos(5_000);
/// and may be back at full rate so long after: DCQCN recovers in steps of a timer of 55 us and more.
const MEMORY: Nanos = Nanos(50_000);
/// A burst of a scheduler is shorter.
const LONG: u32 = 32;

fn notification<'s, 'a>(sight: &'s Sight<'a>) -> Option<(&'s ParsedFrame<'a>, usize)> {
    let (frame, placed) = sight.roce()?;
    (frame.bth.opcode() == Some(Opcode::CongestionNotification)).then_some((frame, placed.flow))
}
