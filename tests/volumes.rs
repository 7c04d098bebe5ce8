//! What the frames carry, counted by an outside program, is what the manifest says and what the closed forms give.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::program::{judge, judged, result, root};

const RANKS: u64 = 8;
const ACTIVATION: u64 = 50_331_648;

/// Generates a tutorial plan's trace with the captures of some NICs, and returns what each of these sends and receives.
fn carried(plan: &str, nics: &[u64]) -> Option<Vec<(u64, u64)>> {
    let python = judge("python3")?;
    let folder = tempfile::tempdir().unwrap();
    let list = nics.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    result(folder.path(), &["generate", plan, "-o", "trace", "--snap", "96", "--nics", &list]);
    let trace = folder.path().join("trace");
    let manifest: Value =
        serde_json::from_str(&std::fs::read_to_string(trace.join("manifest.json")).unwrap()).unwrap();
    let script = root().join("tests/judges/payload.py");
    let counted = nics.iter().map(|&nic| {
        let nic = &manifest["nics"][usize::try_from(nic).unwrap()];
        let mac = nic["mac"].as_str().expect("a MAC address");
        // A long capture is a set of files, one behind the other.
        let (mut sent, mut received) = (0, 0);
        for capture in nic["pcap"].as_array().expect("captures") {
            let capture = trace.join(capture.as_str().expect("a capture"));
            let said = judged(&python, &[script.to_str().unwrap(), capture.to_str().unwrap(), mac]);
            let words: Vec<_> = said.split_whitespace().collect();
            let number = |place: usize| words[place].parse::<u64>().unwrap_or_else(|_| panic!("{said}"));
            sent += number(3);
            received += number(6);
        }
        assert_eq!(nic["payload_bytes_sent"], sent, "{plan}: the manifest's sum");
        assert_eq!(nic["payload_bytes_received"], received, "{plan}: the manifest's sum");
        (sent, received)
    });
    Some(counted.collect())
}

#[test]
fn data_parallel_nics_carry_the_ring_edges_of_all_buckets() {
    let nics: Vec<_> = (0..RANKS).collect();
    let Some(carried) = carried("tutorial-dp8", &nics) else { return };
    let buckets = gpt2_buckets();
    assert_eq!(buckets.iter().sum::<u64>(), 248_879_616);
    for (place, (sent, received)) in nics.into_iter().zip(carried) {
        assert_eq!(
            sent,
            buckets.iter().map(|&bucket| all_reduce_edge(bucket, place)).sum::<u64>(),
            "sent by {place}"
        );
        let before = (place + RANKS - 1) % RANKS;
        assert_eq!(received, buckets.iter().map(|&bucket| all_reduce_edge(bucket, before)).sum::<u64>());
    }
}

#[test]
fn pipeline_nics_carry_activations_gradients_and_at_the_ends_the_tied_embedding() {
    let nics: Vec<_> = (0..RANKS).collect();
    let Some(carried) = carried("tutorial-pp8", &nics) else { return };
    let embedding = 50_257 * 768 * 2;
    let tied = |place| ring_all_reduce_edge(embedding, 2, place);
    let mut boundaries = 0;
    for (stage, (sent, _)) in nics.into_iter().zip(carried) {
        let ends = match stage {
            0 => tied(0),
            7 => tied(1),
            _ => 0,
        };
        let passed = ACTIVATION * (u64::from(stage < 7) + u64::from(stage > 0));
        assert_eq!(sent, passed + ends, "sent by stage {stage}");
        boundaries += sent - ends;
    }
    assert_eq!(boundaries, 704_643_072);
}

#[test]
fn tensor_parallel_nics_carry_the_ring_edges_of_all_reductions() {
    let nics = [0, 5];
    let Some(carried) = carried("tutorial-tp8", &nics) else { return };
    for (place, (sent, _)) in nics.into_iter().zip(carried) {
        // Twelve layers forward and backward, the embedding, the head's input gradient; three scalars a token.
        let activations = (12 * 4 + 1 + 1) * all_reduce_edge(ACTIVATION, place);
        let cross_entropy = 3 * all_reduce_edge(32 * 1024 * 4, place);
        assert_eq!(sent, activations + cross_entropy, "sent by {place}");
    }
}

#[test]
fn a_trace_is_the_same_with_one_thread_and_with_many() {
    let folder = tempfile::tempdir().unwrap();
    for (threads, output) in [("1", "one"), ("3", "three")] {
        result(folder.path(), &["generate", "demo", "-o", output, "--threads", threads, "--steps", "1"]);
    }
    let same = Command::new("diff").args(["-r", "one", "three"]).current_dir(folder.path()).output().unwrap();
    assert!(same.status.success(), "{}", String::from_utf8_lossy(&same.stdout));
}

