use std::num::NonZeroU64;

use pcap_file::pcapng::PcapNgReader;
use proptest::prelude::*;

use super::super::{CaptureWriter, Files, Form, Split};
use super::*;
use crate::pcap::{CaptureReader, LONGEST};
use crate::unit::Bytes;
use crate::wire::Mac;

fn section() -> Section {
    let interface = |name: &str, last| Interface {
        name: Some(name.to_owned()),
        description: Some("ranks 0-7".to_owned()),
        mac: Some(Mac([2, 0, 198, 18, 0, last])),
        addresses: vec![([198, 18, 0, last].into(), 15), ("2001:2::1".parse().unwrap(), 48)],
        bits_per_second: Some(400_000_000_000),
        link_type: 1,
    };
    Section {
        program: "tokenwire".to_owned(),
        comment: Some("a plan".to_owned()),
        interfaces: vec![interface("host0-nic0", 1), interface("host1-nic0", 2)],
        names: vec![
            ([198, 18, 0, 1].into(), "host0-nic0".to_owned()),
            ("2001:2::1".parse().unwrap(), "a".to_owned()),
        ],
    }
}

#[test]
fn a_packet_with_notes_is_these_bytes() {
    let section = Section { interfaces: vec![Interface::default()], ..Section::default() };
    let mut writer = PcapNgWriter::new(Vec::new(), &section).unwrap();
    let head = usize::try_from(writer.written().bytes.0).unwrap();
    let label = Label { interface: 0, direction: Some(Direction::Outbound), comment: Some("why") };
    writer.frame(&label, Nanos(0x1_0000_0002), &[7, 8, 9], 60).unwrap();
    let (bytes, written) = writer.finish().unwrap();
    let expected: &[&[u8]] = &[
        &[6, 0, 0, 0, 56, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 60, 0, 0, 0],
        &[7, 8, 9, 0],
        &[1, 0, 3, 0, b'w', b'h', b'y', 0, 2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0],
        &[56, 0, 0, 0],
    ];
    // 8 + 20 + 4 bytes of packet, 20 of options, the length again: 56.
    assert_eq!(&bytes[head..head + 56], expected.concat());
    assert_eq!(bytes[head + 56..head + 60], [5, 0, 0, 0], "and the interface's counts behind it");
    assert_eq!((written.frames, written.bytes), (1, Bytes(u64::try_from(bytes.len()).unwrap())));
}

#[test]
fn what_is_written_is_read_with_all_that_was_said() {
    let mut writer = PcapNgWriter::with_block(Vec::new(), 1, &section()).unwrap();
    let labels = [
        Label { interface: 1, direction: Some(Direction::Inbound), comment: None },
        Label { interface: 0, direction: None, comment: Some("step 0, layer 3") },
        Label { interface: 1, direction: None, comment: None },
    ];
    for (size, label) in (1..).zip(&labels) {
        writer.frame(label, Nanos(1_767_225_600_000_000_001), &vec![9; size], 100).unwrap();
    }
    let (bytes, _) = writer.finish().unwrap();
    let mut reader = CaptureReader::new(&bytes[..]).unwrap();
    for (size, label) in (1..).zip(&labels) {
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!(usize::try_from(record.interface).unwrap(), label.interface);
        assert_eq!((record.direction(), record.comment()), (label.direction, label.comment));
        assert_eq!((record.bytes.len(), record.original_length), (size, 100));
        assert_eq!(record.time, Nanos(1_767_225_600_000_000_001));
    }
    assert_eq!(reader.next_record().unwrap(), None);
    assert_eq!(reader.interfaces(), section().interfaces);
}

