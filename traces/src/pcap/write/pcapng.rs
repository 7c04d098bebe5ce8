//! Pcapng files: one section, little-endian, nanoseconds; interfaces, names, packets with notes, counts at the end.

use std::io::{self, Write};
use std::net::IpAddr;

use super::block::Blocks;
use super::options::Block;
use super::{DEFAULT_BLOCK, Written, invalid, lengths};
use crate::pcap::{Direction, Interface, SNAPSHOT_LENGTH};
use crate::unit::Nanos;

/// What stands in front of the packets of a pcapng file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The program that writes it, with its version.
    pub program: String,
    /// A note about the whole file.
    pub comment: Option<String>,
    /// Where frames are seen; labels count from zero here.
    pub interfaces: Vec<Interface>,
    /// Names of addresses, which Wireshark shows when asked to resolve network addresses.
    pub names: Vec<(IpAddr, String)>,
}

/// What is said of a frame beside its time and lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label<'a> {
    /// Its place in [`Section::interfaces`].
    pub interface: usize,
    /// Which way it passed the interface.
    pub direction: Option<Direction>,
    /// A note for whoever looks at it.
    pub comment: Option<&'a str>,
}

/// Writes a pcapng file. Its memory is one block and a record, and the start of the file, whatever its length.
#[derive(Debug)]
pub struct PcapNgWriter<W> {
    blocks: Blocks<W>,
    head: Vec<u8>,
    /// By interface, what of it this file has.
    seen: Vec<Seen>,
    frames: u64,
}

/// Frames of an interface.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    frames: u64,
    first: Nanos,
    last: Nanos,
}

impl<W: Write> PcapNgWriter<W> {
    /// A writer with blocks of 1 MiB.
    ///
    /// # Errors
    /// As [`Self::with_block`].
    pub fn new(inner: W, section: &Section) -> io::Result<Self> {
        Self::with_block(inner, DEFAULT_BLOCK, section)
    }

    /// A writer with blocks of `block` bytes, rounded up to whole pages. `inner` stands at its beginning.
    ///
    /// # Errors
    /// What the writer below says; `InvalidInput` if a text of the section is longer than 65535 bytes.
    pub fn with_block(inner: W, block: usize, section: &Section) -> io::Result<Self> {
        let head = section.bytes()?;
        let mut blocks = Blocks::new(inner, block, &[]);
        blocks.put(&head)?;
        Ok(Self { blocks, head, seen: vec![Seen::default(); section.interfaces.len()], frames: 0 })
    }

    /// Makes room for a frame: `captured` bytes of `original`, seen at `at` since 1970. The caller fills the slice, which
    /// holds what an earlier frame left there.
    ///
    /// # Errors
    /// What the writer below says; `InvalidInput` if `captured` is more than `original` or than 262144, if there is no such
    /// interface, or if the comment is longer than 4096 bytes.
    pub fn record(
        &mut self,
        label: &Label<'_>,
        at: Nanos,
        captured: usize,
        original: usize,
    ) -> io::Result<&mut [u8]> {
        let words = lengths(captured, original)?;
        let interface = u32::try_from(label.interface).map_err(io::Error::other)?;
        let count = self.seen.len();
        let Some(seen) = self.seen.get_mut(label.interface) else {
            return Err(invalid(format!("interface {interface} of {count}")));
        };
        if seen.frames == 0 {
            seen.first = at;
        }
        (seen.frames, seen.last) = (seen.frames + 1, at);
        let end = PACKET_HEADER + captured;
        let options = end.next_multiple_of(4);
        let length = options + label.length()? + 4;
        let slot = self.blocks.room(length)?;
        let word = u32::try_from(length).map_err(io::Error::other)?.to_le_bytes();
        let [high, low] = halves(at.0);
        let header = [ENHANCED_PACKET, 0, interface, high, low, words[0], words[1]];
        for (place, value) in slot.chunks_exact_mut(4).zip(header) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        slot[4..8].copy_from_slice(&word);
        slot[end..options].fill(0);
        label.write(&mut slot[options..length - 4]);
        slot[length - 4..].copy_from_slice(&word);
        self.frames += 1;
        Ok(&mut slot[PACKET_HEADER..end])
    }

