//! The requesting side of a queue pair: what it has to send, how far it is, and where it goes back to.
//!
//! Frames are counted from the queue pair's first one, so that numbers never wrap; the sequence number of a frame is the
//! first one plus its count. Messages are kept until they are acknowledged, for they may have to be sent again: go-back-N, as
//! reliable connections do.

use std::collections::{BTreeMap, VecDeque};

use traces::id::NodeId;
use traces::unit::Nanos;
use traces::wire::Psn;

use super::burst::Carried;
use crate::fabric::ReactionPoint;

/// The requesting side of a queue pair.
#[derive(Debug)]
pub(super) struct Requester {
    first_psn: Psn,
    /// Messages that may go, but come behind others.
    staged: BTreeMap<u32, Request>,
    /// Messages in order that are not acknowledged; the first has the number `oldest`.
    queue: VecDeque<Queued>,
    oldest: u32,
    /// All frames before this one are acknowledged.
    acknowledged: u64,
    /// The frame that goes next, and the one behind the last of the queue.
    cursor: u64,
    end: u64,
    /// Stretches that were sent before and were gone back over, the latest last.
    passes: Vec<(u64, u64)>,
    /// Where the present one began.
    pass_start: u64,
    /// Whether its NIC has it in its round.
    pub(super) active: bool,
    /// Nothing is sent before.
    pub(super) held_until: Nanos,
    /// Whether an event will take it back into the round.
    pub(super) resumes: bool,
    /// When the oldest frame is given up, if one is out; and whether an event will look.
    pub(super) deadline: Option<Nanos>,
    pub(super) watched: bool,
    /// Time-outs since something was acknowledged.
    pub(super) retries: u8,
    /// The limit of its rate, while there is one.
    pub(super) reaction: Option<Box<ReactionPoint>>,
}

/// A message to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The node that is complete when it is acknowledged; clear-to-send writes have none.
    pub(super) node: Option<NodeId>,
    /// The clearance that it waits for: the connection's so manieth message.
    pub(super) cleared_by: Option<u32>,
    /// The message.
    pub(super) carried: Carried,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    request: Request,
    /// Its frames.
    start: u64,
    end: u64,
}

/// The frames that may go next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) request: Request,
    /// The first, within the message.
    pub(super) first: u64,
    /// How many of it are left.
    pub(super) left: u64,
}

impl Requester {
    /// Nothing to send yet.
    pub(super) fn new(first_psn: Psn) -> Self {
        Self {
            first_psn,
            staged: BTreeMap::new(),
            queue: VecDeque::new(),
            oldest: 0,
            acknowledged: 0,
            cursor: 0,
            end: 0,
            passes: Vec::new(),
            pass_start: 0,
            active: false,
            held_until: Nanos::ZERO,
            resumes: false,
            deadline: None,
            watched: false,
            retries: 0,
            reaction: None,
        }
    }

    /// A message may go, behind those of smaller numbers.
    pub(super) fn stage(&mut self, request: Request) {
        self.staged.insert(request.carried.sequence, request);
        while let Some(request) = self.staged.remove(&self.next()) {
            let (start, end) = (self.end, self.end + request.carried.segments.frames());
            self.queue.push_back(Queued { request, start, end });
            self.end = end;
        }
    }

    /// The number of the message behind the last of the queue.
    fn next(&self) -> u32 {
        // As many messages as numbers: their difference fits.
        self.oldest.wrapping_add(u32::try_from(self.queue.len()).unwrap_or(u32::MAX))
    }

    /// The frames that come next; `cleared` says how many messages of the connection may go.
    pub(super) fn due(&self, cleared: u32) -> Option<Due> {
        let place = self.queue.partition_point(|queued| queued.end <= self.cursor);
        let &Queued { request, start, end } = self.queue.get(place)?;
        let waits = request.cleared_by.is_some_and(|number| number.wrapping_sub(cleared) < 1 << 31);
        (!waits).then_some(Due { request, first: self.cursor - start, left: end - self.cursor })
    }

    /// Frames were sent.
    pub(super) fn advance(&mut self, frames: u64) {
        self.cursor += frames;
    }

    /// How often a frame has been sent, the present time included.
    pub(super) fn transmission(&self, frame: u64) -> u32 {
        let before = self.passes.iter().filter(|(start, end)| (*start..*end).contains(&frame)).count();
        u32::try_from(before).unwrap_or(u32::MAX - 1) + 1
    }

    /// All frames before this one are acknowledged; gives the nodes of the messages that now are, and whether that is news.
    pub(super) fn acknowledge(&mut self, before: u64, done: &mut Vec<NodeId>) -> bool {
        let before = before.min(self.end);
        let news = before > self.acknowledged;
        if news {
            self.acknowledged = before;
            self.retries = 0;
            // What is acknowledged need not be sent, though it was gone back over.
            self.cursor = self.cursor.max(before);
            self.passes.retain(|&(_, end)| end > before);
        }
        while let Some(queued) = self.queue.pop_front_if(|queued| queued.end <= self.acknowledged) {
            done.extend(queued.request.node);
            self.oldest = self.oldest.wrapping_add(1);
        }
        news
    }

