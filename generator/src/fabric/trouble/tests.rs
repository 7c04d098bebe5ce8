//! Explicit choices counted by hand, chances by their bounds, and answers that depend on nothing but the frame.

use proptest::prelude::*;
use traces::id::NicId;
use traces::origin::Class;

use super::*;
use crate::placement::Placement;

/// Two hosts, one NIC each; a group of two ranks on four channels: eight queue pairs, even ones on NIC 0.
fn plan(fabric: &str) -> Plan {
    let text = format!(
        "version = 1\nname = \"p\"\nseed = 7\n[model]\npreset = \"gpt2\"\n[training]\nsequence_length = 8\nmicro_batch = 1\n\
         global_batch = 2\n[parallelism]\ndata = 2\n[cluster]\nhosts = 2\ngpus_per_host = 1\nlink = \"100Gbit\"\n[fabric]\n{fabric}"
    );
    Plan::read("p.toml", &text, |_| Err(String::new())).unwrap()
}

fn trouble(fabric: &str) -> Trouble {
    let plan = plan(fabric);
    Trouble::new(&plan, &Network::new(&plan, &Placement::new(&plan)))
}

fn impairment(text: &str) -> Trouble {
    trouble(&format!("[[fabric.impairments]]\n{text}"))
}

/// The first transmission of frame `index` of message `sequence` of queue pair 0, in messages of 100 frames.
fn frame(sequence: u32, index: u64) -> FrameId {
    FrameId {
        sender: QueuePairId(0),
        kind: FrameKind::Data,
        class: Class::DpGradients,
        sequence,
        index,
        transmission: 1,
        place: u64::from(sequence) * 100 + index,
        sent: Nanos(1_000),
        from: NicId(0),
        to: NicId(1),
    }
}

/// The frames, of so many messages, that are lost.
fn lost(trouble: &Trouble, messages: u32) -> Vec<(u32, u64)> {
    let all = (0..messages).flat_map(|sequence| (0..100).map(move |index| (sequence, index)));
    all.filter(|&(sequence, index)| trouble.fate(&frame(sequence, index)).lost).collect()
}

#[test]
fn a_plan_without_trouble_is_quiet() {
    let trouble = trouble("");
    assert!(trouble.is_quiet() && !trouble.touches(QueuePairId(0)));
    assert_eq!(trouble.fate(&frame(0, 0)), Fate::default());
    assert!(!trouble.not_ready(&frame(0, 0), 1) && !trouble.marked_in_queue(&frame(0, 0), Bytes(u64::MAX)));
}

#[test]
fn the_seventh_frame_of_a_message_is_lost_once() {
    let trouble = impairment("kind = \"loss\"\nmessage = 3\nframe = 7\nqueue_pair = 0\n");
    assert_eq!(lost(&trouble, 5), [(3, 6)]);
    let again = FrameId { transmission: 2, ..frame(3, 6) };
    assert!(!trouble.fate(&again).lost, "the repetition arrives");
    let other = FrameId { sender: QueuePairId(2), ..frame(3, 6) };
    assert!(!trouble.fate(&other).lost);
    let acknowledgement = FrameId { kind: FrameKind::Acknowledgement, ..frame(3, 6) };
    assert!(!trouble.fate(&acknowledgement).lost);
    assert!(trouble.touches(QueuePairId(0)) && !trouble.touches(QueuePairId(2)));
}

#[test]
fn three_frames_are_lost_twice_from_the_second_time_on() {
    let trouble =
        impairment("kind = \"loss\"\nmessage = 1\nframe = 9\ncount = 3\noccurrence = 2\ntimes = 2\n");
    assert_eq!(lost(&trouble, 3), []);
    let transmissions = (1..5).map(|transmission| {
        (0..100).filter(|&index| trouble.fate(&FrameId { transmission, ..frame(1, index) }).lost).collect()
    });
    assert_eq!(transmissions.collect::<Vec<Vec<u64>>>(), [vec![], vec![8, 9, 10], vec![8, 9, 10], vec![]]);
}

