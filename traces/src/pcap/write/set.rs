//! A capture as one file or several: when one is full, the next begins.

use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroU64;

use super::Written;
use super::classic::PcapWriter;
use super::pcapng::{Label, PcapNgWriter, Section};
use crate::pcap::RECORD_HEADER;
use crate::unit::{Bytes, Nanos};

/// Writes a capture into files of one form, one after the other. The same frames in the same order stand in them, however
/// they are split.
#[derive(Debug)]
pub struct CaptureWriter<F: Files> {
    files: F,
    writer: Writer<F::File>,
    split: Split,
    /// When the first frame of the file was seen.
    first: Option<Nanos>,
    /// What earlier files hold.
    before: Written,
}

/// Where a capture's files come from, and what is done with them when they are whole.
pub trait Files {
    /// What is written to.
    type File: Write + fmt::Debug;

    /// Opens the next file.
    ///
    /// # Errors
    /// What the system says.
    fn next(&mut self) -> io::Result<Self::File>;

    /// Ends a file, of which the first frame was seen at `first`; `more` if another follows.
    ///
    /// # Errors
    /// What the system says.
    fn end(&mut self, file: Self::File, first: Option<Nanos>, more: bool) -> io::Result<()>;
}

/// The form of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Pcap, which says nothing of interfaces and frames but times and lengths.
    Pcap,
    /// Pcapng.
    PcapNg(Section),
}

/// When a file is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// With so many frames.
    pub frames: Option<NonZeroU64>,
    /// Before it has more than so many bytes, those of compression and of pcapng's counts at the end aside; but each file
    /// has a frame.
    pub bytes: Option<Bytes>,
}

impl Split {
    /// One file, however long.
    pub const WHOLE: Self = Self { frames: None, bytes: None };

    /// What Wireshark opens at ease: a million frames or 256 MiB.
    pub const EASY: Self = Self { frames: NonZeroU64::new(1_000_000), bytes: Some(Bytes(256 << 20)) };
}

#[derive(Debug)]
enum Writer<W> {
    Pcap(PcapWriter<W>),
    PcapNg(PcapNgWriter<W>),
}

impl<F: Files> CaptureWriter<F> {
    /// Opens the first file. Its blocks have `block` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// What `files` says.
    pub fn new(mut files: F, form: &Form, block: usize, split: Split) -> io::Result<Self> {
        let file = files.next()?;
        let writer = match form {
            Form::Pcap => Writer::Pcap(PcapWriter::with_block(file, block)),
            Form::PcapNg(section) => Writer::PcapNg(PcapNgWriter::with_block(file, block, section)?),
        };
        Ok(Self { files, writer, split, first: None, before: Written::default() })
    }

    /// Whether labels are written.
    #[must_use]
    pub const fn is_labelled(&self) -> bool {
        matches!(self.writer, Writer::PcapNg(_))
    }

    /// Makes room for a frame: `captured` bytes of `original`, seen at `at` since 1970. The caller fills the slice, which
    /// holds what an earlier frame left there.
    ///
    /// # Errors
    /// As [`PcapWriter::record`] and [`PcapNgWriter::record`].
    #[inline]
    pub fn record(
        &mut self,
        label: &Label<'_>,
        at: Nanos,
        captured: usize,
        original: usize,
    ) -> io::Result<&mut [u8]> {
        if self.is_full(captured, label) {
            self.turn()?;
        }
        self.first.get_or_insert(at);
        match &mut self.writer {
            Writer::Pcap(writer) => writer.record(at, captured, original),
            Writer::PcapNg(writer) => writer.record(label, at, captured, original),
        }
    }

    /// Ends the last file, and says what all hold together.
    ///
    /// # Errors
    /// What the files say.
    pub fn finish(mut self) -> io::Result<(F, Written)> {
        let (file, written) = match self.writer {
            Writer::Pcap(writer) => writer.finish()?,
            Writer::PcapNg(writer) => writer.finish()?,
        };
        self.files.end(file, self.first, false)?;
        let frames = self.before.frames + written.frames;
        Ok((self.files, Written { frames, bytes: self.before.bytes + written.bytes }))
    }

    #[inline]
    fn written(&self) -> Written {
        match &self.writer {
            Writer::Pcap(writer) => writer.written(),
            Writer::PcapNg(writer) => writer.written(),
        }
    }

    #[inline]
    fn is_full(&self, captured: usize, label: &Label<'_>) -> bool {
        let Written { frames, bytes } = self.written();
        let around = if self.is_labelled() { 60 + label.comment.map_or(0, str::len) } else { RECORD_HEADER };
        let next = bytes.0 + u64::try_from(around + captured).unwrap_or(u64::MAX);
        frames > 0
            && (self.split.frames.is_some_and(|most| frames >= most.get())
                || self.split.bytes.is_some_and(|most| next > most.0))
    }

    #[cold]
    fn turn(&mut self) -> io::Result<()> {
        let other = self.files.next()?;
        let (file, written) = match &mut self.writer {
            Writer::Pcap(writer) => writer.exchange(other)?,
            Writer::PcapNg(writer) => writer.exchange(other)?,
        };
        self.before.frames += written.frames;
        self.before.bytes += written.bytes;
        self.files.end(file, self.first.take(), true)
    }
}