    /// Sends again from this frame on, or from the oldest that is not acknowledged.
    pub(super) fn go_back(&mut self, frame: Option<u64>) {
        let to = frame.unwrap_or(self.acknowledged).max(self.acknowledged);
        if to < self.cursor {
            self.passes.push((self.pass_start, self.cursor));
            self.cursor = to;
            self.pass_start = to;
        }
    }

    /// Whether frames are out that are not acknowledged.
    pub(super) fn is_waiting(&self) -> bool {
        self.cursor > self.acknowledged
    }

    /// The count of the frame of this sequence number, nearest to what is acknowledged.
    pub(super) fn count_of(&self, psn: Psn) -> u64 {
        let distance = self.psn(self.acknowledged).distance_to(psn);
        self.acknowledged.saturating_add_signed(distance.into())
    }

    /// How many of the frames that come next were sent before, in one go.
    pub(super) fn repeats(&self) -> u64 {
        self.passes.iter().map(|&(_, end)| end).max().unwrap_or(0).saturating_sub(self.cursor)
    }

    /// The sequence number of the oldest frame that is not acknowledged.
    pub(super) fn oldest_psn(&self) -> Psn {
        self.psn(self.acknowledged)
    }

    fn psn(&self, frame: u64) -> Psn {
        let [_, _, _, _, a, b, c, d] = frame.to_be_bytes();
        self.first_psn + u32::from_be_bytes([a, b, c, d])
    }
}

#[cfg(test)]
mod tests {
    use traces::id::GroupId;
    use traces::origin::{Class, Operation, Origin, Phase};
    use traces::unit::Bytes;
    use traces::wire::RemoteKey;
    use traces::wire::segment::{AckCadence, PathMtu, Segments, Verb};

    use super::super::burst::Purpose;
    use super::*;

    /// The `sequence`-th message, of `frames` frames.
    fn message(sequence: u32, frames: u64, cleared_by: Option<u32>) -> Request {
        let origin = Origin {
            step: 0,
            microbatch: None,
            layer: None,
            phase: Phase::Backward,
            class: Class::DpGradients,
            operation: Operation::AllReduce,
            group: GroupId(0),
            instance: 0,
            collective_step: 0,
            channel: 0,
            slice: 0,
        };
        let segments = Segments {
            verb: Verb::WriteImmediate,
            bytes: Bytes(frames * 256),
            path_mtu: PathMtu::Mtu256,
            first: Psn::ZERO,
            acks: AckCadence::default(),
            closing: None,
        };
        let purpose = Purpose::Data { whole: 0 };
        let carried =
            Carried { sequence, segments, offset: 0, address: 0, remote_key: RemoteKey(0), purpose, origin };
        Request { node: Some(NodeId(sequence.into())), cleared_by, carried }
    }

    fn due(requester: &Requester) -> Option<(u32, u64, u64)> {
        requester.due(u32::MAX >> 1).map(|due| (due.request.carried.sequence, due.first, due.left))
    }

    #[test]
    fn messages_go_in_order_and_are_kept_until_they_are_acknowledged() {
        let mut requester = Requester::new(Psn::wrapping(0xff_fffe));
        requester.stage(message(1, 3, None));
        assert_eq!(due(&requester), None, "message 0 is missing");
        requester.stage(message(0, 2, None));
        requester.advance(2);
        assert_eq!(due(&requester), Some((1, 0, 3)));
        requester.advance(1);
        let mut done = Vec::new();
        assert!(requester.acknowledge(requester.count_of(Psn::wrapping(0xff_ffff)) + 1, &mut done));
        assert_eq!((done, requester.count_of(Psn::ZERO)), (vec![NodeId(0)], 2));
        assert!(requester.is_waiting());
        assert!(!requester.acknowledge(1, &mut Vec::new()), "an old one is no news");
    }

    #[test]
    fn what_is_gone_back_over_is_sent_again_and_counted() {
        let mut requester = Requester::new(Psn::ZERO);
        requester.stage(message(0, 10, None));
        requester.advance(8);
        requester.go_back(Some(3));
        assert_eq!((due(&requester), requester.repeats()), (Some((0, 3, 7)), 5));
        assert_eq!([3, 7, 8].map(|frame| requester.transmission(frame)), [2, 2, 1]);
        requester.advance(2);
        requester.go_back(None);
        assert_eq!((due(&requester), requester.repeats()), (Some((0, 0, 10)), 8));
        assert_eq!([2, 3, 4, 5, 8].map(|frame| requester.transmission(frame)), [2, 3, 3, 2, 1]);
        requester.acknowledge(9, &mut Vec::new());
        assert_eq!((due(&requester), requester.repeats()), (Some((0, 9, 1)), 0));
    }

    #[test]
    fn a_message_waits_until_it_is_cleared() {
        let mut requester = Requester::new(Psn::ZERO);
        requester.stage(message(0, 1, Some(4)));
        assert!(requester.due(4).is_none());
        assert!(requester.due(5).is_some());
    }
}
