//! A network of engines under a virtual clock: links with delay, rate, loss, duplication and reordering, by a seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use traces::unit::Nanos;

use super::super::{Engine, Next};

/// What the network does to frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// From the last bit sent to the arrival.
    pub(super) delay: u64,
    /// Nanoseconds that a byte takes.
    pub(super) per_byte: u64,
    /// Frames in a thousand that are lost.
    pub(super) lost: u64,
    /// Frames in a thousand that arrive twice.
    pub(super) doubled: u64,
    /// Frames in a thousand that are held back, by up to this many nanoseconds.
    pub(super) held: u64,
    /// The most that a frame is held back.
    pub(super) hold: u64,
}

/// Engines and what is between them. Host `h` is reached by what is sent on its peers' flows.
pub(super) struct Network {
    pub(super) engines: Vec<Engine>,
    /// Where each flow of each host leads: a host.
    pub(super) routes: Vec<Vec<usize>>,
    pub(super) link: Link,
    pub(super) now: u64,
    /// A host that neither sends nor receives from this instant on.
    pub(super) dead: Option<(usize, u64)>,
    /// A host whose thread sleeps through this stretch of time.
    pub(super) stall: Option<(usize, u64, u64)>,
    pub(super) counts: Counts,
    random: u64,
    order: u64,
    /// When each host's line is free.
    free: Vec<u64>,
    under_way: BinaryHeap<Reverse<Flight>>,
    done: Vec<bool>,
}

/// When a frame arrives, its order among equals, where, and its bytes.
type Flight = (u64, u64, usize, Vec<u8>);

/// What the network did to data frames that carry a stamp, and to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) stamped_lost: u64,
    pub(super) stamped_doubled: u64,
    pub(super) frames: u64,
}

impl Link {
    pub(super) const PERFECT: Self =
        Self { delay: 2_000, per_byte: 1, lost: 0, doubled: 0, held: 0, hold: 0 };
}

impl Network {
    pub(super) fn new(engines: Vec<Engine>, routes: Vec<Vec<usize>>, link: Link, seed: u64) -> Self {
        let hosts = engines.len();
        Self {
            engines,
            routes,
            link,
            now: 0,
            dead: None,
            stall: None,
            counts: Counts::default(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            order: 0,
            free: vec![0; hosts],
            under_way: BinaryHeap::new(),
            done: vec![false; hosts],
        }
    }

    /// Runs until all hosts are done or dead; returns when. Panics if that takes more than `limit`.
    pub(super) fn run(&mut self, limit: u64) -> Nanos {
        let mut buffer = vec![0; 65_536];
        loop {
            let mut next = u64::MAX;
            for host in 0..self.engines.len() {
                next = next.min(self.turn(host, &mut buffer));
            }
            let everyone = (0..self.engines.len()).all(|host| self.done[host] || self.is_dead(host));
            if everyone {
                return Nanos(self.now);
            }
            if let Some(Reverse((at, ..))) = self.under_way.peek() {
                next = next.min(*at);
            }
            assert!(next > self.now, "time stands still at {}", self.now);
            assert!(next <= limit, "it hangs: nothing happens from {} to {next}", self.now);
            self.now = next;
            self.arrive();
        }
    }

    /// Lets all hosts act, and time pass.
    pub(super) fn step(&mut self, time: u64) {
        let mut buffer = vec![0; 65_536];
        for host in 0..self.engines.len() {
            self.turn(host, &mut buffer);
        }
        self.now += time;
        self.arrive();
    }

    fn turn(&mut self, host: usize, buffer: &mut [u8]) -> u64 {
        if self.done[host] || self.is_dead(host) {
            return u64::MAX;
        }
        if let Some((_, _, until)) = self.asleep(host) {
            return until;
        }
        loop {
            match self.engines[host].poll(Nanos(self.now), buffer) {
                Next::Wait(until) => return until.0,
                Next::Done => {
                    self.done[host] = true;
                    return u64::MAX;
                }
                Next::Send(burst) => {
                    let to = self.routes[host][burst.flow];
                    let frames: Vec<_> =
                        buffer[..burst.bytes].chunks(burst.frame_bytes).map(<[u8]>::to_vec).collect();
                    assert_eq!(frames.len(), burst.frames);
                    for frame in frames {
                        self.carry(host, to, frame);
                    }
                }
            }
        }
    }

    fn carry(&mut self, from: usize, to: usize, frame: Vec<u8>) {
        let bytes = u64::try_from(frame.len()).unwrap();
        let stamped = u64::from(frame[0] < 0x0c && frame.len() >= 12 + 32 + 4);
        self.counts.frames += 1;
        self.free[from] = self.free[from].max(self.now) + bytes * self.link.per_byte;
        if self.per_mille() < self.link.lost {
            self.counts.stamped_lost += stamped;
            return;
        }
        let copies = if self.per_mille() < self.link.doubled { 2 } else { 1 };
        self.counts.stamped_doubled += stamped * (copies - 1);
        for _ in 0..copies {
            let held =
                if self.per_mille() < self.link.held { self.next_random() % self.link.hold } else { 0 };
            let at = self.free[from] + self.link.delay + held;
            self.order += 1;
            self.under_way.push(Reverse((at, self.order, to, frame.clone())));
        }
    }

    fn arrive(&mut self) {
        let mut delayed = Vec::new();
        while self.under_way.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
            let Some(Reverse((at, order, to, frame))) = self.under_way.pop() else { break };
            if let Some((_, _, until)) = self.asleep(to) {
                delayed.push(Reverse((until.max(at), order, to, frame)));
            } else if !self.is_dead(to) && !self.done[to] {
                self.engines[to].on_arrival(Nanos(self.now), 0, &frame, 0);
            }
        }
        self.under_way.extend(delayed);
    }

    fn asleep(&self, host: usize) -> Option<(usize, u64, u64)> {
        self.stall.filter(|&(stalled, from, until)| stalled == host && (from..until).contains(&self.now))
    }

    fn is_dead(&self, host: usize) -> bool {
        self.dead.is_some_and(|(dead, from)| dead == host && self.now >= from)
    }

    fn per_mille(&mut self) -> u64 {
        self.next_random() % 1_000
    }

    /// xorshift64* (Vigna 2016).
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }
}