    /// Writes a whole frame, or as much of it as `bytes` are.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn frame(&mut self, label: &Label<'_>, at: Nanos, bytes: &[u8], original: usize) -> io::Result<()> {
        self.record(label, at, bytes.len(), original)?.copy_from_slice(bytes);
        Ok(())
    }

    /// What the file holds so far.
    #[must_use]
    pub fn written(&self) -> Written {
        Written { frames: self.frames, bytes: self.blocks.bytes() }
    }

    /// Ends the file and begins `other`, with the same section; gives the writer of the first with what it holds.
    ///
    /// # Errors
    /// What the writer below says.
    pub fn exchange(&mut self, other: W) -> io::Result<(W, Written)> {
        self.statistics()?;
        let written = self.written();
        let inner = self.blocks.exchange(other)?;
        self.frames = 0;
        self.seen.fill(Seen::default());
        self.blocks.put(&self.head)?;
        Ok((inner, written))
    }

    /// Writes what is left, and gives the writer below with what the file holds.
    ///
    /// # Errors
    /// What the writer below says.
    pub fn finish(mut self) -> io::Result<(W, Written)> {
        self.statistics()?;
        let written = self.written();
        Ok((self.blocks.finish()?, written))
    }

    /// Says what was seen of each interface that had frames.
    fn statistics(&mut self) -> io::Result<()> {
        for (interface, seen) in (0_u32..).zip(&self.seen).filter(|(_, seen)| seen.frames > 0) {
            let time = |at: Nanos| halves(at.0).map(u32::to_le_bytes).concat();
            let block = Block::new(INTERFACE_STATISTICS)
                .with(&interface.to_le_bytes())
                .with(&time(seen.last))
                .option(START_TIME, &time(seen.first))?
                .option(END_TIME, &time(seen.last))?
                .option(RECEIVED, &seen.frames.to_le_bytes())?
                .option(END, &[])?;
            self.blocks.put(&block.bytes()?)?;
        }
        Ok(())
    }
}

impl Section {
    fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Block::new(SECTION_HEADER)
            .with(&BYTE_ORDER.to_le_bytes())
            .with(&1_u16.to_le_bytes())
            .with(&0_u16.to_le_bytes())
            .with(&u64::MAX.to_le_bytes())
            .text(COMMENT, self.comment.as_deref())?
            .option(PROGRAM, self.program.as_bytes())?
            .option(END, &[])?
            .bytes()?;
        for interface in &self.interfaces {
            bytes.extend(interface.block()?);
        }
        if !self.names.is_empty() {
            let mut block = Block::new(NAME_RESOLUTION);
            for (address, name) in &self.names {
                let name = name.as_bytes();
                block = match address {
                    IpAddr::V4(address) => block.option(1, &[&address.octets()[..], name, &[0]].concat())?,
                    IpAddr::V6(address) => block.option(2, &[&address.octets()[..], name, &[0]].concat())?,
                };
            }
            bytes.extend(block.option(END, &[])?.bytes()?);
        }
        Ok(bytes)
    }
}

impl Interface {
    fn block(&self) -> io::Result<Vec<u8>> {
        let mut block = Block::new(INTERFACE_DESCRIPTION)
            .with(&self.link_type.to_le_bytes())
            .with(&[0, 0])
            .with(&SNAPSHOT_LENGTH.to_le_bytes())
            .text(2, self.name.as_deref())?
            .text(3, self.description.as_deref())?;
        for &(address, prefix) in &self.addresses {
            block = match address {
                IpAddr::V4(address) => {
                    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
                    block.option(4, &[address.octets(), mask.to_be_bytes()].concat())?
                }
                IpAddr::V6(address) => block.option(5, &[&address.octets()[..], &[prefix]].concat())?,
            };
        }
        if let Some(mac) = self.mac {
            block = block.option(6, &mac.0)?;
        }
        if let Some(speed) = self.bits_per_second {
            block = block.option(8, &speed.to_le_bytes())?;
        }
        block.option(9, &[NANOSECONDS])?.option(END, &[])?.bytes()
    }
}

impl Label<'_> {
    /// Bytes of the options.
    #[inline]
    fn length(&self) -> io::Result<usize> {
        let direction = if self.direction.is_some() { 8 } else { 0 };
        let comment = match self.comment {
            Some(text) if text.len() > LONGEST_COMMENT => {
                return Err(invalid(format!(
                    "a comment of {} bytes; at most {LONGEST_COMMENT} can be",
                    text.len()
                )));
            }
            Some(text) => 4 + text.len().next_multiple_of(4),
            None => 0,
        };
        Ok(if direction + comment > 0 { direction + comment + 4 } else { 0 })
    }

    /// Writes the options into a slice of their length.
    #[inline]
    fn write(&self, options: &mut [u8]) {
        let mut at = 0;
        if let Some(text) = self.comment {
            let [low, high, ..] = text.len().to_le_bytes();
            options[..4].copy_from_slice(&[1, 0, low, high]);
            let end = 4 + text.len();
            options[4..end].copy_from_slice(text.as_bytes());
            at = end.next_multiple_of(4);
            options[end..at].fill(0);
        }
        if let Some(direction) = self.direction {
            options[at..at + 4].copy_from_slice(&[2, 0, 4, 0]);
            options[at + 4..at + 8].copy_from_slice(&direction.flags().to_le_bytes());
            at += 8;
        }
        options[at..].fill(0);
    }
}

/// The high and the low word of a timestamp.
fn halves(at: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = at.to_be_bytes();
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}

/// The longest note about a frame.
const LONGEST_COMMENT: usize = 4_096;

/// Bytes of a packet's block in front of the frame.
const PACKET_HEADER: usize = 28;

/// Types of blocks, and codes of options (draft-ietf-opsawg-pcapng).
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const NAME_RESOLUTION: u32 = 4;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const END: u16 = 0;
const COMMENT: u16 = 1;
const PROGRAM: u16 = 4;
const START_TIME: u16 = 2;
const END_TIME: u16 = 3;
const RECEIVED: u16 = 4;
const NANOSECONDS: u8 = 9;

#[cfg(test)]
mod tests;
