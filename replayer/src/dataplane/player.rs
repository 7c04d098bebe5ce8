//! The loop of a data-plane thread.

use std::io;
use std::sync::atomic::Ordering;

use traces::id::HostId;
use traces::unit::Nanos;

use super::feed::State;
use super::host::{Host, Input};
use super::{Shared, Standing, core};
use crate::clock::{self, Clock};
use crate::engine::Next;
use crate::net::{self, Backend as _, FlowId};
use crate::outcome::{End, HostOutcome};

/// Plays a host from `at` on, until its engine is done.
pub(super) fn play(mut host: Host, at: Nanos, shared: &Shared) -> Option<HostOutcome> {
    let _over = Over { shared, host: host.id() };
    // Neither is needed to play, only to be on time.
    let _ = clock::wake_on_time();
    let spins = host.threads < core::available();
    if spins {
        let _ = core::pin(host.id().index());
    }
    let mut player = Player {
        clock: Clock::since(at),
        standing: Standing::default(),
        buffer: vec![0; BUFFER_BYTES],
        fed_to_the_end: false,
        stopped: false,
        spins,
    };
    let answer = player.run(&mut host, at, shared);
    let fault = answer.err().map(|error| error.to_string());
    let now = player.clock.now();
    let outcome = host.engine.outcome(now).map(|mut outcome| {
        if let Some(what) = fault.clone() {
            outcome.end = End::Fault { what };
        }
        outcome
    });
    if let Some(why) = fault.or_else(|| host.engine.fault().map(ToString::to_string)) {
        shared.fail(format!("{}: {why}", host.id()));
    }
    player.publish(&mut host, shared);
    match outcome {
        Ok(outcome) => Some(outcome),
        Err(error) => {
            shared.fail(format!("{}: {error}", host.id()));
            None
        }
    }
}

/// Says that a host's thread has ended, however it ended.
struct Over<'a> {
    shared: &'a Shared,
    host: HostId,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.fail(format!("{}: its thread broke down", self.host));
        }
        self.shared.over.store(true, Ordering::Release);
    }
}

/// What the loop keeps.
struct Player {
    clock: Clock,
    standing: Standing,
    buffer: Vec<u8>,
    fed_to_the_end: bool,
    stopped: bool,
    spins: bool,
}

impl Player {
    fn run(&mut self, host: &mut Host, at: Nanos, shared: &Shared) -> io::Result<()> {
        self.feed(host)?;
        while self.clock.until(Nanos::ZERO) > Nanos::ZERO && !shared.stop.load(Ordering::Acquire) {
            let step = Clock::MONOTONIC.now().0 + STOP_LATENCY.0;
            Clock::MONOTONIC.sleep_until(Nanos(step.min(at.0)));
        }
        loop {
            if !self.stopped && shared.stop.load(Ordering::Acquire) {
                self.stopped = true;
                host.engine.stop(self.clock.now());
            }
            let received = self.receive(host)?;
            self.feed(host)?;
            for _ in 0..BURSTS {
                match host.engine.poll(self.clock.now(), &mut self.buffer) {
                    Next::Send(burst) => self.send(host, burst)?,
                    Next::Wait(until) => {
                        self.publish(host, shared);
                        if received == 0 {
                            self.wait(host, until)?;
                        }
                        break;
                    }
                    Next::Done => return Ok(()),
                }
            }
        }
    }

    fn receive(&mut self, host: &mut Host) -> io::Result<usize> {
        let Host { engine, sockets, .. } = host;
        // One reading for what one call delivered: after it, so that no frame arrives before it was sent.
        let (clock, mut time) = (self.clock, None);
        let received = sockets.receive(&mut |arrival| {
            let now = *time.get_or_insert_with(|| clock.now());
            engine.on_arrival(now, arrival.nic, arrival.bytes, arrival.ecn);
        })?;
        self.standing.frames_received += count(received);
        Ok(received)
    }

    fn send(&mut self, host: &mut Host, burst: crate::engine::Burst) -> io::Result<()> {
        let bytes = self.buffer.get_mut(..burst.bytes).unwrap_or_default();
        let frame_bytes = burst.frame_bytes;
        let taken = host.sockets.send(net::Burst { flow: FlowId(burst.flow), bytes, frame_bytes })?;
        self.standing.frames_sent += count(taken);
        self.standing.bytes_sent += count(burst.bytes.min(taken * frame_bytes));
        self.standing.refused += count(burst.frames.saturating_sub(taken));
        Ok(())
    }

    fn feed(&mut self, host: &mut Host) -> io::Result<()> {
        if self.fed_to_the_end {
            return Ok(());
        }
        let Host { engine, input, .. } = host;
        let state = match input {
            Input::Nodes(feed) => {
                while engine.wants() {
                    let Some(node) = feed.next() else { break };
                    engine.feed_node(self.clock.now(), node).map_err(io::Error::other)?;
                    feed.advance();
                }
                feed.state()
            }
            Input::Frames(feed) => {
                while engine.wants() {
                    let Some(frame) = feed.next() else { break };
                    if engine.feed_frame(&frame.as_timed()).is_err() {
                        self.standing.refused += 1;
                    }
                    feed.advance();
                }
                feed.state()
            }
        };
        match state {
            State::Open => Ok(()),
            State::End => {
                self.fed_to_the_end = true;
                engine.end_of_input();
                Ok(())
            }
            State::Broken(why) => Err(io::Error::other(why.clone())),
        }
    }

    fn wait(&self, host: &mut Host, until: Nanos) -> io::Result<()> {
        let mut timeout = self.clock.until(until).min(STOP_LATENCY);
        if !self.fed_to_the_end && host.engine.wants() {
            timeout = timeout.min(FEED_LATENCY);
        }
        if self.spins {
            if timeout < SPIN {
                return Ok(());
            }
            timeout = timeout - SPIN;
        }
        if timeout > Nanos::ZERO { host.sockets.wait(timeout) } else { Ok(()) }
    }

    fn publish(&mut self, host: &mut Host, shared: &Shared) {
        let progress = host.engine.progress();
        self.standing.done = progress.done;
        self.standing.finished = progress.finished;
        shared.publish(self.standing);
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Room for a burst: the longest bundle.
const BUFFER_BYTES: usize = 1 << 16;

/// Bursts that are sent before what arrives is looked at again.
const BURSTS: usize = 4;

/// How long before a deadline the thread stops sleeping and spins, if it may: waking takes 55 us at the median here.
const SPIN: Nanos = Nanos(60_000);

/// How late a thread that sleeps notices that it should stop.
const STOP_LATENCY: Nanos = Nanos(10_000_000);

/// How late it notices that the reader has more.
const FEED_LATENCY: Nanos = Nanos(200_000);
