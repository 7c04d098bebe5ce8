//! The part of a file that is in memory: a buffer of fixed size that moves on.

use std::io::{self, Read};
use std::ops::Range;

use super::error::PcapError;

/// A buffer of 1 MiB over a file.
#[derive(Debug)]
pub(super) struct Window<R> {
    pub(super) inner: R,
    buffer: Vec<u8>,
    /// What of the buffer is not yet taken.
    rest: Range<usize>,
    /// Where in the file `rest` starts.
    offset: u64,
    /// Frames that were read.
    pub(super) frames: u64,
}

impl<R: Read> Window<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, buffer: vec![0; BUFFER], rest: 0..0, offset: 0, frames: 0 }
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
            if self.rest.start + needed > self.buffer.len() {
                self.buffer.copy_within(self.rest.clone(), 0);
                self.rest = 0..self.rest.len();
            }
            let more = loop {
                match self.inner.read(&mut self.buffer[self.rest.end..]) {
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

/// The bytes of the window, and the longest block that is read.
pub(super) const BUFFER: usize = 1 << 20;
