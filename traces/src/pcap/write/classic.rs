//! Pcap files: nanoseconds, little-endian, Ethernet.

use std::io::{self, Write};

use super::block::Blocks;
use super::{DEFAULT_BLOCK, Written, invalid, lengths};
use crate::pcap::{ETHERNET, HEADER, RECORD_HEADER, SNAPSHOT_LENGTH};
use crate::unit::Nanos;

/// Writes a pcap file. Its memory is one block and a record, whatever the length of the file.
#[derive(Debug)]
pub struct PcapWriter<W> {
    blocks: Blocks<W>,
    frames: u64,
}

impl<W: Write> PcapWriter<W> {
    /// A writer with blocks of 1 MiB.
    #[must_use]
    pub fn new(inner: W) -> Self {
        Self::with_block(inner, DEFAULT_BLOCK)
    }

    /// A writer with blocks of `block` bytes, rounded up to whole pages. `inner` stands at its beginning.
    #[must_use]
    pub fn with_block(inner: W, block: usize) -> Self {
        Self { blocks: Blocks::new(inner, block, &file_header()), frames: 0 }
    }

    /// Makes room for a frame: `captured` bytes of `original`, seen at `at` since 1970. The caller fills the
    /// slice, which holds what an earlier frame left there.
    ///
    /// # Errors
    /// What the writer below says; `InvalidInput` if `captured` is more than `original` or than 262144, or if
    /// `at` lies beyond the 32 bits of seconds (the year 2106).
    pub fn record(&mut self, at: Nanos, captured: usize, original: usize) -> io::Result<&mut [u8]> {
        let header = record_header(at, captured, original)?;
        let slot = self.blocks.room(RECORD_HEADER + captured)?;
        self.frames += 1;
        let (head, body) = slot.split_at_mut(RECORD_HEADER);
        head.copy_from_slice(&header);
        Ok(body)
    }

    /// Writes a whole frame, or as much of it as `bytes` are.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub fn frame(&mut self, at: Nanos, bytes: &[u8], original: usize) -> io::Result<()> {
        self.record(at, bytes.len(), original)?.copy_from_slice(bytes);
        Ok(())
    }

    /// What the file holds so far.
    #[must_use]
    pub fn written(&self) -> Written {
        Written { frames: self.frames, bytes: self.blocks.bytes() }
    }

    /// Ends the file and begins `other`; gives the writer of the first with what it holds.
    ///
    /// # Errors
    /// What the writer below says.
    pub fn exchange(&mut self, other: W) -> io::Result<(W, Written)> {
        let written = self.written();
        let inner = self.blocks.exchange(other)?;
        self.frames = 0;
        self.blocks.put(&file_header())?;
        Ok((inner, written))
    }

    /// Writes what is left, and gives the writer below with what the file holds.
    ///
    /// # Errors
    /// What the writer below says.
    pub fn finish(self) -> io::Result<(W, Written)> {
        let written = self.written();
        Ok((self.blocks.finish()?, written))
    }
}

fn file_header() -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
    header[4..6].copy_from_slice(&2_u16.to_le_bytes());
    header[6..8].copy_from_slice(&4_u16.to_le_bytes());
    header[16..20].copy_from_slice(&SNAPSHOT_LENGTH.to_le_bytes());
    header[20..].copy_from_slice(&u32::from(ETHERNET).to_le_bytes());
    header
}

fn record_header(at: Nanos, captured: usize, original: usize) -> io::Result<[u8; RECORD_HEADER]> {
    let [captured, original] = lengths(captured, original)?;
    let seconds = u32::try_from(at.0 / 1_000_000_000)
        .map_err(|_| invalid(format!("{} ns since 1970 lie beyond the 32 bits of pcap's seconds", at.0)))?;
    let nanos = u32::try_from(at.0 % 1_000_000_000).map_err(io::Error::other)?;
    let mut header = [0; RECORD_HEADER];
    for (place, value) in header.chunks_exact_mut(4).zip([seconds, nanos, captured, original]) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    Ok(header)
}

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::unit::Bytes;

    #[test]
    fn a_file_of_one_frame_is_these_bytes() {
        let mut writer = PcapWriter::new(Vec::new());
        writer.frame(Nanos(1_700_000_000_000_000_085), &[1, 2, 3], 60).unwrap();
        let (bytes, written) = writer.finish().unwrap();
        let expected: &[&[u8]] = &[
            &[0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0],
            &[0x00, 0xf1, 0x53, 0x65, 85, 0, 0, 0, 3, 0, 0, 0, 60, 0, 0, 0],
            &[1, 2, 3],
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(written, Written { frames: 1, bytes: Bytes(43) });
    }

    #[test]
    fn what_pcap_cannot_say_is_refused() {
        let mut writer = PcapWriter::new(Vec::new());
        assert!(writer.record(Nanos(0), 61, 60).is_err());
        assert!(writer.record(Nanos(0), 262_145, 300_000).is_err());
        assert!(writer.record(Nanos(u64::MAX), 60, 60).is_err());
        assert_eq!(writer.finish().unwrap().1, Written { frames: 0, bytes: Bytes(24) });
    }

    #[test]
    fn an_exchanged_file_begins_with_its_own_header() {
        let mut writer = PcapWriter::with_block(Vec::new(), 1);
        let mut expected = PcapWriter::with_block(Vec::new(), 1);
        for at in 0..9 {
            writer.frame(Nanos(at), &[7; 1_000], 1_000).unwrap();
            expected.frame(Nanos(at), &[7; 1_000], 1_000).unwrap();
        }
        let (first, _) = writer.exchange(Vec::new()).unwrap();
        assert_eq!(first, expected.finish().unwrap().0);
        writer.frame(Nanos(1), &[1], 1).unwrap();
        let (second, written) = writer.finish().unwrap();
        assert_eq!((second.len(), written), (41, Written { frames: 1, bytes: Bytes(41) }));
        assert_eq!(second[..24], first[..24]);
    }

    /// Keeps the sizes of the writes, and whether their addresses are pages.
    #[derive(Default)]
    struct Pages {
        bytes: Vec<u8>,
        writes: Vec<usize>,
    }

    impl Write for Pages {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert_eq!(bytes.as_ptr().align_offset(4096), 0);
            assert_eq!(self.bytes.len() % 4096, 0);
            self.bytes.extend(bytes);
            self.writes.push(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn blocks_are_whole_and_nothing_is_lost(sizes in prop::collection::vec(0..9_000_usize, 0..60)) {
            let mut writer = PcapWriter::with_block(Pages::default(), 1);
            let mut plain = file_header().to_vec();
            for (i, &size) in (0_u8..).zip(&sizes) {
                let at = Nanos(u64::from(i) * 999_999_999);
                writer.record(at, size, 9_000).unwrap().fill(i);
                plain.extend(record_header(at, size, 9_000).unwrap());
                plain.extend(vec![i; size]);
            }
            let (pages, written) = writer.finish().unwrap();
            prop_assert_eq!(&pages.bytes, &plain);
            prop_assert_eq!(usize::try_from(written.bytes.0).unwrap(), plain.len());
            let (_, blocks) = pages.writes.split_last().unwrap();
            prop_assert!(blocks.iter().all(|size| size % 4096 == 0));
        }
    }
}