#[test]
fn choosing_nics_changes_no_frame_and_no_total() {
    let folder = tempfile::tempdir().unwrap();
    result(folder.path(), &["generate", "demo", "-o", "all", "--steps", "1"]);
    result(folder.path(), &["generate", "demo", "-o", "one", "--steps", "1", "--nics", "2"]);
    let bytes = |name: &str| std::fs::read(folder.path().join(name).join("pcap/host2-nic0.pcap")).unwrap();
    assert!(bytes("all") == bytes("one"));
    let sent = |name: &str| {
        let text = std::fs::read_to_string(folder.path().join(name).join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_str(&text).unwrap();
        manifest["nics"][2]["payload_bytes_sent"].as_u64().unwrap()
    };
    assert_eq!(sent("all"), sent("one"));
    assert!(!Path::new(&folder.path().join("one/pcap/host0-nic0.pcap")).exists());
}

#[test]
fn the_closed_forms_agree_with_shapes_that_nccl_is_known_for() {
    // Four nodes of one GPU, 256 MiB: each NIC sends 402,653,184 bytes on four equal channels.
    assert_eq!(channel_split(268_435_456), [67_108_864; 4]);
    let edge = |place| {
        channel_split(268_435_456).into_iter().map(|channel| ring_edge(channel, 4, place)).sum::<u64>()
    };
    assert_eq!((0..4).map(edge).collect::<Vec<_>>(), [402_653_184; 4]);
    // What does not divide: over all edges each byte goes 2 (n - 1) times.
    for bytes in [1, 1_000, 999_999, 50_331_648, 248_879_616] {
        let total: u64 = (0..8).map(|place| all_reduce_edge(bytes, place)).sum();
        assert_eq!(total, 2 * 7 * bytes);
    }
}

fn all_reduce_edge(bytes: u64, place: u64) -> u64 {
    ring_all_reduce_edge(bytes, RANKS, place)
}

fn ring_all_reduce_edge(bytes: u64, members: u64, place: u64) -> u64 {
    channel_split(bytes).into_iter().map(|channel| ring_edge(channel, members, place)).sum()
}

/// Bytes on the edge behind position `p` of a ring, for one channel: twice the channel, less the chunks that the edge's
/// ends own. NCCL cuts the channel into loops of `n` chunks of 2 MiB, and the last loop into `n` equal chunks.
fn ring_edge(channel: u64, n: u64, p: u64) -> u64 {
    const CHUNK: u64 = 2 << 20;
    let owned = |place: u64| {
        let (mut rest, mut sum) = (channel, 0);
        while rest > 0 {
            let turn = rest.min(n * CHUNK);
            let chunk = if turn == n * CHUNK { CHUNK } else { turn.div_ceil(n).next_multiple_of(16) };
            sum += turn.saturating_sub(place * chunk).min(chunk);
            rest -= turn;
        }
        sum
    };
    2 * channel - owned(p % n) - owned((p + 1) % n)
}

/// NCCL's split of an all-reduce over at most four channels: a channel less for each 32 KiB that is missing, cells of
/// 16 KiB in equal shares, what is left in the last.
fn channel_split(bytes: u64) -> Vec<u64> {
    const CELL: u64 = 16_384;
    let mut used = 4;
    while bytes < used * 32_768 && used >= 2 {
        used -= 1;
    }
    let share = (32_768.max(2 * bytes) / used).next_multiple_of(16);
    let cells = bytes.div_ceil(CELL);
    let each = cells.min(share.div_ceil(2 * CELL));
    let mut split = Vec::new();
    let mut rest = bytes;
    while rest > 0 {
        split.push(rest.min(each * CELL));
        rest -= rest.min(each * CELL);
    }
    if split.len() > 4 {
        let extra = split.pop().unwrap();
        *split.last_mut().unwrap() += extra;
    }
    split
}

/// GPT-2's gradients as PyTorch's DDP puts them into buckets: 16-bit, in the reverse order of registration, the first
/// bucket closes at 1 MiB, the others at 25 MiB.
fn gpt2_buckets() -> Vec<u64> {
    let h = 768_u64;
    let mut tensors = vec![50_257 * h, 1_024 * h];
    for _ in 0..12 {
        tensors.extend([h, h, 3 * h * h, 3 * h, h * h, h, h, h, 4 * h * h, 4 * h, 4 * h * h, h]);
    }
    tensors.extend([h, h]);
    let (mut buckets, mut open, mut cap) = (Vec::new(), 0, 1 << 20);
    for tensor in tensors.into_iter().rev() {
        open += 2 * tensor;
        if open >= cap {
            buckets.push(open);
            (open, cap) = (0, 25 << 20);
        }
    }
    buckets.extend((open > 0).then_some(open));
    buckets
}
