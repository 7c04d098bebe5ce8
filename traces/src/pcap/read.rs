//! The reader: both byte orders, micro- and nanoseconds, one record after the other in a buffer of fixed
//! size.
//!
//! The format is parsed by the crate pcap-file; the buffer is ours, so that an error can say which frame at
//! which byte of the file, and a length that cannot be is refused before anything is read for it.

use std::borrow::Cow;
use std::io::{self, Read};

use pcap_file::pcap::{PcapHeader, PcapParseError, PcapParser, PcapTsResolution};
use pcap_file::{DataLink, Endianness};
use thiserror::Error;

use super::{HEADER, LONGEST, RECORD_HEADER, SNAPSHOT_LENGTH};
use crate::unit::Nanos;

/// Reads a pcap file record by record. Its memory is one buffer of 1 MiB, whatever the file says.
#[derive(Debug)]
pub struct PcapReader<R> {
    inner: R,
    parser: PcapParser,
    buffer: Vec<u8>,
    /// What of the buffer is not yet given out.
    rest: std::ops::Range<usize>,
    /// Where in the file `rest` starts.
    offset: u64,
    number: u64,
}

/// A frame as a file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number in the file, from 1, as Wireshark counts.
    pub number: u64,
    /// Where its record starts in the file.
    pub offset: u64,
    /// When it was seen, since 1970.
    pub time: Nanos,
    /// Its bytes on the wire, without FCS.
    pub original_length: u32,
    /// What was captured of it.
    pub bytes: &'a [u8],
}

/// Why a file cannot be read on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PcapError {
    /// It does not start as a pcap file does.
    #[error("no pcap file: it starts with {found}{}", hint(.found))]
    Magic {
        /// Its first bytes, at most four.
        found: Start,
    },
    /// It ends within its header.
    #[error("a pcap file starts with {HEADER} bytes of header, {0} are there")]
    Header(usize),
    /// It holds no Ethernet frames.
    #[error("link type {0} at byte 20 is not Ethernet (1)")]
    LinkType(u32),
    /// It ends within a record.
    #[error(
        "frame {number} at byte {offset}: {part} needs {needs} bytes, {left} are left; the file is cut short"
    )]
    Truncated {
        /// The frame.
        number: u64,
        /// Where its record starts.
        offset: u64,
        /// The part of the record.
        part: &'static str,
        /// Its bytes.
        needs: u32,
        /// What is there.
        left: usize,
    },
    /// A length that no frame has.
    #[error(
        "frame {number} at byte {offset}: {captured} bytes captured of {original}; captured is at most original, and at most {SNAPSHOT_LENGTH}"
    )]
    Length {
        /// The frame.
        number: u64,
        /// Where its record starts.
        offset: u64,
        /// The captured length.
        captured: u32,
        /// The original length.
        original: u32,
    },
    /// A fraction of a second that is a second or more.
    #[error("frame {number} at byte {offset}: {fraction} {unit} are no fraction of a second")]
    Time {
        /// The frame.
        number: u64,
        /// Where its record starts.
        offset: u64,
        /// What is there.
        fraction: u32,
        /// The unit that the file's magic promises.
        unit: &'static str,
    },
    /// The file could not be read.
    #[error("after frame {number}, byte {offset}: the file cannot be read")]
    Read {
        /// The last frame that was read.
        number: u64,
        /// How far all is well.
        offset: u64,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// The first bytes of a file, at most four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    bytes: [u8; 4],
    length: usize,
}

impl<R: Read> PcapReader<R> {
    /// Reads the header of the file.
    ///
    /// # Errors
    /// [`PcapError`] if it is no pcap file, or not one of Ethernet frames.
    pub fn new(inner: R) -> Result<Self, PcapError> {
        let mut inner = inner;
        let mut buffer = vec![0; BUFFER];
        let mut length = 0;
        while length < HEADER {
            let more = read_some(&mut inner, &mut buffer[length..]).map_err(|source| PcapError::Read {
                number: 0,
                offset: 0,
                source,
            })?;
            if more == 0 {
                break;
            }
            length += more;
        }
        let start = Start::of(&buffer[..length]);
        let parser = match PcapParser::new(&buffer[..length]) {
            Ok((_, parser)) => parser,
            Err(PcapParseError::IncompleteBuffer(..)) if start.is_pcap() => {
                return Err(PcapError::Header(length));
            }
            Err(_) => return Err(PcapError::Magic { found: start }),
        };
        let link = u32::from(parser.header().datalink);
        if parser.header().datalink != DataLink::ETHERNET {
            return Err(PcapError::LinkType(link));
        }
        Ok(Self { inner, parser, buffer, rest: HEADER..length, offset: HEADER_OFFSET, number: 0 })
    }

