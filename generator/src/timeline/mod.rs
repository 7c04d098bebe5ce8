//! When everything happens: an event simulation of the nodes of all ranks and of the NICs that carry their messages.
//!
//! Time is whole nanoseconds; events at one instant run in the order in which they were made. The network:
//! - a NIC sends frames back to back at line rate, in turns of up to `fabric.quantum` frames of one message, round robin over
//!   the queue pairs that have something to send; acknowledgements go first between turns;
//! - a turn arrives `fabric.latency` later at the receiver's port, which takes turns in the order in which their first frames
//!   arrive, at its line rate, out of a queue without bound. So frames of two senders meet a port turn by turn, not frame by
//!   frame;
//! - the receiver acknowledges each frame that asks for it, one to two microseconds after its end;
//! - a receive that begins clears its sender to send, by a write of its own; a message goes when its send has begun and it is
//!   cleared;
//! - a receive is complete when the last frame of its message has arrived whole, a send when that frame's acknowledgement has;
//! - what the plan's impairments do to frames has the consequences that a reliable connection gives it: NAK and go-back-N, a
//!   time-out, a wait for memory, notifications of congestion and a sender that slows down.
//!
//! What comes out is a stream of [`Burst`]s per NIC and direction, in order of time, and of the nodes of each host, in order of
//! ids, through a [`Sink`]. Memory follows what is under way: each rank becomes nodes only so far ahead.

pub mod handshake;
mod burst;
mod host;
mod inbox;
mod requester;
mod responder;
mod port;
mod event;
mod line;
mod arrival;
mod work;
mod setup;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use thiserror::Error;
use traces::graph::Node;
use traces::id::{HostId, NicId, NodeId, QueuePairId, Rank};
use traces::unit::Nanos;
use traces::wire::segment::Encapsulation;

pub use burst::{Burst, Carried, Clearance, Content, Direction, Purpose};

use crate::connection::{Network, encapsulation};
use crate::fabric::{Paths, Trouble};
use crate::placement::Placement;
use crate::plan::Plan;
use crate::program::{Advance, Program};
use event::{Event, Timed};
use host::Host;
use inbox::Inbox;
use port::Port;
use requester::Requester;
use responder::Responder;

/// Where bursts and nodes go.
pub trait Sink {
    /// Why they can not go there.
    type Error;

    /// Takes the next burst of a NIC in its direction.
    ///
    /// # Errors
    /// What the sink says.
    fn burst(&mut self, nic: NicId, burst: Burst) -> Result<(), Self::Error>;

    /// Takes the next node of a host, with its planned times.
    ///
    /// # Errors
    /// What the sink says.
    fn node(&mut self, host: HostId, node: &Node) -> Result<(), Self::Error>;

    /// Learns that no burst starts before `now` any more.
    ///
    /// # Errors
    /// What the sink says.
    fn reached(&mut self, now: Nanos) -> Result<(), Self::Error>;
}

/// Why a timeline ends early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TimelineError<E> {
    /// Bursts or nodes can not be passed on.
    #[error(transparent)]
    Sink(E),
    /// Ranks wait for each other.
    #[error("{waiting} nodes wait for each other at {now}; the first is node {} of {host}", node.0)]
    Stuck {
        /// How many do not end.
        waiting: u64,
        /// When.
        now: Nanos,
        /// The host of the first.
        host: HostId,
        /// The first.
        node: NodeId,
    },
    /// A queue pair gives up, as it does on a wire: the training would end here.
    #[error(
        "{sender} of {} gives up at {now}: frame {psn} was sent {} times and never acknowledged; a training ends here: \
         fewer impairments, or a larger transport.retry_count",
        nic, u32::from(*retries) + 1
    )]
    GaveUp {
        /// Which.
        sender: QueuePairId,
        /// The name of its NIC.
        nic: String,
        /// When.
        now: Nanos,
        /// The frame that it gives up on.
        psn: traces::wire::Psn,
        /// Time-outs before.
        retries: u8,
    },
}

/// What a timeline came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// When the last event was.
    pub duration: Nanos,
    /// When each step ended, on the rank that ended it last.
    pub step_ends: Vec<Nanos>,
}

