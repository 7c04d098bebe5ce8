//! The profile: its columns, colours and filters, and the heuristics that it turns off.

use std::collections::BTreeSet;
use std::fs;

use crate::program::root;

use super::bench::{Bench, OPCODE, PAYLOAD_OF_MIDDLE, records, write};

#[test]
fn the_profile_loads_and_prints_its_columns() {
    let Some(bench) = Bench::new() else { return };
    let profile = bench.path("config/wireshark/profiles/tokenwire");
    fs::create_dir_all(&profile).unwrap();
    for file in fs::read_dir(root().join("docs/wireshark/tokenwire")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), profile.join(file.file_name())).unwrap();
    }
    // The capture lies in a trace folder, so nobody need say where that is.
    let capture = bench.capture(0);
    let lines = bench.run(&capture, &["-C", "tokenwire", "-Y", "tokenwire.message.frame == 1", "-c", "500"]);
    let line = lines.lines().find(|line| line.contains("tp_forward")).unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert!(words[1].len() == "0.000000000".len(), "nanoseconds: {line}");
    assert_eq!(words[2..7].join(" "), "198.18.0.1 → 198.18.0.2 WRITE First", "{line}");
    assert!(
        line.contains(" 0 1 0 0 tp_forward all_reduce 1 "),
        "rank, to rank, step, layer, class, operation: {line}"
    );

    let coloured =
        bench.fields(&capture, "frame", &["frame.coloring_rule.name"], &["-C", "tokenwire", "--color"]);
    let rules: BTreeSet<_> = coloured.into_iter().flatten().collect();
    for (rule, expected) in
        [("Forward", true), ("Backward", true), ("End of step", true), ("Acknowledgement", true)]
            .into_iter()
            .chain(
                ["NAK", "Wrong checksum", "Retransmission", "Missing or out of order"]
                    .map(|trouble| (trouble, false)),
            )
    {
        assert_eq!(rules.contains(rule), expected, "{rule}: {rules:?}");
    }

    // Each filter of the profile is one that this Wireshark understands.
    let text = |file: &str| fs::read_to_string(root().join("docs/wireshark/tokenwire").join(file)).unwrap();
    let saved = text("dfilters");
    let saved =
        saved.lines().map(|line| line[1..].split_once("\" ").expect("a name and a filter").1.to_owned());
    let buttons = text("dfilter_buttons");
    let buttons = buttons.lines().map(|line| line.split("\",\"").nth(2).unwrap().replace("\\x22", "\""));
    let colours = text("colorfilters");
    let colours = colours
        .lines()
        .filter(|line| line.starts_with('@'))
        .map(|line| line.split('@').nth(2).unwrap().to_owned());
    let filters: Vec<_> = saved.chain(buttons).chain(colours).collect();
    assert!(filters.len() > 25);
    for filter in filters {
        bench.run(&capture, &["-c", "1", "-Y", &filter]);
    }
}

#[test]
fn the_profile_keeps_payloads_from_being_taken_for_protocols() {
    let Some(bench) = Bench::new() else { return };
    let profile = bench.path("config/wireshark/profiles/tokenwire");
    fs::create_dir_all(&profile).unwrap();
    fs::copy(root().join("docs/wireshark/tokenwire/heuristic_protos"), profile.join("heuristic_protos"))
        .unwrap();
    let mut records = records(&bench.capture(0));
    records.retain(|(_, bytes)| bytes[OPCODE] == 7);
    records.truncate(1);
    records[0].1[PAYLOAD_OF_MIDDLE..][..4].copy_from_slice(&[8, 6, 0, 0]);
    let capture = bench.path("trap.pcap");
    write(&capture, &records);
    let protocols = |more: &[&str]| bench.fields(&capture, "frame", &["frame.protocols"], more)[0][0].clone();
    assert!(protocols(&[]).ends_with(":arp"), "Wireshark takes 08 06 00 00 for ARP: {}", protocols(&[]));
    assert!(protocols(&["-C", "tokenwire"]).ends_with(":infiniband:data"));
}
