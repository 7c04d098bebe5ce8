//! The reader of captures of any kind: pcap and pcapng in both byte orders, plain or compressed, as the file's first bytes
//! tell.
//!
//! Its memory is 1.5 MiB of buffers, what decompression takes ([`super::packing::Unpacker`]), and 8 MiB at most of
//! interfaces' names, whatever the file says. Frames are read in place, none is copied. The parsing is ours and not the crate
//! pcap-file's, so that an error says which frame at which byte of the file, a length that cannot be is refused before
//! anything is read for it, and a header of 16 bytes costs no more than reading four words; the crate judges it in tests.

mod order;
mod error;
mod window;
mod options;
mod clock;
mod classic;
mod sections;

use std::io::Read;
use std::ops::Range;

pub use error::{PcapError, Start};

use super::packing::{Packing, Unpacker};
use super::{Direction, Interface};
use crate::unit::Nanos;
use classic::Classic;
use options::Options;
use order::{Order, size};
use sections::Sections;
use window::Window;

/// Reads a capture frame by frame.
#[derive(Debug)]
pub struct CaptureReader<R> {
    window: Window<Unpacker<R>>,
    form: Form,
    interfaces: Vec<Interface>,
    /// The name of the interface whose frames are read, if not those of all.
    wanted: Option<String>,
}

/// A frame as a file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number in the file, from 1, as Wireshark counts.
    pub number: u64,
    /// Where its record starts in the file, when that is decompressed.
    pub offset: u64,
    /// When it was seen, since 1970. A simple packet of pcapng has no time, and is given that of the frame before it.
    pub time: Nanos,
    /// Its bytes on the wire, without FCS.
    pub original_length: u32,
    /// Its interface's place in [`CaptureReader::interfaces`].
    pub interface: u32,
    /// The interface that saw it.
    pub seen_by: &'a Interface,
    /// What was captured of it.
    pub bytes: &'a [u8],
    options: Options<'a>,
}

#[derive(Debug)]
enum Form {
    Classic(Classic),
    Sections(Sections),
}

/// A frame by its place in the window.
struct Found {
    offset: u64,
    time: Nanos,
    original: u32,
    interface: u32,
    bytes: Range<usize>,
    options: Range<usize>,
    order: Order,
}

impl<R: Read> CaptureReader<R> {
    /// Reads the start of a capture.
    ///
    /// # Errors
    /// [`PcapError`] if it is no capture, or a pcap file of other than Ethernet frames.
    pub fn new(inner: R) -> Result<Self, PcapError> {
        let inner =
            Unpacker::new(inner).map_err(|source| PcapError::Read { number: 0, offset: 0, source })?;
        let mut window = Window::new(inner);
        window.fill(4)?;
        let mut interfaces = Vec::new();
        let form = if window.bytes().starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
            Form::Sections(Sections::open())
        } else {
            let (classic, interface) = Classic::open(&mut window)?;
            interfaces.push(interface);
            Form::Classic(classic)
        };
        Ok(Self { window, form, interfaces, wanted: None })
    }

    /// The same for the frames of one interface alone, by its name; a file that names no interface is read whole. A file
    /// that holds the captures of several NICs names each so.
    #[must_use]
    pub fn of_interface(self, name: &str) -> Self {
        Self { wanted: Some(name.to_owned()), ..self }
    }

    /// The next frame; `None` at the end of the file.
    ///
    /// # Errors
    /// [`PcapError`] with the frame's number and place. After one, there is no more to read.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, PcapError> {
        let found = loop {
            let found = match &mut self.form {
                Form::Classic(classic) => classic.next(&mut self.window)?,
                Form::Sections(sections) => sections.next(&mut self.window, &mut self.interfaces)?,
            };
            match (found, &self.wanted) {
                (None, _) => return Ok(None),
                (Some(found), Some(wanted)) if !is_named(&self.interfaces, found.interface, wanted) => {}
                (Some(found), _) => break found,
            }
        };
        let Found { offset, time, original, interface, bytes, options, order } = found;
        Ok(Some(Record {
            number: self.window.frames,
            offset,
            time,
            original_length: original,
            interface,
            seen_by: &self.interfaces[size(interface)],
            bytes: self.window.taken(bytes),
            options: Options { order, rest: self.window.taken(options) },
        }))
    }

    /// The interfaces that were described so far; a pcap file has one, without a name.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// How the file is compressed.
    #[must_use]
    pub const fn packing(&self) -> Packing {
        self.window.inner.packing()
    }

    /// Bytes read so far of the file as it is, for showing how far it is.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.window.inner.consumed()
    }
}

impl<'a> Record<'a> {
    /// What somebody noted about the frame, if it is UTF-8 text; the first note of several.
    #[must_use]
    pub fn comment(&self) -> Option<&'a str> {
        let (_, text) = self.options.into_iter().find(|(code, _)| *code == 1)?;
        std::str::from_utf8(text).ok()
    }

    /// Which way it passed the interface, if the file says so.
    #[must_use]
    pub fn direction(&self) -> Option<Direction> {
        let (_, flags) = self.options.into_iter().find(|(code, value)| *code == 2 && value.len() == 4)?;
        Direction::from_flags(self.options.order.word(flags, 0))
    }
}

fn is_named(interfaces: &[Interface], interface: u32, wanted: &str) -> bool {
    let interface = interfaces.get(size(interface));
    interface.and_then(|interface| interface.name.as_deref()).is_none_or(|name| name == wanted)
}

#[cfg(test)]
mod tests;