/// The simulation.
#[derive(Debug)]
pub struct Timeline<'a> {
    plan: &'a Plan,
    placement: &'a Placement,
    network: &'a Network,
    program: Program<'a>,
    encapsulation: Encapsulation,
    now: Nanos,
    events: BinaryHeap<Reverse<Timed>>,
    /// Events made so far.
    made: u64,
    hosts: Vec<Host>,
    ports: Vec<Port>,
    /// By queue pair that sends: both sides of what it sends, and what of its messages is at the other end.
    requesters: Vec<Requester>,
    responders: Vec<Responder>,
    inboxes: Vec<Inbox>,
    /// By connection: messages that its sender is cleared to send.
    cleared: Vec<u32>,
    trouble: Trouble,
    /// The order of frames on each path, while some are delayed.
    paths: Paths,
    /// A list that is used again and again.
    acknowledged: Vec<NodeId>,
    setup: setup::State,
    ranks: Vec<RankState>,
    /// Ranks that may become more nodes.
    hungry: VecDeque<Rank>,
    /// Nodes that are complete now.
    complete: VecDeque<(HostId, NodeId)>,
    /// Nodes each rank may be ahead.
    ahead: u32,
    summary: Summary,
    fresh: Vec<(HostId, Node)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RankState {
    unfinished: u32,
    queued: bool,
}