#[test]
fn acknowledgements_of_a_message_are_lost_whichever_of_its_frames_they_answer() {
    let trouble = impairment("kind = \"loss\"\nframes = \"ack\"\nmessage = 3\n");
    let answer = |sequence, index| FrameId { kind: FrameKind::Acknowledgement, ..frame(sequence, index) };
    assert!(trouble.fate(&answer(3, 0)).lost && trouble.fate(&answer(3, 99)).lost);
    assert!(!trouble.fate(&answer(2, 99)).lost && !trouble.fate(&frame(3, 0)).lost);
}

#[test]
fn filters_hold_together() {
    let trouble = impairment(
        "kind = \"ce\"\nrate = 1\nfrom = \"host0-nic0\"\nto = 1\nclass = \"dp_gradients\"\nbetween = [\"1us\", \"2us\"]\n",
    );
    let right = frame(0, 0);
    assert_eq!(trouble.fate(&right), Fate { marked: true, ..Fate::default() });
    for wrong in [
        FrameId { from: NicId(1), to: NicId(0), ..right },
        FrameId { class: Class::Loss, ..right },
        FrameId { sent: Nanos(999), ..right },
        FrameId { sent: Nanos(2_000), ..right },
        FrameId { kind: FrameKind::ClearToSend, ..right },
    ] {
        assert_eq!(trouble.fate(&wrong), Fate::default(), "{wrong:?}");
    }
    assert!(
        trouble.touches(QueuePairId(0)) && !trouble.touches(QueuePairId(1)),
        "pair 1 is on the other NIC"
    );
}

#[test]
fn delays_add_up_and_other_harm_stands_beside_them() {
    let entry = |text| format!("[[fabric.impairments]]\nmessage = 0\nframe = 1\n{text}\n");
    let entries =
        ["kind = \"delay\"\ndelay = \"30us\"", "kind = \"delay\"\ndelay = \"5us\"", "kind = \"loss\""];
    let trouble = trouble(&entries.map(entry).concat());
    assert_eq!(trouble.fate(&frame(0, 0)), Fate { lost: true, marked: false, delay: Nanos(35_000) });
    assert!(trouble.delays());
}

#[test]
fn a_receiver_is_not_ready_for_as_many_attempts_as_the_plan_says() {
    let trouble = impairment("kind = \"rnr\"\nmessage = 2\ntimes = 3\nqueue_pair = 0\n");
    let refused =
        |sequence| (1..6).filter(|&attempt| trouble.not_ready(&frame(sequence, 99), attempt)).collect();
    let attempts: [Vec<u32>; 2] = [refused(2), refused(1)];
    assert_eq!(attempts, [vec![1, 2, 3], vec![]]);
    assert_eq!(trouble.fate(&frame(2, 99)), Fate::default(), "the network does nothing");
}

#[test]
fn rates_are_kept_within_four_standard_deviations() {
    let trouble = impairment("kind = \"loss\"\nrate = \"1%\"\n");
    // 100000 frames: 1000 expected, and sqrt(100000 x 0.01 x 0.99) = 31.5.
    let lost = lost(&trouble, 1_000).len();
    assert!((874..=1_126).contains(&lost), "{lost}");
    let never = impairment("kind = \"loss\"\nrate = \"0%\"\n");
    assert_eq!(self::lost(&never, 100).len(), 0);
}

#[test]
fn the_second_transmission_is_lost_no_more_often_than_the_first() {
    let trouble = impairment("kind = \"loss\"\nrate = \"10%\"\n");
    let lost = lost(&trouble, 1_000);
    let again = lost.iter().filter(|&&(sequence, index)| {
        trouble.fate(&FrameId { transmission: 2, ..frame(sequence, index) }).lost
    });
    // About 10000 were lost the first time: 1000 expected, and sqrt(10000 x 0.1 x 0.9) = 30.
    let again = again.count();
    assert!((860..=1_140).contains(&again), "{again} of {}", lost.len());
}

