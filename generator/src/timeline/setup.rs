//! The set-up of all connections by RDMA-CM before the training, and their end behind it, if the plan wants them.

use traces::id::{NicId, QueuePairId};
use traces::unit::Nanos;

use super::Timeline;
use super::burst::Content;
use super::event::Event;
use super::handshake::{self, Handshake, LINGER, SETTLED, Step};
use crate::plan::Setup;
use crate::random::Stream;

/// How far set-up and end are.
#[derive(Debug, Default)]
pub(super) struct State {
    begun: bool,
    /// Handshakes that are not over.
    open: usize,
    parted: bool,
}

impl State {
    /// Whether the training has begun.
    pub(super) const fn has_begun(&self) -> bool {
        self.begun
    }

    pub(super) const fn begin(&mut self) {
        self.begun = true;
    }
}

impl Timeline<'_> {
    /// Connections are set up first, or have been.
    pub(super) fn introduce(&mut self) {
        if self.plan.transport.setup == Setup::None {
            self.setup.begin();
            return;
        }
        self.all_say(Step::Request, Nanos::ZERO);
        if self.setup.open == 0 {
            self.setup.begin();
        }
    }

    /// Connections are ended, if they were set up and have not been ended yet. False if there is nothing to do.
    pub(super) fn part(&mut self) -> bool {
        let parts = self.plan.transport.setup == Setup::Cm && !self.setup.parted;
        if parts {
            self.setup.parted = true;
            self.all_say(Step::Disconnect, self.now + LINGER);
        }
        parts && self.setup.open > 0
    }

    /// Every queue pair that sends data begins a handshake, one after another.
    fn all_say(&mut self, step: Step, from: Nanos) {
        let pairs = self.network.pairs().iter().filter(|pair| pair.sends_data).map(|pair| pair.id);
        for (index, pair) in (0_u64..).zip(pairs) {
            self.setup.open += 1;
            let handshake = Handshake { step, psn: 0 };
            self.at(from + handshake::begins(index), Event::Say(pair, Content::Handshake(handshake)));
        }
    }

    /// A message of a handshake has arrived: it is answered, or ends the handshake.
    pub(super) fn heard(&mut self, receiver: QueuePairId, step: Step) {
        if let Some((next, after)) = step.next() {
            let answer = Content::Handshake(Handshake { step: next, psn: 0 });
            self.at(self.now + after, Event::Say(receiver, answer));
            return;
        }
        self.setup.open -= 1;
        if self.setup.open == 0 && !self.setup.begun {
            self.at(self.now + SETTLED, Event::Begin);
        }
    }

    /// The number of the next datagram of a port's queue pair 1: it has sent some before the trace.
    pub(super) fn datagram(&mut self, nic: NicId) -> u32 {
        let sent = &mut self.ports[nic.index()].datagrams;
        *sent += 1;
        let before = Stream::new(self.plan.seed, "datagrams", nic.0.into()).below(128, 0);
        u32::try_from(before).unwrap_or(0) + *sent
    }
}