impl<'a> Timeline<'a> {
    /// The timeline at its beginning, of `steps` training steps.
    #[must_use]
    pub fn new(plan: &'a Plan, placement: &'a Placement, network: &'a Network, steps: u32) -> Self {
        let ranks = plan.ranks();
        Self {
            plan,
            placement,
            network,
            program: Program::new(plan, placement, network, steps),
            encapsulation: encapsulation(plan),
            now: Nanos::ZERO,
            events: BinaryHeap::new(),
            made: 0,
            hosts: (0..plan.cluster.hosts).map(|_| Host::default()).collect(),
            ports: (0..plan.nics()).map(|nic| Port::new(plan.seed, NicId(nic))).collect(),
            requesters: network.pairs().iter().map(|pair| Requester::new(pair.first_psn)).collect(),
            responders: vec![Responder::default(); network.pairs().len()],
            inboxes: network.pairs().iter().map(|_| Inbox::default()).collect(),
            cleared: vec![0; network.connections()],
            trouble: Trouble::new(plan, network),
            paths: Paths::default(),
            acknowledged: Vec::new(),
            setup: setup::State::default(),
            ranks: placement.ranks().map(|_| RankState { unfinished: 0, queued: true }).collect(),
            hungry: placement.ranks().collect(),
            complete: VecDeque::new(),
            ahead: (AHEAD_OF_ALL / ranks.max(1)).clamp(LEAST_AHEAD, MOST_AHEAD),
            summary: Summary { duration: Nanos::ZERO, step_ends: vec![Nanos::ZERO; Rank(steps).index()] },
            fresh: Vec::new(),
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// [`TimelineError::Sink`] as soon as the sink refuses something.
    pub fn run<S: Sink>(mut self, sink: &mut S) -> Result<Summary, TimelineError<S::Error>> {
        self.introduce();
        loop {
            self.settle(sink)?;
            if let Some(Reverse(Timed { at, event, .. })) = self.events.pop() {
                // Looking after a frame is no event of the trace, unless it is given up.
                if matches!(event, Event::Watch(sender) if !self.expires(sender, at)) {
                    continue;
                }
                if at > self.now {
                    self.now = at;
                    sink.reached(at).map_err(TimelineError::Sink)?;
                }
                self.happen(event, sink)?;
            } else if !self.force() && !self.part() {
                break;
            }
        }
        if let Some((host, node)) = self.first_waiting() {
            let waiting = self.ranks.iter().map(|rank| u64::from(rank.unfinished)).sum();
            return Err(TimelineError::Stuck { waiting, now: self.now, host, node });
        }
        self.summary.duration = self.now;
        sink.reached(Nanos(u64::MAX)).map_err(TimelineError::Sink)?;
        Ok(self.summary)
    }

    /// Completes nodes and makes new ones until neither is possible at this instant.
    fn settle<S: Sink>(&mut self, sink: &mut S) -> Result<(), TimelineError<S::Error>> {
        while self.setup.has_begun() {
            if let Some((host, node)) = self.complete.pop_front() {
                self.finish(host, node, sink)?;
            } else if let Some(rank) = self.hungry.pop_front() {
                self.ranks[rank.index()].queued = false;
                self.expand(rank);
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Makes a rank's next nodes, as far ahead as it may be.
    fn expand(&mut self, rank: Rank) {
        let host = self.placement.seat(rank).host;
        let most =
            LATE_HOST * usize::try_from(self.ahead * self.plan.cluster.gpus_per_host).unwrap_or(usize::MAX);
        while self.ranks[rank.index()].unfinished < self.ahead && self.hosts[host.index()].held() < most {
            if self.advance(rank) != Advance::Done {
                return;
            }
        }
    }

    fn advance(&mut self, rank: Rank) -> Advance {
        let mut fresh = std::mem::take(&mut self.fresh);
        let advance = self.program.advance(rank, &mut fresh);
        for (host, node) in fresh.drain(..) {
            self.ranks[node.rank.index()].unfinished += 1;
            let id = node.id;
            if self.hosts[host.index()].add(node) {
                self.begin(host, id);
            }
        }
        self.fresh = fresh;
        let woken: Vec<_> = self.program.woken().collect();
        for rank in woken {
            self.wake(rank);
        }
        advance
    }

    /// When nothing is left to happen, but there may be work: one more item of each rank, however far ahead it is.
    fn force(&mut self) -> bool {
        let ranks: Vec<_> = self.placement.ranks().collect();
        ranks.into_iter().fold(false, |moved, rank| (self.advance(rank) == Advance::Done) | moved)
    }

    fn wake(&mut self, rank: Rank) {
        let state = &mut self.ranks[rank.index()];
        if !state.queued {
            state.queued = true;
            self.hungry.push_back(rank);
        }
    }

    fn happen<S: Sink>(&mut self, event: Event, sink: &mut S) -> Result<(), TimelineError<S::Error>> {
        match event {
            Event::Complete(host, node) => self.complete.push_back((host, node)),
            Event::Whole(sender, sequence) => self.whole(sender, sequence),
            Event::Answered(sender, syndrome, psn) => self.answered(sender, syndrome, psn),
            Event::Notified(sender) => self.notified(sender),
            Event::Say(sender, content) => self.say(sender, content),
            Event::Serve(nic) => return self.serve(nic, sink),
            Event::Arrive(nic) => return self.arrive(nic, sink),
            Event::Resume(sender) => {
                self.requesters[sender.index()].resumes = false;
                self.activate(sender);
            }
            Event::Watch(sender) => return self.give_up(sender),
            Event::Heard(sender, step) => self.heard(sender, step),
            Event::Begin => self.setup.begin(),
        }
        Ok(())
    }

    /// A frame has been out for too long: it is sent again, or the queue pair gives up.
    fn give_up<E>(&mut self, sender: QueuePairId) -> Result<(), TimelineError<E>> {
        if self.time_out(sender) {
            return Ok(());
        }
        Err(TimelineError::GaveUp {
            sender,
            nic: self.network.nic(self.network.pair(sender).nic).name.clone(),
            now: self.now,
            psn: self.requesters[sender.index()].oldest_psn(),
            retries: self.plan.transport.retry_count,
        })
    }

    fn at(&mut self, time: Nanos, event: Event) {
        self.events.push(Reverse(Timed { at: time, made: self.made, event }));
        self.made += 1;
    }

    fn first_waiting(&self) -> Option<(HostId, NodeId)> {
        (0_u32..).map(HostId).zip(&self.hosts).find_map(|(id, host)| host.first().map(|node| (id, node)))
    }
}

/// Nodes that all ranks together may be ahead, and each of them.
const AHEAD_OF_ALL: u32 = 1 << 16;
const LEAST_AHEAD: u32 = 512;
const MOST_AHEAD: u32 = 4096;

/// A host holds so many times its ranks' nodes, done ones included, before it waits for its slowest.
const LATE_HOST: usize = 4;
