use proptest::prelude::*;

use crate::pcap::PcapWriter;

use super::*;

/// A header and one record of three bytes, each word written by `order`.
fn file(order: impl Fn(u32) -> [u8; 4], magic: u32, fraction: u32) -> Vec<u8> {
    // In either byte order major and minor version are two bytes each; nobody reads them.
    let words = [magic, 0x0002_0004, 0, 0, 262_144, 1, 1_700_000_000, fraction, 3, 60];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(order).collect();
    bytes.extend([7, 8, 9]);
    bytes
}

fn only(bytes: &[u8]) -> (Nanos, u32, Vec<u8>) {
    let mut reader = PcapReader::new(bytes).unwrap();
    let record = reader.next_record().unwrap().unwrap();
    assert_eq!((record.number, record.offset), (1, 24));
    let only = (record.time, record.original_length, record.bytes.to_vec());
    assert_eq!(reader.next_record().unwrap(), None);
    only
}

fn message(bytes: &[u8]) -> String {
    let mut reader = match PcapReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return error.to_string(),
    };
    loop {
        match reader.next_record() {
            Ok(Some(_)) => {}
            Ok(None) => return "no error".to_owned(),
            Err(error) => return error.to_string(),
        }
    }
}

#[test]
fn both_byte_orders_and_both_resolutions_are_read() {
    for order in [u32::to_le_bytes, u32::to_be_bytes] {
        let nanos = only(&file(order, 0xa1b2_3c4d, 85));
        assert_eq!(nanos, (Nanos(1_700_000_000_000_000_085), 60, vec![7, 8, 9]));
        let micros = only(&file(order, 0xa1b2_c3d4, 85));
        assert_eq!(micros, (Nanos(1_700_000_000_000_085_000), 60, vec![7, 8, 9]));
    }
}

#[test]
fn what_is_no_pcap_is_named() {
    assert_eq!(message(&[]), "no pcap file: it starts with nothing: it is empty");
    assert_eq!(
        message(b"#!/bin/sh\n"),
        "no pcap file: it starts with 23212f62, not with a1b2c3d4 or a1b23c4d in either byte order"
    );
    assert!(message(&[0x0a, 0x0d, 0x0d, 0x0a, 0, 0]).contains("pcapng"));
    assert!(message(&[0x1f, 0x8b, 8, 0]).contains("gzip"));
    assert!(message(&[0x28, 0xb5, 0x2f, 0xfd]).contains("zstd"));
    assert_eq!(
        message(&[0x4d, 0x3c, 0xb2, 0xa1, 2]),
        "a pcap file starts with 24 bytes of header, 5 are there"
    );
    let mut radio = file(u32::to_le_bytes, 0xa1b2_3c4d, 0);
    radio[20] = 127;
    assert_eq!(message(&radio), "link type 127 at byte 20 is not Ethernet (1)");
}

#[test]
fn a_cut_record_is_named_with_its_place() {
    let whole = file(u32::to_le_bytes, 0xa1b2_3c4d, 0);
    assert_eq!(
        message(&whole[..39]),
        "frame 1 at byte 24: its header needs 16 bytes, 15 are left; the file is cut short"
    );
    assert_eq!(
        message(&whole[..42]),
        "frame 1 at byte 24: the frame needs 3 bytes, 2 are left; the file is cut short"
    );
    assert_eq!(message(&whole[..24]), "no error");
}

#[test]
fn lengths_and_times_that_cannot_be_are_refused() {
    let mut bytes = file(u32::to_le_bytes, 0xa1b2_3c4d, 1_000_000_000);
    assert_eq!(message(&bytes), "frame 1 at byte 24: 1000000000 ns are no fraction of a second");
    bytes[28..36].fill(0xff);
    assert_eq!(
        message(&bytes),
        "frame 1 at byte 24: 4294967295 bytes captured of 60; captured is at most original, and at most 262144"
    );
    bytes[36..40].fill(0xff);
    assert!(message(&bytes).contains("at most 262144"));
}

/// Gives few bytes at a time, as pipes do.
struct Drops<'a>(&'a [u8], usize);

impl Read for Drops<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = into.len().min(self.1).min(self.0.len());
        into[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

#[test]
fn the_longest_frames_pass_through_the_buffer() {
    let mut writer = PcapWriter::new(Vec::new());
    for fill in 0..9 {
        writer.record(Nanos(0), 262_144, 262_144).unwrap().fill(fill);
    }
    let (bytes, _) = writer.finish().unwrap();
    let mut reader = PcapReader::new(&bytes[..]).unwrap();
    for fill in 0..9 {
        let record = reader.next_record().unwrap().unwrap();
        assert!(record.bytes.len() == 262_144 && record.bytes.iter().all(|&byte| byte == fill));
    }
    assert_eq!(reader.next_record().unwrap(), None);
}

proptest! {
    #[test]
    fn the_reader_reads_what_the_writer_wrote(
        frames in prop::collection::vec((0..1_u64 << 61, prop::collection::vec(any::<u8>(), 0..80), 80..99_usize), 0..40),
        drop in 1..50_usize,
    ) {
        let mut writer = PcapWriter::with_block(Vec::new(), 4096);
        for (at, bytes, original) in &frames {
            writer.frame(Nanos(*at), bytes, *original).unwrap();
        }
        let (bytes, written) = writer.finish().unwrap();
        prop_assert_eq!(written.frames, u64::try_from(frames.len()).unwrap());
        let mut reader = PcapReader::new(Drops(&bytes, drop)).unwrap();
        for (at, bytes, original) in &frames {
            let record = reader.next_record().unwrap().unwrap();
            prop_assert_eq!((record.time, record.bytes), (Nanos(*at), &bytes[..]));
            prop_assert_eq!(usize::try_from(record.original_length).unwrap(), *original);
        }
        prop_assert_eq!(reader.next_record().unwrap(), None);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut file = file(u32::to_le_bytes, 0xa1b2_3c4d, 0);
        file.extend(&bytes);
        message(&file);
        message(&bytes);
    }
}
