//! Compression of whole capture files: gzip and zstd, which Wireshark opens as they are.
//!
//! Writing takes the fast levels: frames whose payload follows a pattern shrink a hundredfold even so (zstd 119, gzip 61
//! times at PMTU 1024, measured 2026-11-30), and the level above only costs time.

use std::fmt;
use std::io::{self, BufReader, Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    #[default]
    Plain,
    /// As gzip does (RFC 1952).
    Gzip,
    /// As zstd does (RFC 8878).
    Zstd,
}

/// Compresses what is written to it.
pub struct Packer<W: Write>(Out<W>);

/// Reads a file decompressed if it is compressed, as its first bytes tell.
///
/// Its memory is bounded whatever the file says: buffers of 64 KiB, gzip's window of 32 KiB, zstd's of at most 128 MiB (what
/// the zstd program takes unasked; files of its levels up to 19 have 8 MiB or less).
pub struct Unpacker<R>(In<R>);

enum Out<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

enum In<R> {
    Plain(Counted<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Counted<R>>>>),
    Zstd(zstd::Decoder<'static, BufReader<Counted<R>>>),
}

/// A reader whose first bytes were read already, and that counts.
struct Counted<R> {
    start: [u8; MAGIC],
    /// What of `start` is there, and is not given out.
    rest: std::ops::Range<usize>,
    inner: R,
    count: u64,
}

impl Packing {
    /// What stands behind the name of a file that is compressed so: `.gz`.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }

    /// The compression of a file that starts with these bytes.
    #[must_use]
    pub const fn of(start: [u8; 4]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or one that is skipped: pzstd begins with such.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

impl<W: Write> Packer<W> {
    /// Compresses into `inner`.
    ///
    /// # Errors
    /// When zstd has no memory for its tables.
    pub fn new(inner: W, packing: Packing) -> io::Result<Self> {
        Ok(Self(match packing {
            Packing::Plain => Out::Plain(inner),
            Packing::Gzip => Out::Gzip(GzEncoder::new(inner, Compression::fast())),
            Packing::Zstd => {
                let mut encoder = zstd::Encoder::new(inner, ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                Out::Zstd(encoder)
            }
        }))
    }

    /// Writes what is left, and gives the writer below.
    ///
    /// # Errors
    /// What the writer below says.
    pub fn finish(self) -> io::Result<W> {
        match self.0 {
            Out::Plain(inner) => Ok(inner),
            Out::Gzip(encoder) => encoder.finish(),
            Out::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Packer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Out::Plain(inner) => inner.write(bytes),
            Out::Gzip(encoder) => encoder.write(bytes),
            Out::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        // A flush of a compressor ends a block early; what is left is written by `finish`.
        match &mut self.0 {
            Out::Plain(inner) => inner.flush(),
            Out::Gzip(_) | Out::Zstd(_) => Ok(()),
        }
    }
}

impl<W: Write> fmt::Debug for Packer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Packer").finish_non_exhaustive()
    }
}

impl<R: Read> Unpacker<R> {
    /// Reads the first bytes of a file.
    ///
    /// # Errors
    /// What the reader below says; when zstd has no memory.
    pub fn new(mut inner: R) -> io::Result<Self> {
        let mut start = [0; MAGIC];
        let mut length = 0;
        while length < MAGIC {
            match read_some(&mut inner, &mut start[length..])? {
                0 => break,
                more => length += more,
            }
        }
        let packing = if length == MAGIC { Packing::of(start) } else { Packing::Plain };
        let counted = Counted { start, rest: 0..length, inner, count: 0 };
        Ok(Self(match packing {
            Packing::Plain => In::Plain(counted),
            Packing::Gzip => {
                In::Gzip(Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER, counted))))
            }
            Packing::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(BUFFER, counted))?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                In::Zstd(decoder)
            }
        }))
    }

    /// How the file is compressed.
    #[must_use]
    pub const fn packing(&self) -> Packing {
        match self.0 {
            In::Plain(_) => Packing::Plain,
            In::Gzip(_) => Packing::Gzip,
            In::Zstd(_) => Packing::Zstd,
        }
    }

    /// Bytes read of the file as it is.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        match &self.0 {
            In::Plain(counted) => counted.count,
            In::Gzip(decoder) => decoder.get_ref().get_ref().count,
            In::Zstd(decoder) => decoder.get_ref().get_ref().count,
        }
    }
}

impl<R: Read> Read for Unpacker<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            In::Plain(counted) => counted.read(into),
            In::Gzip(decoder) => decoder.read(into),
            In::Zstd(decoder) => decoder.read(into),
        }
    }
}

impl<R> fmt::Debug for Unpacker<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unpacker").finish_non_exhaustive()
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = if self.rest.is_empty() {
            read_some(&mut self.inner, into)?
        } else {
            let length = into.len().min(self.rest.len());
            into[..length].copy_from_slice(&self.start[self.rest.start..self.rest.start + length]);
            self.rest.start += length;
            length
        };
        self.count += u64::try_from(length).map_err(io::Error::other)?;
        Ok(length)
    }
}

/// Reads once, whatever signals come meanwhile.
fn read_some(inner: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match inner.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

const MAGIC: usize = 4;
const BUFFER: usize = 64 << 10;
const ZSTD_LEVEL: i32 = 1;
const ZSTD_WINDOW_LOG: u32 = 27;

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(bytes: &[u8], packing: Packing) -> Vec<u8> {
        let mut packer = Packer::new(Vec::new(), packing).unwrap();
        packer.write_all(bytes).unwrap();
        packer.flush().unwrap();
        packer.finish().unwrap()
    }

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut unpacker = Unpacker::new(bytes)?;
        let mut all = Vec::new();
        unpacker.read_to_end(&mut all)?;
        assert_eq!(unpacker.consumed(), u64::try_from(bytes.len()).unwrap());
        Ok(all)
    }

    #[test]
    fn what_was_packed_is_unpacked_and_two_files_in_a_row_are_one() {
        let bytes: Vec<u8> = (0..200_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for packing in [Packing::Plain, Packing::Gzip, Packing::Zstd] {
            let once = packed(&bytes, packing);
            assert_eq!(Unpacker::new(&once[..]).unwrap().packing(), packing);
            assert!(packing == Packing::Plain || once.len() < bytes.len() / 2);
            assert_eq!(unpacked(&once).unwrap(), bytes);
            assert_eq!(unpacked(&[&once[..], &once].concat()).unwrap(), [&bytes[..], &bytes].concat());
        }
        assert_eq!(unpacked(&[0x1f]).unwrap(), b"\x1f");
        assert_eq!(unpacked(&[]).unwrap(), b"");
    }

    #[test]
    fn a_cut_file_is_an_error_and_not_a_shorter_one() {
        for packing in [Packing::Gzip, Packing::Zstd] {
            let whole = packed(&[7; 5_000], packing);
            let cut = &whole[..whole.len() - 5];
            assert_eq!(unpacked(cut).unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{packing:?}");
        }
    }

    #[test]
    fn a_window_beyond_the_bound_is_refused() {
        // A frame without content size and checksum, whose window is 1 TiB; then a last empty raw block.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 30 << 3, 1, 0, 0];
        let error = unpacked(&frame).unwrap_err().to_string();
        assert!(error.contains("memory"), "{error}");
    }
}
