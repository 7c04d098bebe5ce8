//! Whose turn it is: queue pairs with something to send, served round robin.

use std::collections::VecDeque;

/// A queue in which each member stands at most once.
#[derive(Debug)]
pub(super) struct Turns {
    queue: VecDeque<usize>,
    waiting: Vec<bool>,
}

impl Turns {
    pub(super) fn new(members: usize) -> Self {
        Self { queue: VecDeque::with_capacity(members), waiting: vec![false; members] }
    }

    /// Puts a member at the end, unless it waits already.
    pub(super) fn join(&mut self, member: usize) {
        if !std::mem::replace(&mut self.waiting[member], true) {
            self.queue.push_back(member);
        }
    }

    /// The member whose turn it is.
    pub(super) fn first(&self) -> Option<usize> {
        self.queue.front().copied()
    }

    /// Takes the first one out.
    pub(super) fn leave(&mut self) {
        if let Some(member) = self.queue.pop_front() {
            self.waiting[member] = false;
        }
    }

    /// Takes all out.
    pub(super) fn clear(&mut self) {
        while !self.queue.is_empty() {
            self.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_stands_once_and_comes_back_at_the_end() {
        let mut turns = Turns::new(3);
        for member in [2, 0, 2] {
            turns.join(member);
        }
        assert_eq!(turns.first(), Some(2));
        turns.leave();
        turns.join(2);
        let mut order = Vec::new();
        while let Some(member) = turns.first() {
            order.push(member);
            turns.leave();
        }
        assert_eq!(order, [0, 2]);
    }
}
