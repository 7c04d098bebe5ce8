//! The part of a file that is in memory: a buffer of fixed size that moves on.
//!
//! A file is read 128 KiB at a time, always into the same place, which starts at a page: what is read is still in the cache when
//! it is looked at, and the kernel's copy goes from page to page ([`crate::pcap::write`] says what it costs if it does not). What
//! is left of the last piece is moved in front of that place.

use std::io::{self, Read};
use std::ops::Range;

use super::error::PcapError;

/// A buffer over a file.
#[derive(Debug)]
pub(super) struct Window<R> {
    pub(super) inner: R,
    buffer: Vec<u8>,
    /// Where in the buffer the file is read to. In front of it is room for what is left, at most [`BUFFER`].
    place: usize,
    /// What of the buffer is not yet taken.
    rest: Range<usize>,
    /// Where in the file `rest` starts.
    offset: u64,
    /// Frames that were read.
    pub(super) frames: u64,
}

impl<R: Read> Window<R> {
    pub(super) fn new(inner: R) -> Self {
        let buffer = vec![0; BUFFER + PAGE + PIECE];
        let place = BUFFER + buffer[BUFFER..].as_ptr().align_offset(PAGE).min(PAGE);
        Self { inner, buffer, place, rest: place..place, offset: 0, frames: 0 }
    }

    /// What is in memory and not taken.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.rest.clone()]
    }

    /// Where in the file that starts.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// What was taken, until more is read.
    pub(super) fn taken(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Reads until `needed` bytes are there; `false` if the file ends before. `needed` is at most [`BUFFER`].
    #[inline]
    pub(super) fn fill(&mut self, needed: usize) -> Result<bool, PcapError> {
        if self.rest.len() >= needed { Ok(true) } else { self.read(needed) }
    }

    /// Takes `length` bytes, which are there, and gives where they start in the buffer.
    #[inline]
    pub(super) fn take(&mut self, length: usize) -> usize {
        let start = self.rest.start;
        self.rest.start += length;
        self.offset += u64::try_from(length).unwrap_or(u64::MAX);
        start
    }

    /// Passes over `length` bytes; gives how many the file lacks.
    pub(super) fn skip(&mut self, length: u64) -> Result<u64, PcapError> {
        let mut left = length;
        while left > 0 {
            if !self.fill(1)? {
                break;
            }
            let step = usize::try_from(left).map_or(self.rest.len(), |left| left.min(self.rest.len()));
            self.take(step);
            left -= u64::try_from(step).unwrap_or(left);
        }
        Ok(left)
    }

    #[cold]
    fn read(&mut self, needed: usize) -> Result<bool, PcapError> {
        while self.rest.len() < needed {
            let start = self.place - self.rest.len();
            self.buffer.copy_within(self.rest.clone(), start);
            self.rest = start..self.place;
            let more = loop {
                match self.inner.read(&mut self.buffer[self.place..self.place + PIECE]) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(source) => {
                        return Err(PcapError::Read { number: self.frames, offset: self.offset, source });
                    }
                    Ok(more) => break more,
                }
            };
            if more == 0 {
                return Ok(false);
            }
            self.rest.end += more;
        }
        Ok(true)
    }
}

/// The longest block that is read.
pub(super) const BUFFER: usize = 1 << 20;

/// What is read at once: a second-level cache has two of it and more.
const PIECE: usize = 128 << 10;

const PAGE: usize = 4096;
