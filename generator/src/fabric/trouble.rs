//! Planned trouble, frame by frame: which are lost, marked or delayed, and which messages find no receive.
//!
//! Chances are drawn from the plan's seed by what a frame is (queue pair, kind, message, index, transmission) and by the place
//! of the impairment in the plan, so the answer depends neither on the order of questions nor on what else is written.

use traces::id::QueuePairId;
use traces::unit::{Bytes, Nanos};

use super::frame::{Fate, FrameId, FrameKind};
use crate::connection::{Network, QueuePair};
use crate::plan::{Chance, Choice, Filter, Frames, Harm, Impairment, Marking, Plan};
use crate::random::Stream;

/// All trouble of a plan.
#[derive(Clone, Debug)]
pub struct Trouble {
    rules: Vec<Rule>,
    /// By queue pair: whether a rule may mean what it sends.
    touched: Vec<bool>,
    marking: Option<(Marking, Stream)>,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    impairment: Impairment,
    draws: Stream,
}

impl Trouble {
    /// The trouble that a plan means.
    #[must_use]
    pub fn new(plan: &Plan, network: &Network) -> Self {
        let rules: Vec<_> = (0..)
            .zip(&plan.fabric.impairments)
            .map(|(place, &impairment)| Rule {
                impairment,
                draws: Stream::new(plan.seed, "impairment", place),
            })
            .collect();
        let touched = |pair: &QueuePair| {
            let peer = network.pair(pair.peer);
            rules.iter().any(|rule| {
                let Filter { from, to, queue_pair, .. } = rule.impairment.filter;
                from.is_none_or(|nic| nic == pair.nic)
                    && to.is_none_or(|nic| nic == peer.nic)
                    && queue_pair.is_none_or(|id| id == pair.id)
            })
        };
        let touched = network.pairs().iter().map(touched).collect();
        let marking =
            plan.fabric.marking.map(|marking| (marking, Stream::new(plan.seed, "queue marking", 0)));
        Self { rules, touched, marking }
    }

    /// Whether nothing is planned: then no question needs to be asked.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.rules.is_empty() && self.marking.is_none()
    }

    /// Whether anything may happen to what a queue pair sends, but for marks by queues; if not, its frames need no questions.
    #[must_use]
    pub fn touches(&self, sender: QueuePairId) -> bool {
        self.touched.get(sender.index()).copied().unwrap_or(false)
    }

    /// Whether frames may be delayed, so that [`super::Paths`] are to be kept.
    #[must_use]
    pub fn delays(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.impairment.harm, Harm::Delay(_)))
    }

    /// Whether queues mark frames, so that what waits in them is to be counted.
    #[must_use]
    pub const fn marks_by_queue(&self) -> bool {
        self.marking.is_some()
    }

    /// What happens to a frame on its way. Delays add up.
    #[must_use]
    pub fn fate(&self, frame: &FrameId) -> Fate {
        let mut fate = Fate::default();
        for rule in self.rules.iter().filter(|rule| rule.impairment.harm != Harm::NotReady) {
            if rule.means(frame) {
                match rule.impairment.harm {
                    Harm::Loss => fate.lost = true,
                    Harm::Mark => fate.marked = true,
                    Harm::Delay(delay) => fate.delay = Nanos(fate.delay.0.saturating_add(delay.0)),
                    Harm::NotReady => {}
                }
            }
        }
        fate
    }

    /// Whether the receiver has no receive for a message at this attempt, from one. `frame` is the one that needs it: the last
    /// of a write with immediate, the first of a send.
    #[must_use]
    pub fn not_ready(&self, frame: &FrameId, attempt: u32) -> bool {
        let message = FrameId { index: 0, transmission: attempt, ..*frame };
        let rules = self.rules.iter().filter(|rule| rule.impairment.harm == Harm::NotReady);
        frame.kind == FrameKind::Data && rules.into_iter().any(|rule| rule.means(&message))
    }

    /// Whether a switch marks a frame that finds so much waiting before the port of its receiver.
    #[must_use]
    pub fn marked_in_queue(&self, frame: &FrameId, waiting: Bytes) -> bool {
        let chance = |(marking, draws): (Marking, Stream)| marking.chance(waiting).has(draw(draws, frame));
        self.marking.is_some_and(chance)
    }
}

