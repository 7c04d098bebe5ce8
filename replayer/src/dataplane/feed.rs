//! Reading a trace ahead: a thread decodes blocks, the data plane takes them from a ring and gives them back.
//!
//! Blocks go round: what the data plane has fed to its engine returns to the reader, which drops or fills it, so that
//! the data plane never touches the allocator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};

/// Fills a block with what comes next; false when there is nothing more.
pub(super) trait Source<T>: Send + 'static {
    /// Appends to `block`, up to its capacity.
    ///
    /// # Errors
    /// Why the trace cannot be read on.
    fn fill(&mut self, block: &mut Vec<T>) -> Result<bool, String>;
}

/// The data plane's end of the ring.
#[derive(Debug)]
pub(super) struct Feed<T> {
    full: Consumer<Block<T>>,
    empty: Producer<Vec<T>>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
    now: Vec<T>,
    place: usize,
    state: State,
}

/// What has been said of the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There is more, or it is not known yet.
    Open,
    /// That was all.
    End,
    /// It cannot be read.
    Broken(String),
}

#[derive(Debug)]
enum Block<T> {
    Items(Vec<T>),
    End,
    Broken(String),
}

impl<T: Send + 'static> Feed<T> {
    /// Starts to read, in blocks of so many.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn start(source: impl Source<T>, block_items: usize) -> std::io::Result<Self> {
        let (to_full, full) = RingBuffer::new(BLOCKS);
        let (mut empty, from_empty) = RingBuffer::new(BLOCKS + 1);
        for _ in 0..BLOCKS {
            // There is room for one more than that.
            let _ = empty.push(Vec::with_capacity(block_items));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = thread::Builder::new()
            .name("read trace".to_owned())
            .spawn(move || read(source, to_full, from_empty, &stopped))?;
        Ok(Self { full, empty, stop, reader: Some(reader), now: Vec::new(), place: 0, state: State::Open })
    }

    /// What comes next, if it is here already; it stays until [`Self::advance`].
    pub(super) fn next(&mut self) -> Option<&T> {
        if self.place == self.now.len() && !self.take_block() {
            return None;
        }
        self.now.get(self.place)
    }

    /// Goes on to what follows.
    pub(super) fn advance(&mut self) {
        self.place += 1;
    }

    /// Whether there is more, once [`Self::next`] has returned nothing.
    pub(super) const fn state(&self) -> &State {
        &self.state
    }

    fn take_block(&mut self) -> bool {
        match self.full.pop() {
            Ok(Block::Items(items)) => {
                let used = std::mem::replace(&mut self.now, items);
                if used.capacity() > 0 {
                    // The ring has room for all blocks there are.
                    let _ = self.empty.push(used);
                }
                self.place = 0;
                !self.now.is_empty()
            }
            Ok(Block::End) => {
                self.state = State::End;
                false
            }
            Ok(Block::Broken(why)) => {
                self.state = State::Broken(why);
                false
            }
            Err(_) if self.full.is_abandoned() => {
                // Whoever reads has ended without saying how; what it had said last may have come meanwhile.
                if self.full.is_empty() {
                    self.state = State::Broken("the thread that reads the trace broke down".to_owned());
                }
                false
            }
            Err(_) => false,
        }
    }
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            reader.thread().unpark();
            let _ = reader.join();
        }
    }
}

fn read<T>(
    mut source: impl Source<T>,
    mut full: Producer<Block<T>>,
    mut empty: Consumer<Vec<T>>,
    stop: &AtomicBool,
) {
    let mut last = None;
    while last.is_none() && !stop.load(Ordering::Relaxed) {
        let Ok(mut block) = empty.pop() else {
            thread::park_timeout(PAUSE);
            continue;
        };
        block.clear();
        match source.fill(&mut block) {
            Ok(true) => {}
            Ok(false) => last = Some(Block::End),
            Err(why) => last = Some(Block::Broken(why)),
        }
        push(&mut full, Block::Items(block), stop);
    }
    if let Some(last) = last {
        push(&mut full, last, stop);
    }
}

fn push<T>(full: &mut Producer<Block<T>>, mut block: Block<T>, stop: &AtomicBool) {
    while let Err(rtrb::PushError::Full(back)) = full.push(block) {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        block = back;
        thread::park_timeout(PAUSE);
    }
}

/// Blocks that go round.
const BLOCKS: usize = 16;

/// How long the reader rests when all blocks are full: much less than the data plane takes for them.
const PAUSE: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use super::*;

    struct Count(u32, Result<bool, String>);

    impl Source<u32> for Count {
        fn fill(&mut self, block: &mut Vec<u32>) -> Result<bool, String> {
            while block.len() < block.capacity() {
                if self.0 == 20_000 {
                    return self.1.clone();
                }
                block.push(self.0);
                self.0 += 1;
            }
            Ok(true)
        }
    }

    fn drain(feed: &mut Feed<u32>) -> Vec<u32> {
        let mut items = Vec::new();
        loop {
            while let Some(&item) = feed.next() {
                items.push(item);
                feed.advance();
            }
            if *feed.state() != State::Open {
                return items;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn everything_comes_once_in_order_and_then_the_end() {
        let mut feed = Feed::start(Count(0, Ok(false)), 512).unwrap();
        assert_eq!(drain(&mut feed), (0..20_000).collect::<Vec<_>>());
        assert_eq!(feed.state(), &State::End);
    }

    #[test]
    fn what_was_read_before_a_fault_comes_first() {
        let mut feed = Feed::start(Count(19_990, Err("cut".to_owned())), 512).unwrap();
        assert_eq!(drain(&mut feed).len(), 10);
        assert_eq!(feed.state(), &State::Broken("cut".to_owned()));
    }

    #[test]
    fn a_feed_that_nobody_reads_ends() {
        drop(Feed::start(Count(0, Ok(false)), 512).unwrap());
    }
}
