//! Nodes that begin and end: what a send, a receive and a message that has arrived mean to queue pairs.

use traces::graph::{Message, Task, Work};
use traces::id::{HostId, NodeId, QueuePairId, Rank};
use traces::unit::Nanos;

use super::burst::{Carried, Clearance, Purpose};
use super::event::Event;
use super::requester::Request;
use super::{Sink, Timeline, TimelineError};
use crate::carriage;
use crate::plan::Plan;

impl Timeline<'_> {
    /// All that a node waits for is complete.
    pub(super) fn begin(&mut self, host: HostId, id: NodeId) {
        let now = self.now;
        let Some(node) = self.hosts[host.index()].node(id) else { return };
        node.planned_start = now;
        match node.work {
            Work::Compute { duration, .. } | Work::Local { duration, .. } if duration > Nanos::ZERO => {
                self.at(now + duration, Event::Complete(host, id));
            }
            Work::Compute { .. } | Work::Local { .. } | Work::Join { .. } => {
                self.complete.push_back((host, id))
            }
            Work::Send(message) => {
                let request = self.request(id, &message);
                self.requesters[message.id.sender.index()].stage(request);
                self.activate(message.id.sender);
            }
            Work::Receive(message) => {
                let inbox = &mut self.inboxes[message.id.sender.index()];
                let arriving = inbox.arriving(message.id.sequence);
                arriving.node = Some(id);
                let (first, whole) = (arriving.first, arriving.whole);
                inbox.forget();
                if let Some(node) = self.hosts[host.index()].node(id) {
                    node.planned_start = first.unwrap_or(now);
                }
                if whole {
                    self.complete.push_back((host, id));
                }
                self.clear(&message);
            }
        }
    }

    /// A send as its queue pair's request.
    fn request(&self, node: NodeId, message: &Message) -> Request {
        let Plan { transport, collectives, .. } = self.plan;
        let pair = self.network.pair(message.id.sender);
        let carried = Carried {
            sequence: message.id.sequence,
            segments: carriage::message(transport, message),
            offset: message.offset.0,
            address: message.address,
            remote_key: self.network.pair(message.receiver).remote_key,
            purpose: Purpose::Data { whole: message.immediate.unwrap_or_default() },
            origin: message.origin,
        };
        let number = carriage::number(collectives, pair, message.id.sequence);
        Request { node: Some(node), cleared_by: transport.cts.then_some(number), carried }
    }

    /// A receive has begun, so its sender is cleared to send: by a write on the connection's first queue pair.
    fn clear(&mut self, message: &Message) {
        let Plan { transport, collectives, .. } = self.plan;
        let receiver = *self.network.pair(message.receiver);
        if !transport.cts || (collectives.split && receiver.lane > 0) {
            return;
        }
        let number = carriage::number(collectives, &receiver, message.id.sequence);
        let sender = self.network.pair(self.network.sender(receiver.connection, 0));
        let clearing = self.network.pair(sender.peer);
        let carried = Carried {
            sequence: number,
            segments: carriage::clearance(transport, number, clearing.first_psn + number),
            offset: 0,
            address: sender.clearance_address(number),
            remote_key: sender.remote_key,
            purpose: Purpose::Clearance(Clearance {
                address: receiver.slot_address(number),
                remote_key: receiver.remote_key,
                room: receiver.slot,
                number,
            }),
            origin: message.origin,
        };
        let id = clearing.id;
        self.requesters[id.index()].stage(Request { node: None, cleared_by: None, carried });
        self.activate(id);
    }

    /// A node is complete: what waited for it may begin, and what can be written is.
    pub(super) fn finish<S: Sink>(
        &mut self,
        host: HostId,
        id: NodeId,
        sink: &mut S,
    ) -> Result<(), TimelineError<S::Error>> {
        let now = self.now;
        let Some(node) = self.hosts[host.index()].node(id) else { return Ok(()) };
        node.planned_end = now;
        let rank = node.rank;
        if let Work::Compute { purpose, .. } = node.work
            && purpose.task == Task::StepEnd
            && let Some(end) = self.summary.step_ends.get_mut(Rank(purpose.step).index())
        {
            *end = now.max(*end);
        }
        for begun in self.hosts[host.index()].finish(id) {
            self.begin(host, begun);
        }
        self.ranks[rank.index()].unfinished -= 1;
        let before = self.hosts[host.index()].held();
        while let Some(node) = self.hosts[host.index()].pop() {
            sink.node(host, &node).map_err(TimelineError::Sink)?;
        }
        self.wake(rank);
        if self.hosts[host.index()].held() < before {
            let gpus = self.plan.cluster.gpus_per_host;
            for rank in host.0 * gpus..(host.0 + 1) * gpus {
                if self.ranks[Rank(rank).index()].unfinished < self.ahead {
                    self.wake(Rank(rank));
                }
            }
        }
        Ok(())
    }

    /// A message has arrived whole.
    pub(super) fn whole(&mut self, sender: QueuePairId, sequence: u32) {
        let pair = *self.network.pair(sender);
        if !pair.sends_data {
            self.cleared[pair.connection.index()] = sequence.wrapping_add(1);
            for lane in 0..self.network.width() {
                self.activate(self.network.sender(pair.connection, lane));
            }
            return;
        }
        let inbox = &mut self.inboxes[sender.index()];
        let arriving = inbox.arriving(sequence);
        arriving.whole = true;
        let node = arriving.node;
        inbox.forget();
        if let Some(node) = node {
            self.complete.push_back((self.host_of(pair.peer), node));
        }
    }
}
