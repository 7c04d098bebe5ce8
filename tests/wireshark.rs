//! The companion for Wireshark in docs/wireshark, judged by tshark: what it says of frames is what the trace folder says.

mod bench;
mod profile;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use bench::{
    Bench, FROM, OPCODE, PATH_MTU, PAYLOAD_OF_MIDDLE, PLAN, PORT, PSN, QPN, SYNDROME, TO, frames, records,
    write,
};
use traces::unit::Nanos;
#[test]
fn every_frame_is_told_the_origin_that_the_graph_gives_its_message() {
    let Some(bench) = Bench::new() else { return };
    let columns = [
        "step",
        "microbatch",
        "layer",
        "phase",
        "class",
        "operation",
        "group",
        "instance",
        "collective_step",
        "channel",
        "slice",
        "message.bytes",
        "message.frames",
        "source",
        "host",
        "rank",
    ]
    .map(|column| format!("tokenwire.{column}"));
    let mut asked = vec!["tokenwire.message", "tokenwire.message.frame"];
    asked.extend(columns.iter().map(String::as_str));
    for host in [0, 5] {
        let expected: BTreeMap<_, _> = bench
            .messages(host)
            .into_iter()
            .map(|message| {
                let origin = message.origin;
                let optional =
                    |number: Option<u32>| number.map_or(String::new(), |number| number.to_string());
                let told = [
                    origin.step.to_string(),
                    optional(origin.microbatch),
                    optional(origin.layer),
                    origin.phase.to_string(),
                    origin.class.to_string(),
                    origin.operation.to_string(),
                    origin.group.0.to_string(),
                    origin.instance.to_string(),
                    origin.collective_step.to_string(),
                    origin.channel.to_string(),
                    origin.slice.to_string(),
                    message.bytes.0.to_string(),
                    frames(&message).to_string(),
                    "trace".to_owned(),
                    format!("host{host}"),
                    host.to_string(),
                ];
                (message.id.to_string(), told.to_vec())
            })
            .collect();
        let filter = format!("tokenwire.kind == \"data\" && tokenwire.rank == {host}");
        let mut met: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for row in bench.fields(&bench.capture(host), &filter, &asked, &["-o", "tokenwire.trace:trace"]) {
            assert_eq!(row[2..], expected[&row[0]], "message {}", row[0]);
            assert!(met.entry(row[0].clone()).or_default().insert(row[1].parse().unwrap()), "{row:?}");
        }
        assert_eq!(met.len(), expected.len(), "all messages of host {host} are met");
        for message in bench.messages(host) {
            let numbers: Vec<_> = met[&message.id.to_string()].iter().copied().collect();
            assert_eq!(numbers, (1..=frames(&message)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn filters_count_what_manifest_and_graph_count() {
    let Some(bench) = Bench::new() else { return };
    let manifest = bench.manifest();
    let capture = bench.capture(0);
    for class in manifest["nics"][0]["classes"].as_array().unwrap() {
        let name = class["class"].as_str().unwrap();
        let sent = format!(
            "tokenwire.host == \"host0\" && tokenwire.kind == \"data\" && tokenwire.class == \"{name}\""
        );
        let rows = bench.fields(&capture, &sent, &["tokenwire.message", "tokenwire.message.frame"], &[]);
        assert_eq!(class["frames"], rows.len(), "{name}");
        assert_eq!(class["messages"], rows.iter().filter(|row| row[1] == "1").count(), "{name}");
    }
    let of_layer = |layer| -> u64 {
        bench.messages(0).iter().filter(|message| message.origin.layer == Some(layer)).map(frames).sum()
    };
    for layer in 0..2 {
        let filter =
            format!("tokenwire.layer == {layer} && tokenwire.rank == 0 && tokenwire.kind == \"data\"");
        let counted = bench.count(&capture, &filter);
        assert!(
            counted > 100 && u64::try_from(counted).unwrap() == of_layer(layer),
            "layer {layer}: {counted}"
        );
    }
    assert_eq!(bench.count(&capture, "tokenwire.layer == 3"), 0, "layer 3 is the other stage's");
    for wrong in [
        "tokenwire.retransmission",
        "tokenwire.gap",
        "tokenwire.out_of_order",
        "tokenwire.duplicate_ack",
        "_ws.lua.error",
    ] {
        assert_eq!(bench.count(&capture, wrong), 0, "{wrong}");
    }
    let acknowledged = bench.fields(
        &capture,
        "tokenwire.acknowledges",
        &["frame.number", "tokenwire.acknowledges", "tokenwire.acknowledged_after"],
        &[],
    );
    assert!(acknowledged.len() > 100);
    for row in acknowledged {
        let (number, data): (u64, u64) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        assert!(data < number && row[2].parse::<f64>().unwrap() > 0.0, "{row:?}");
    }
}

#[test]
fn a_lost_frame_shows_as_gap_and_retransmissions() {
    let Some(bench) = Bench::new() else { return };
    // What host 4 receives from host 0 along the pipeline: the fifth frame of the first long message is lost, the receiver
    // says so, and the sender goes back to it.
    let original = records(&bench.capture(4));
    let data = |bytes: &[u8]| matches!(bytes[OPCODE], 6..=9);
    let first = original.iter().find(|(_, bytes)| bytes[OPCODE] == 6).unwrap().1.clone();
    let flow = |bytes: &[u8]| data(bytes) && bytes[QPN] == first[QPN];
    let psn =
        |bytes: &[u8]| u32::from_be_bytes([0, bytes[PSN.start], bytes[PSN.start + 1], bytes[PSN.start + 2]]);
    let start = psn(&first);
    let answers =
        |bytes: &[u8]| bytes[OPCODE] == 0x11 && bytes[TO] == first[FROM] && bytes[PORT] == first[PORT];
    let acknowledgement = original.iter().find(|(_, bytes)| answers(bytes)).unwrap().1.clone();
    let (mut told, mut again) = (Vec::new(), Vec::new());
    for (time, bytes) in original.iter().take(200) {
        let place = psn(bytes).wrapping_sub(start);
        let ours = flow(bytes);
        if ours && (4..=6).contains(&place) {
            again.push(bytes.clone());
        }
        if !(ours && place == 4) {
            told.push((*time, bytes.clone()));
        }
        if ours && place == 5 {
            let mut nak = acknowledgement.clone();
            nak[SYNDROME] = 0x60;
            nak[PSN].copy_from_slice(&(start + 4).to_be_bytes()[1..]);
            told.push((*time, nak));
        }
        if ours && place == 6 {
            told.extend(again.drain(..).map(|bytes| (*time, bytes)));
        }
    }
    let capture = bench.path("lost.pcap");
    write(&capture, &told);
    for trace in ["tokenwire.trace:trace", "tokenwire.trace:"] {
        let more = ["-o", trace];
        let place = |row: &Vec<String>| row[0].parse::<u32>().unwrap() - start;
        // Each cause by the number of its frame: the NAK follows the frame that shows the gap.
        let gap = told.iter().position(|(_, bytes)| flow(bytes) && psn(bytes) == start + 5).unwrap() + 1;
        for (filter, cause) in [("tokenwire.kind == \"nak\"", gap), ("tokenwire.retransmission", gap + 1)] {
            let causes = bench.fields(&capture, filter, &["tokenwire.caused_by"], &more);
            assert!(
                !causes.is_empty() && causes.iter().all(|row| row[0] == cause.to_string()),
                "{filter}: {causes:?}"
            );
        }
        let gaps =
            bench.fields(&capture, "tokenwire.gap == 1", &["infiniband.bth.psn", "_ws.col.Info"], &more);
        assert_eq!(gaps.iter().map(place).collect::<Vec<_>>(), [5]);
        assert!(gaps[0][1].starts_with("[1 missing] "), "{gaps:?}");
        let again = bench.fields(&capture, "tokenwire.retransmission", &["infiniband.bth.psn"], &more);
        assert_eq!(again.iter().map(place).collect::<Vec<_>>(), [4, 5, 6]);
        let nak = bench.fields(
            &capture,
            "tokenwire.kind == \"nak\"",
            &["infiniband.bth.psn", "tokenwire.opcode"],
            &more,
        );
        assert_eq!(
            (nak.iter().map(place).collect::<Vec<_>>(), nak[0][1].as_str()),
            (vec![4], "NAK sequence")
        );
    }
}

#[test]
fn a_wrong_invariant_crc_is_found_where_it_was_planted_and_nowhere_else() {
    let Some(bench) = Bench::new() else { return };
    let mut records = records(&bench.capture(1));
    records.truncate(300);
    let last = records[6].1.len() - 1;
    records[6].1[last] ^= 1;
    let capture = bench.path("spoiled.pcap");
    write(&capture, &records);
    let checked = ["-o", "tokenwire.check_icrc:TRUE"];
    let wrong =
        bench.fields(&capture, "tokenwire.icrc.good == 0", &["frame.number", "_ws.expert.message"], &checked);
    assert_eq!(wrong, [["7", "Invariant CRC is wrong"]]);
    assert_eq!(bench.fields(&capture, "tokenwire.icrc.good == 1", &["frame.number"], &checked).len(), 299);
    assert_eq!(bench.count(&capture, "tokenwire.icrc"), 0, "it is off unless asked for");

    let plan = PLAN.replace("[transport]", "addresses = \"2001:2::/48\"\nvlan = 5\n[transport]");
    let Some(bench) = Bench::of(&plan) else { return };
    let told = ["tokenwire.icrc.good", "tokenwire.source"];
    let rows = bench.fields(&bench.capture(1), "ipv6 && vlan && frame.number <= 300", &told, &checked);
    assert_eq!(rows.iter().filter(|row| row[..] == ["1", "trace"]).count(), 300, "IPv6 and a VLAN tag");
}

#[test]
fn a_stamp_of_a_replay_is_read() {
    let Some(bench) = Bench::new() else { return };
    let mut records = records(&bench.capture(0));
    let middle = records.iter_mut().find(|(_, bytes)| bytes[OPCODE] == 7).unwrap();
    let mut stamp = b"tw\x01\x0a\x00\xc0\xff\xee".to_vec();
    for number in [5_u64, 0x1_0000_0000, 0x1_0000_0007] {
        stamp.extend(number.to_be_bytes());
    }
    middle.1[PAYLOAD_OF_MIDDLE..][..32].copy_from_slice(&stamp);
    let capture = bench.path("stamped.pcap");
    write(&capture, &records);
    let columns = ["run", "sequence", "intended", "departure", "lateness", "class"]
        .map(|part| format!("tokenwire.stamp.{part}"));
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    let said = bench.fields(&capture, "tokenwire.stamp", &columns, &[]);
    assert_eq!(said, [["0x00c0ffee", "5", "4294967296", "4294967303", "7", "10"]]);
}

/// A pcapng file of one interface with nanoseconds, and comments on some frames.
fn commented(records: &[(Nanos, Vec<u8>, Option<String>)]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = u32::try_from(body.len() + 12).unwrap().to_le_bytes();
        [&kind.to_le_bytes(), &length[..], body, &length].concat()
    };
    let padded = |bytes: &[u8]| [bytes, &[0; 3][..(4 - bytes.len() % 4) % 4]].concat();
    let half = |number: usize| u16::try_from(number).unwrap().to_le_bytes();
    let word = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let interface = [&[1, 0, 0, 0][..], &word(65_535), &[9, 0, 1, 0, 9, 0, 0, 0], &[0; 4]].concat();
    let mut file = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    for (time, bytes, comment) in records {
        let [high, low] =
            [time.0 >> 32, time.0 & 0xffff_ffff].map(|part| u32::try_from(part).unwrap().to_le_bytes());
        let mut body =
            [&[0; 4][..], &high, &low, &word(bytes.len()), &word(bytes.len()), &padded(bytes)].concat();
        if let Some(text) = comment {
            body.extend([&half(1)[..], &half(text.len()), &padded(text.as_bytes()), &[0; 4]].concat());
        }
        file.extend(block(6, &body));
    }
    file
}

#[test]
fn a_comment_on_the_first_frame_tells_of_the_whole_message_without_a_trace_folder() {
    let Some(bench) = Bench::new() else { return };
    let comment = "step 1, microbatch 2, layer 3, backward, tp_backward: all_reduce of group 4, collective step 5, \
        channel 1, slice 6; message qp20#17, 9000 bytes, rank 8 -> rank 9";
    let mut records: Vec<_> =
        records(&bench.capture(0)).into_iter().map(|(time, bytes)| (time, bytes, None)).collect();
    let first = records.iter_mut().find(|(_, bytes, _)| bytes[OPCODE] == 6).unwrap();
    first.2 = Some(comment.to_owned());
    let dma_length = u64::from(u32::from_be_bytes(first.1[66..70].try_into().unwrap()));
    let capture = bench.path("commented.pcapng");
    fs::write(&capture, commented(&records)).unwrap();
    let columns = [
        "step",
        "microbatch",
        "layer",
        "phase",
        "class",
        "operation",
        "group",
        "collective_step",
        "channel",
        "slice",
        "message",
        "rank",
        "peer_rank",
    ]
    .map(|column| format!("tokenwire.{column}"));
    let mut asked: Vec<_> = columns.iter().map(String::as_str).collect();
    asked.push("tokenwire.message.frame");
    let of_comment = "tokenwire.source == \"comment\"";
    let rows = bench.fields(&capture, &format!("{of_comment} && tokenwire.kind == \"data\""), &asked, &[]);
    for (place, row) in rows.iter().enumerate() {
        assert_eq!(row[..13].join(" "), "1 2 3 backward tp_backward all_reduce 4 5 1 6 20.17 8 9");
        assert_eq!(row[13], (place + 1).to_string());
    }
    assert_eq!(u64::try_from(rows.len()).unwrap(), dma_length.div_ceil(PATH_MTU));
    let answer = format!("{of_comment} && tokenwire.acknowledges");
    let answers = bench.fields(&capture, &answer, &["tokenwire.rank", "tokenwire.peer_rank"], &[]);
    assert_eq!(answers, [["9", "8"]], "its acknowledgement comes from the other end");
}