impl Rule {
    fn means(&self, frame: &FrameId) -> bool {
        let Impairment { choice, filter, .. } = &self.impairment;
        passes(filter, frame)
            && match *choice {
                Choice::Rate(rate) => rate.has(draw(self.draws, frame)),
                Choice::Burst { start, frames } => in_burst(self.draws, frame, start, frames),
                Choice::Named { message, frames, occurrences } => {
                    let number = u32::try_from(frame.index + 1).unwrap_or(u32::MAX);
                    frame.sequence == message
                        && frames.is_none_or(|run| run.has(number))
                        && occurrences.has(frame.transmission)
                }
            }
    }
}

impl Marking {
    /// The chance that a frame is marked which finds so much waiting: none up to `kmin`, from there in a straight line to
    /// `pmax` at `kmax`, always beyond (the paper's figure 5, as switches have it).
    #[must_use]
    pub fn chance(self, waiting: Bytes) -> Chance {
        if waiting <= self.kmin {
            return Chance::default();
        }
        if waiting > self.kmax {
            return Chance::ALWAYS;
        }
        let (above, width) = (waiting.0 - self.kmin.0, self.kmax.0 - self.kmin.0);
        let billionths = u128::from(self.pmax.billionths()) * u128::from(above) / u128::from(width);
        u32::try_from(billionths).ok().and_then(Chance::new).unwrap_or(Chance::ALWAYS)
    }
}

fn passes(filter: &Filter, frame: &FrameId) -> bool {
    let kind = match filter.frames {
        Frames::Data => frame.kind == FrameKind::Data,
        Frames::Acknowledgements => frame.kind == FrameKind::Acknowledgement,
        Frames::ClearToSend => frame.kind == FrameKind::ClearToSend,
        Frames::Notifications => frame.kind == FrameKind::Notification,
        Frames::All => true,
    };
    kind && filter.from.is_none_or(|nic| nic == frame.from)
        && filter.to.is_none_or(|nic| nic == frame.to)
        && filter.queue_pair.is_none_or(|pair| pair == frame.sender)
        && filter.class.is_none_or(|class| class == frame.class)
        && filter.between.is_none_or(|[from, to]| (from..to).contains(&frame.sent))
}

/// A draw among [`Chance::PARTS`], by what the frame is.
fn draw(draws: Stream, frame: &FrameId) -> u64 {
    let message = u64::from(frame.sequence) << 32 ^ frame.index;
    of_sender(draws, frame, message).below(Chance::PARTS.into(), frame.transmission.into())
}

/// Whether a frame lies in a burst: frames in a row of one kind and one queue pair, all of the same transmission.
///
/// Bursts are drawn block by block, blocks being as long as bursts: at most one begins in a block, with the chance of as many
/// single frames, anywhere in it. So a frame needs two blocks looked at, however long bursts are.
fn in_burst(draws: Stream, frame: &FrameId, start: Chance, length: u32) -> bool {
    let length = u64::from(length);
    let (block, place) = (frame.place / length, frame.place % length);
    let begins = |block: u64| {
        let draws = of_sender(draws, frame, block);
        let transmission = u64::from(frame.transmission) << 1;
        let any = draws.below(Chance::PARTS.into(), transmission) < u64::from(start.billionths()) * length;
        any.then(|| draws.below(length, transmission | 1))
    };
    begins(block).is_some_and(|first| first <= place)
        || block.checked_sub(1).and_then(begins).is_some_and(|first| first > place)
}

/// The draws of one object of one kind of one queue pair.
fn of_sender(draws: Stream, frame: &FrameId, object: u64) -> Stream {
    Stream::new(draws.draw(u64::from(frame.sender.0) << 2 | frame.kind.number()), "", object)
}

#[cfg(test)]
mod tests;