#[test]
fn bursts_have_their_length_and_their_rate() {
    let trouble = impairment("kind = \"loss\"\nburst = { start = \"0.05%\", frames = 20 }\n");
    let places: Vec<u64> =
        lost(&trouble, 10_000).iter().map(|&(message, index)| u64::from(message) * 100 + index).collect();
    let mut runs = vec![0_u64];
    for (place, next) in places.iter().zip(places.iter().skip(1).chain([&u64::MAX])) {
        *runs.last_mut().unwrap() += 1;
        if *next != place + 1 {
            runs.push(0);
        }
    }
    runs.pop();
    // 1000000 frames: 500 bursts expected, and sqrt(500) = 22.4. Two may touch, or one may end where frames do.
    let whole = runs.iter().filter(|run| **run == 20).count();
    assert!(whole * 100 >= runs.len() * 97, "{whole} of {}", runs.len());
    assert!((410..=590).contains(&runs.len()), "{}", runs.len());
}

#[test]
fn a_queue_marks_from_kmin_on_and_everything_beyond_kmax() {
    let marking =
        plan("ecn = { kmin = \"100kB\", kmax = \"400kB\", pmax = \"30%\" }\n").fabric.marking.unwrap();
    for (waiting, percent) in
        [(0, 0), (100_000, 0), (200_000, 10), (300_000, 20), (400_000, 30), (400_001, 100)]
    {
        assert_eq!(marking.chance(Bytes(waiting)).billionths(), percent * 10_000_000, "{waiting} bytes");
    }
    let step = trouble("ecn = { kmin = \"150KiB\" }\n");
    assert!(!step.is_quiet() && step.marks_by_queue() && !step.touches(QueuePairId(0)));
    assert!(!step.marked_in_queue(&frame(0, 0), Bytes(150 << 10)));
    assert!(step.marked_in_queue(&frame(0, 0), Bytes((150 << 10) + 1)));
}

#[test]
fn entries_and_seeds_draw_apart() {
    let entry = "[[fabric.impairments]]\nkind = \"loss\"\nrate = \"5%\"\n";
    let other = "[[fabric.impairments]]\nkind = \"ce\"\nrate = \"5%\"\n";
    let trouble = trouble(&format!("{entry}{other}"));
    let fates: Vec<_> = (0..10_000).map(|index| trouble.fate(&frame(0, index))).collect();
    let both = fates.iter().filter(|fate| fate.lost && fate.marked).count();
    // 10000 x 0.0025 = 25 expected, and sqrt(25) = 5.
    assert!((5..=45).contains(&both), "{both}");
}

proptest! {
    #[test]
    fn a_fate_depends_on_the_frame_alone(
        frames in prop::collection::vec((0..8_u32, 0..50_u32, 0..100_u64, 1..4_u32), 1..100),
    ) {
        let text = "[[fabric.impairments]]\nkind = \"loss\"\nrate = \"20%\"\n\
                    [[fabric.impairments]]\nkind = \"ce\"\nburst = { start = \"2%\", frames = 10 }\n\
                    [[fabric.impairments]]\nkind = \"rnr\"\nrate = \"20%\"\n";
        let (one, two) = (trouble(text), trouble(text));
        let ids: Vec<_> = frames.into_iter().map(|(pair, sequence, index, transmission)| {
            FrameId { sender: QueuePairId(pair), transmission, ..frame(sequence, index) }
        }).collect();
        let forth: Vec<_> = ids.iter().map(|id| (one.fate(id), one.not_ready(id, 1))).collect();
        let mut back: Vec<_> = ids.iter().rev().map(|id| (two.fate(id), two.not_ready(id, 1))).collect();
        back.reverse();
        prop_assert_eq!(forth, back);
    }
}
