use proptest::prelude::*;

use std::io::{self, Write};

use crate::pcap::PcapWriter;
use crate::pcap::packing::Packer;

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
    let mut reader = CaptureReader::new(bytes).unwrap();
    let record = reader.next_record().unwrap().unwrap();
    assert_eq!((record.number, record.offset), (1, 24));
    let only = (record.time, record.original_length, record.bytes.to_vec());
    assert_eq!(reader.next_record().unwrap(), None);
    only
}

fn message(bytes: &[u8]) -> String {
    let mut reader = match CaptureReader::new(bytes) {
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
fn what_is_no_capture_is_named() {
    assert_eq!(message(&[]), "no capture: it starts with nothing: it is empty");
    assert_eq!(
        message(b"#!/bin/sh\n"),
        "no capture: it starts with 23212f62, not with a1b2c3d4 or a1b23c4d in either byte order, nor as pcapng does (0a0d0d0a)"
    );
    assert!(message(&[0x04, 0x22, 0x4d, 0x18]).contains("lz4"));
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

/// A block of a pcapng file, with its words written by `order`.
fn block(order: impl Fn(u32) -> [u8; 4], code: u32, content: &[u8]) -> Vec<u8> {
    let length = order(u32::try_from(content.len() + 12).unwrap());
    [&order(code), &length, content, &length].concat()
}

/// A section whose interface counts in 2^-10 s from 1 s on, with a frame of each kind of packet; and a block that nobody
/// knows between them.
fn section(order: fn(u32) -> [u8; 4], half: fn(u16) -> [u8; 2], link_type: u16) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().copied().flat_map(order).collect::<Vec<_>>();
    let option = |code: u16, value: &[u8]| {
        let length = half(u16::try_from(value.len()).unwrap());
        let pad = vec![0; value.len().next_multiple_of(4) - value.len()];
        [&half(code)[..], &length, value, &pad].concat()
    };
    let one = if order(1) == [1, 0, 0, 0] { words(&[1, 0]) } else { words(&[0, 1]) };
    let speed = if order(1) == [1, 0, 0, 0] { words(&[400, 0]) } else { words(&[0, 400]) };
    let interface = [
        half(link_type).to_vec(),
        half(0).to_vec(),
        words(&[96]),
        option(2, b"mlx5_0"),
        option(9, &[0x8a]),
        option(14, &one),
        option(8, &speed),
        option(0, b""),
    ];
    let notes = [option(1, b"why"), option(2, &order(2)), option(0, b"")].concat();
    let enhanced = [words(&[0, 0, 1_536, 3, 60]), vec![7, 8, 9, 0], notes].concat();
    let obsolete = [half(0).to_vec(), half(9).to_vec(), words(&[0, 2_048, 2, 60]), vec![5, 6, 0, 0]].concat();
    [
        block(
            order,
            0x0a0d_0d0a,
            &[words(&[0x1a2b_3c4d]), half(1).to_vec(), half(0).to_vec(), vec![255; 8]].concat(),
        ),
        block(order, 1, &interface.concat()),
        block(order, 6, &enhanced),
        block(order, 0x4000_0bad, &[1; 64]),
        block(order, 2, &obsolete),
        block(order, 3, &[words(&[3]), vec![1, 2, 3, 0]].concat()),
    ]
    .concat()
}

#[test]
fn both_byte_orders_of_pcapng_every_kind_of_packet_and_several_sections_are_read() {
    let little = section(u32::to_le_bytes, u16::to_le_bytes, 1);
    let big = section(u32::to_be_bytes, u16::to_be_bytes, 1);
    let file = [&little[..], &big].concat();
    for packing in [Packing::Plain, Packing::Gzip, Packing::Zstd] {
        let mut packer = Packer::new(Vec::new(), packing).unwrap();
        packer.write_all(&file).unwrap();
        let packed = packer.finish().unwrap();
        let mut reader = CaptureReader::new(Drops(&packed, 7)).unwrap();
        assert_eq!(reader.packing(), packing);
        for number in 1..=6 {
            let record = reader.next_record().unwrap().unwrap();
            let (time, length, bytes): (_, _, &[u8]) = match (number - 1) % 3 {
                0 => (2_500_000_000, 60, &[7, 8, 9]),
                1 => (3_000_000_000, 60, &[5, 6]),
                _ => (3_000_000_000, 3, &[1, 2, 3]),
            };
            assert_eq!((record.number, record.time.0), (number, time));
            assert_eq!((record.original_length, record.bytes), (length, bytes));
            assert_eq!(u64::from(record.interface), (number - 1) / 3);
            let noted = (number - 1) % 3 == 0;
            assert_eq!(record.comment(), noted.then_some("why"));
            assert_eq!(record.direction(), noted.then_some(Direction::Outbound));
        }
        assert_eq!(reader.next_record().unwrap(), None);
        let named = Interface {
            name: Some("mlx5_0".to_owned()),
            bits_per_second: Some(400),
            link_type: 1,
            ..Interface::default()
        };
        assert_eq!(reader.interfaces(), [named.clone(), named]);
        assert_eq!(reader.consumed(), u64::try_from(packed.len()).unwrap());
    }
}

#[test]
fn the_frames_of_one_interface_are_read_alone_and_keep_their_numbers() {
    let one = section(u32::to_le_bytes, u16::to_le_bytes, 1);
    let name = |name: &[u8; 6]| {
        let at = one.windows(6).position(|bytes| bytes == b"mlx5_0").unwrap();
        [&one[..at], name, &one[at + 6..]].concat()
    };
    let file = [name(b"mlx5_0"), name(b"mlx5_1")].concat();
    let mut reader = CaptureReader::new(&file[..]).unwrap().of_interface("mlx5_1");
    assert_eq!(reader.next_record().unwrap().unwrap().number, 4);
    let mut reader = CaptureReader::new(&file[..]).unwrap().of_interface("eth0");
    assert_eq!(reader.next_record().unwrap(), None);
}

#[test]
fn interfaces_of_other_links_are_passed_over_unless_there_is_no_other() {
    let radio = section(u32::to_le_bytes, u16::to_le_bytes, 127);
    assert_eq!(message(&radio), "link type 127 at byte 96 is not Ethernet (1)");
    let both = [radio, section(u32::to_be_bytes, u16::to_be_bytes, 1)].concat();
    let mut reader = CaptureReader::new(&both[..]).unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().number, 4);
}

#[test]
fn blocks_that_cannot_be_are_named_with_their_place() {
    let whole = section(u32::to_le_bytes, u16::to_le_bytes, 1);
    let spoiled = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        message(&bytes)
    };
    assert_eq!(
        message(&whole[..30]),
        "the pcapng block at byte 28, behind frame 0: 12 bytes are the least, 2 are left; the file is cut short"
    );
    assert_eq!(
        message(&whole[..40]),
        "the pcapng interface description at byte 28, behind frame 0: it needs 68 bytes; the file is cut short"
    );
    assert_eq!(
        spoiled(8, 9),
        "the pcapng section header at byte 0, behind frame 0: [09, 3c, 2b, 1a] is not 1a2b3c4d in either byte order"
    );
    assert_eq!(
        spoiled(12, 2),
        "the pcapng section header at byte 0, behind frame 0: its version is 2; only version 1 is known"
    );
    assert_eq!(
        spoiled(32, 3),
        "the pcapng interface description at byte 28, behind frame 0: its length 3 is not a multiple of 4 from 20 on"
    );
    assert_eq!(
        spoiled(34, 255),
        "the pcapng interface description at byte 28, behind frame 0: its length 16711748 is more than 1048576, the longest that is read"
    );
    assert_eq!(
        spoiled(92, 0),
        "the pcapng interface description at byte 28, behind frame 0: its length is 68 at its start, 0 at its end"
    );
    assert_eq!(
        spoiled(104, 5),
        "the pcapng enhanced packet at byte 96, behind frame 0: it is of interface 5, its section has 1"
    );
    assert_eq!(
        spoiled(119, 1),
        "frame 1 at byte 96: 16777219 bytes captured of 60; captured is at most original, and at most 262144"
    );
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
    let mut reader = CaptureReader::new(&bytes[..]).unwrap();
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
        let mut reader = CaptureReader::new(Drops(&bytes, drop)).unwrap();
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
        let mut sections = section(u32::to_le_bytes, u16::to_le_bytes, 1);
        sections.extend(&bytes);
        message(&sections);
        message(&bytes);
    }

    #[test]
    fn no_spoiled_byte_of_pcapng_makes_it_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut file = section(u32::to_be_bytes, u16::to_be_bytes, 1);
        let place = at.index(file.len());
        file[place] = byte;
        message(&file);
        message(&file[..cut.index(file.len())]);
    }
}
