//! The figures that the paper "The Life of a Token" works with, and that the frames add up to them.

use std::path::Path;

use serde_json::Value;

use crate::program::{judge, judged, result, root};

fn explain(plan: &str) -> Value {
    serde_json::from_str(&result(root(), &["explain", plan, "--json"])).expect("one JSON document")
}

/// The sum of a field over the operations of all stages that a test chooses.
fn sum(explained: &Value, field: &str, chosen: impl Fn(&str) -> bool) -> u64 {
    let stages = explained["stages"].as_array().expect("stages");
    let operations = stages.iter().flat_map(|stage| stage["operations"].as_array().expect("operations"));
    operations
        .filter(|operation| chosen(operation["class"].as_str().expect("class")))
        .map(|operation| operation[field].as_u64().expect("an integer"))
        .sum()
}

#[test]
fn gpt2_has_its_parameters_its_activation_and_its_gradients() {
    for plan in ["tutorial-dp8", "tutorial-pp8", "tutorial-tp8"] {
        let explained = explain(plan);
        assert_eq!(explained["model"]["parameters"], 124_439_808, "{plan}");
        assert_eq!(explained["tensors"]["activation_bytes"], 50_331_648, "{plan}");
        assert_eq!(explained["tensors"]["parameter_bytes"], 248_879_616, "{plan}");
        assert_eq!(explained["ranks"]["world"], 8, "{plan}");
    }
}

#[test]
fn data_parallelism_sends_seven_quarters_of_the_gradients() {
    let explained = explain("tutorial-dp8");
    assert_eq!(sum(&explained, "payload_bytes", |class| class == "dp_gradients"), 248_879_616);
    assert_eq!(sum(&explained, "wire_bytes", |class| class == "dp_gradients"), 435_539_328);
}

#[test]
fn tensor_parallelism_reduces_each_layer_four_times() {
    let explained = explain("tutorial-tp8");
    let layers = |class: &str| class == "tp_forward" || class == "tp_backward";
    assert_eq!(sum(&explained, "count", layers), 48);
    assert_eq!(sum(&explained, "payload_bytes", layers), 2_415_919_104);
    assert_eq!(sum(&explained, "wire_bytes", layers), 4_227_858_432);
}

#[test]
fn pipeline_parallelism_passes_seven_boundaries_both_ways() {
    let explained = explain("tutorial-pp8");
    let boundaries = |class: &str| class == "pp_forward" || class == "pp_backward";
    assert_eq!(sum(&explained, "wire_bytes", boundaries), 704_643_072);
    let layers: Vec<_> =
        explained["stages"].as_array().unwrap().iter().map(|stage| stage["layers"].clone()).collect();
    assert_eq!(layers, [2, 2, 2, 2, 1, 1, 1, 1]);
}

#[test]
fn dantes_first_verse_is_twelve_tokens() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("verse.txt"), "Nel mezzo del cammin di nostra vita").unwrap();
    let text = result(folder.path(), &["explain", "tutorial-dp8", "--text", "verse.txt", "--json"]);
    let explained: Value = serde_json::from_str(&text).unwrap();
    let ids = [45, 417, 502, 47802, 1619, 12172, 1084, 2566, 18216, 430, 410, 5350];
    assert_eq!(explained["text"]["ids"], Value::from(ids.to_vec()));
    assert_eq!(explained["text"]["tokens"], 12);
    assert_eq!(explained["text"]["words"], 7);
    assert_eq!(explained["text"]["bytes"], 35);
}

/// Payload bytes of the data frames that leave and reach the owner of a capture, as tshark counts them: UDP payload less
/// transport header, extension headers, pad and CRC.
fn counted(tshark: &Path, capture: &str, address: &str) -> (u64, u64) {
    let fields = ["ip.src", "udp.length", "infiniband.bth.opcode", "infiniband.bth.padcnt"];
    let mut arguments = vec!["-n", "-r", capture, "-T", "fields"];
    for field in &fields {
        arguments.extend(["-e", field]);
    }
    let (mut sent, mut received) = (0, 0);
    for line in judged(tshark, &arguments).lines() {
        let values: Vec<_> = line.split('\t').collect();
        let number = |place: usize| values[place].parse::<u64>().unwrap_or_else(|_| panic!("{line}"));
        let headers = match number(2) {
            0x06 => 16,
            0x07 | 0x08 => 0,
            0x09 => 4,
            0x0a => 16,
            0x0b => 20,
            0x11 => continue,
            other => panic!("opcode {other} in {capture}"),
        };
        let payload = number(1) - 8 - 12 - headers - number(3) - 4;
        *(if values[0] == address { &mut sent } else { &mut received }) += payload;
    }
    (sent, received)
}

/// Bytes of one ring all-reduce on the edge behind position `p` of `n`, one channel: NCCL cuts loops of `n` chunks, and
/// the last loop into `n` smaller ones; over all, the edge carries twice the channel less the two chunks that its ends
/// own ("2T - len(p) - len(p+1)").
fn ring_edge(channel: u64, n: u64, p: u64, chunk: u64) -> u64 {
    let owned = |q: u64| {
        let (mut rest, mut sum) = (channel, 0);
        while rest > 0 {
            let loop_bytes = rest.min(n * chunk);
            // In whole elements of two bytes, aligned to 16 bytes.
            let size =
                if loop_bytes == n * chunk { chunk } else { loop_bytes.div_ceil(n).next_multiple_of(16) };
            sum += loop_bytes.saturating_sub(q * size).min(size);
            rest -= loop_bytes;
        }
        sum
    };
    2 * channel - owned(p % n) - owned((p + 1) % n)
}

/// NCCL's split of one operation over `channels` channels (Simple, all-reduce): cells of 16 KiB, equal shares, the
/// remainder in the last.
fn channel_split(bytes: u64, channels: u64) -> Vec<u64> {
    let mut used = channels;
    while bytes < used * 512 * 64 && used >= 2 {
        used -= 1;
    }
    let traffic = (32_768.max(2 * bytes) / used).next_multiple_of(16);
    let cell = 16_384_u64;
    let cells = bytes.div_ceil(cell);
    let each = cells.min(traffic.div_ceil(2 * cell));
    let full = (cells - each) / each;
    let last = (cells - each) % each;
    let mut shares: Vec<_> = std::iter::repeat_n(each * cell, usize::try_from(full + 1).unwrap()).collect();
    if last > 0 {
        shares.push(last * cell);
    }
    let over = shares.iter().sum::<u64>() - bytes;
    *shares.last_mut().unwrap() -= over;
    shares
}

#[test]
fn the_closed_form_agrees_with_ncclss_published_shapes() {
    assert_eq!(channel_split(268_435_456, 4), [67_108_864; 4]);
    assert_eq!((0..4).map(|_| ring_edge(67_108_864, 4, 0, 2 << 20)).sum::<u64>(), 402_653_184);
}