    /// The next record; `None` at the end of the file.
    ///
    /// # Errors
    /// [`PcapError`] with the frame's number and place. After one, there is no more to read.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, PcapError> {
        if !self.fill(RECORD_HEADER)? {
            return match self.rest.len() {
                0 => Ok(None),
                left => Err(self.truncated("its header", 16, left)),
            };
        }
        let (number, offset) = (self.number + 1, self.offset);
        let header = self.parser.header();
        let [_, _, captured, original] = self.words(header.endianness);
        let length = usize::try_from(captured).unwrap_or(usize::MAX);
        if captured > original || length > LONGEST {
            return Err(PcapError::Length { number, offset, captured, original });
        }
        if !self.fill(RECORD_HEADER + length)? {
            return Err(self.truncated("the frame", captured, self.rest.len() - RECORD_HEADER));
        }
        let start = self.rest.start;
        self.rest.start += RECORD_HEADER + length;
        self.offset += 16 + u64::from(captured);
        self.number = number;
        let Ok((_, packet)) = self.parser.next_raw_packet(&self.buffer[start..self.rest.end]) else {
            return Err(self.truncated("the frame", captured, self.rest.len()));
        };
        let time = time(&header, packet.ts_sec, packet.ts_frac, number, offset)?;
        let Cow::Borrowed(bytes) = packet.data else {
            return Err(PcapError::Length { number, offset, captured, original });
        };
        Ok(Some(Record { number, offset, time, original_length: original, bytes }))
    }

    /// The file's header.
    #[must_use]
    pub fn header(&self) -> PcapHeader {
        self.parser.header()
    }

    /// Reads until `needed` bytes are there; `false` if the file ends before. `needed` is less than the
    /// buffer.
    fn fill(&mut self, needed: usize) -> Result<bool, PcapError> {
        while self.rest.len() < needed {
            if self.rest.start + needed > self.buffer.len() {
                self.buffer.copy_within(self.rest.clone(), 0);
                self.rest = 0..self.rest.len();
            }
            let more = read_some(&mut self.inner, &mut self.buffer[self.rest.end..])
                .map_err(|source| PcapError::Read { number: self.number, offset: self.offset, source })?;
            if more == 0 {
                return Ok(false);
            }
            self.rest.end += more;
        }
        Ok(true)
    }

    fn words(&self, endianness: Endianness) -> [u32; 4] {
        let header = &self.buffer[self.rest.start..self.rest.start + RECORD_HEADER];
        std::array::from_fn(|i| {
            let word = std::array::from_fn(|j| header[4 * i + j]);
            match endianness {
                Endianness::Big => u32::from_be_bytes(word),
                Endianness::Little => u32::from_le_bytes(word),
            }
        })
    }

    fn truncated(&self, part: &'static str, needs: u32, left: usize) -> PcapError {
        PcapError::Truncated { number: self.number + 1, offset: self.offset, part, needs, left }
    }
}

impl Start {
    fn of(bytes: &[u8]) -> Self {
        let length = bytes.len().min(4);
        let mut start = Self { bytes: [0; 4], length };
        start.bytes[..length].copy_from_slice(&bytes[..length]);
        start
    }

    fn is_pcap(&self) -> bool {
        self.length == 4
            && [0xa1b2_c3d4, 0xa1b2_3c4d]
                .iter()
                .any(|magic: &u32| self.bytes == magic.to_be_bytes() || self.bytes == magic.to_le_bytes())
    }
}

impl std::fmt::Display for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.length == 0 {
            return f.write_str("nothing: it is empty");
        }
        self.bytes[..self.length].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn hint(start: &Start) -> &'static str {
    match start.bytes {
        [0x0a, 0x0d, 0x0d, 0x0a] => " and is pcapng; `editcap -F nsecpcap IN OUT` makes it pcap",
        [0x1f, 0x8b, _, _] => " and is compressed by gzip; decompress it first",
        [0x28, 0xb5, 0x2f, 0xfd] => " and is compressed by zstd; decompress it first",
        [0x04, 0x22, 0x4d, 0x18] => " and is compressed by lz4; decompress it first",
        _ if start.length == 0 => "",
        _ => ", not with a1b2c3d4 or a1b23c4d in either byte order",
    }
}

fn time(
    header: &PcapHeader,
    seconds: u32,
    fraction: u32,
    number: u64,
    offset: u64,
) -> Result<Nanos, PcapError> {
    let (limit, scale, unit) = match header.ts_resolution {
        PcapTsResolution::MicroSecond => (1_000_000, 1_000, "us"),
        PcapTsResolution::NanoSecond => (1_000_000_000, 1, "ns"),
    };
    if fraction >= limit {
        return Err(PcapError::Time { number, offset, fraction, unit });
    }
    Ok(Nanos(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * scale))
}

fn read_some(inner: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match inner.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

const BUFFER: usize = 1 << 20;
const HEADER_OFFSET: u64 = 24;

#[cfg(test)]
mod tests;