#[test]
fn another_reader_reads_it_too() {
    let mut writer = PcapNgWriter::new(Vec::new(), &section()).unwrap();
    for size in 0..9 {
        let label = Label { interface: size % 2, direction: None, comment: Some("a note") };
        writer.frame(&label, Nanos(5), &vec![7; size], 60).unwrap();
    }
    let (bytes, _) = writer.finish().unwrap();
    let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
    let mut kinds = String::new();
    while let Some(block) = reader.next_block() {
        kinds.push_str(match block.unwrap().0 {
            pcap_file::pcapng::Block::InterfaceDescription(_) => "i",
            pcap_file::pcapng::Block::NameResolution(block) => {
                assert_eq!(block.records.len(), 2);
                "n"
            }
            pcap_file::pcapng::Block::EnhancedPacket(packet) => {
                assert_eq!(packet.original_len, 60);
                "p"
            }
            pcap_file::pcapng::Block::InterfaceStatistics(_) => "s",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(kinds, "iinpppppppppss");
}

#[test]
fn what_pcapng_cannot_say_is_refused() {
    let mut writer = PcapNgWriter::new(Vec::new(), &section()).unwrap();
    assert!(writer.record(&Label::default(), Nanos(0), 61, 60).is_err());
    assert!(writer.record(&Label { interface: 2, ..Label::default() }, Nanos(0), 60, 60).is_err());
    let long = "x".repeat(LONGEST_COMMENT + 1);
    assert!(writer.record(&Label { comment: Some(&long), ..Label::default() }, Nanos(0), 60, 60).is_err());
    let longest = Label { comment: Some(&long[1..]), ..Label::default() };
    writer.record(&longest, Nanos(0), LONGEST, LONGEST).unwrap().fill(1);
    let (bytes, _) = writer.finish().unwrap();
    let mut reader = CaptureReader::new(&bytes[..]).unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().comment(), Some(&long[1..]));
    assert!(
        PcapNgWriter::new(Vec::new(), &Section { comment: Some("x".repeat(70_000)), ..section() }).is_err()
    );
}

/// Files in memory, and when their first frames were seen.
#[derive(Debug, Default)]
struct Memory(Vec<(Vec<u8>, Option<Nanos>)>);

impl Files for Memory {
    type File = Vec<u8>;

    fn next(&mut self) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn end(&mut self, file: Vec<u8>, first: Option<Nanos>, _: bool) -> io::Result<()> {
        self.0.push((file, first));
        Ok(())
    }
}

proptest! {
    #[test]
    fn the_files_of_a_set_hold_the_frames_of_the_whole_in_order(
        sizes in prop::collection::vec(0..3_000_usize, 0..50),
        most in 1..9_u64,
        bytes in prop::option::of(1..9_000_u64),
        labelled in any::<bool>(),
    ) {
        let form = if labelled { Form::PcapNg(section()) } else { Form::Pcap };
        let split = Split { frames: NonZeroU64::new(most), bytes: bytes.map(Bytes) };
        let mut writer = CaptureWriter::new(Memory::default(), &form, 1, split).unwrap();
        for (i, &size) in (0_u8..).zip(&sizes) {
            let at = Nanos(u64::from(i) * 1_000);
            writer.record(&Label { comment: Some("a"), ..Label::default() }, at, size, 3_000).unwrap().fill(i);
        }
        let (files, written) = writer.finish().unwrap();
        let mut next = 0_u8;
        for (file, first) in &files.0 {
            let mut reader = CaptureReader::new(&file[..]).unwrap();
            let mut count = 0;
            while let Some(record) = reader.next_record().unwrap() {
                prop_assert!(count > 0 || *first == Some(record.time));
                prop_assert_eq!(record.time, Nanos(u64::from(next) * 1_000));
                prop_assert_eq!(record.bytes, vec![next; sizes[usize::from(next)]]);
                (next, count) = (next + 1, count + 1);
            }
            prop_assert!(count <= most && (count > 0 || sizes.is_empty()));
        }
        prop_assert_eq!(usize::from(next), sizes.len());
        prop_assert_eq!(written.frames, u64::from(next));
        prop_assert_eq!(written.bytes.0, files.0.iter().map(|(file, _)| u64::try_from(file.len()).unwrap()).sum::<u64>());
    }
}
