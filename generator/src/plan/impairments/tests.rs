//! Each way in which trouble can be planned wrongly, at the line that is to change; and that a right plan reads back.

use miette::Diagnostic;
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::plan::{Plan, PlanError};

const HEAD: &str = "version = 1\nname = \"p\"\n[model]\npreset = \"gpt2\"\n[training]\nsequence_length = 8\nmicro_batch = 1\n\
                    global_batch = 4\n[parallelism]\ndata = 4\n[cluster]\nhosts = 2\ngpus_per_host = 2\nlink = \"1Gbit\"\n";

fn read(text: &str) -> Result<Plan, Box<PlanError>> {
    Plan::read("plan.toml", text, |_| Err(String::new()))
}

/// A plan whose second impairment is this.
fn with(entry: &str) -> String {
    format!(
        "{HEAD}[[fabric.impairments]]\nkind = \"loss\"\nrate = 0.5\n[[fabric.impairments]]\n{}\n",
        entry.replace("; ", "\n")
    )
}

#[rstest]
#[case::kind("kind = \"los\"; rate = 1", "`los` is not available", "did you mean `loss`?", "kind = \"los\"")]
#[case::no_kind("rate = 1", "missing field `kind`", "no default", "")]
#[case::unknown_key("kind = \"loss\"; rates = 1", "unknown key `rates`", "did you mean `rate`?", "rates = 1")]
#[case::no_choice("kind = \"loss\"", "does not say which frames", "one of rate", "kind = \"loss\"")]
#[case::two_choices(
    "kind = \"loss\"; rate = 1; message = 1; frame = 1",
    "rate and message are given",
    "one of rate",
    "message = 1"
)]
#[case::high_rate(
    "kind = \"loss\"; rate = \"101%\"",
    "`101%` is more than always",
    "between 0 and 1",
    "rate = \"101%\""
)]
#[case::negative_rate(
    "kind = \"loss\"; rate = -0.1",
    "`-0.1` is no chance",
    "between 0 and 1",
    "rate = -0.1"
)]
#[case::fine_rate("kind = \"loss\"; rate = 1e-10", "finer than a billionth", "in billionths", "rate = 1e-10")]
#[case::odd_rate("kind = \"loss\"; rate = true", "invalid type: boolean", "", "rate = true")]
#[case::no_frame("kind = \"loss\"; message = 3", "no frame of it", "frame = 1 is the first", "message = 3")]
#[case::frame_zero("kind = \"loss\"; message = 3; frame = 0", "frame 0", "counted from 1", "frame = 0")]
#[case::count_zero(
    "kind = \"loss\"; message = 3; frame = 1; count = 0",
    "count 0",
    "counted from 1",
    "count = 0"
)]
#[case::times_zero(
    "kind = \"loss\"; message = 3; frame = 1; times = 0",
    "times 0",
    "counted from 1",
    "times = 0"
)]
#[case::frame_alone(
    "kind = \"loss\"; rate = 1; frame = 7",
    "`frame` says nothing here",
    "message = N",
    "frame = 7"
)]
#[case::count_alone(
    "kind = \"loss\"; frames = \"ack\"; message = 1; count = 2",
    "`count` says nothing here",
    "frame = N",
    "count = 2"
)]
#[case::endless_burst(
    "kind = \"loss\"; burst = { start = \"10%\", frames = 20 }",
    "bursts of 20 frames that begin at 10% of frames",
    "at most 100%",
    "burst = { start = \"10%\", frames = 20 }"
)]
#[case::no_burst(
    "kind = \"loss\"; burst = { start = 0.1, frames = 0 }",
    "bursts of 0 frames",
    "at least one",
    "burst = { start = 0.1, frames = 0 }"
)]
#[case::delay_missing(
    "kind = \"delay\"; rate = 1",
    "does not say how long",
    "delay = \"30us\"",
    "kind = \"delay\""
)]
#[case::delay_on_loss(
    "kind = \"loss\"; rate = 1; delay = \"1us\"",
    "beside kind `loss`",
    "kind = \"delay\"",
    "delay = \"1us\""
)]
#[case::delay_of_nothing(
    "kind = \"delay\"; rate = 1; delay = \"0us\"",
    "a delay of 0ns",
    "more than 0ns",
    "delay = \"0us\""
)]
#[case::delay_without_unit("kind = \"delay\"; rate = 1; delay = \"3\"", "has no unit", "", "delay = \"3\"")]
#[case::nic(
    "kind = \"loss\"; rate = 1; from = \"host2-nic0\"",
    "no NIC `host2-nic0`",
    "host0-nic0 to host1-nic1",
    "from = \"host2-nic0\""
)]
#[case::nic_of_host(
    "kind = \"loss\"; rate = 1; to = \"host0-nic2\"",
    "no NIC `host0-nic2`",
    "or 0 to 3",
    "to = \"host0-nic2\""
)]
#[case::nic_number("kind = \"loss\"; rate = 1; to = 4", "no NIC `4`", "or 0 to 3", "to = 4")]
#[case::same_nic(
    "kind = \"loss\"; rate = 1; from = 1; to = \"host0-nic1\"",
    "the same NIC",
    "to itself",
    "to = \"host0-nic1\""
)]
#[case::class(
    "kind = \"loss\"; rate = 1; class = \"dp_gradient\"",
    "no class of traffic",
    "did you mean `dp_gradients`?",
    "class = \"dp_gradient\""
)]
#[case::frames(
    "kind = \"loss\"; rate = 1; frames = \"acks\"",
    "`acks` is not available",
    "did you mean `ack`?",
    "frames = \"acks\""
)]
#[case::backwards(
    "kind = \"loss\"; rate = 1; between = [\"2ms\", \"10us\"]",
    "between 2ms and 10us",
    "the earlier time first",
    "between = [\"2ms\", \"10us\"]"
)]
#[case::one_time(
    "kind = \"loss\"; rate = 1; between = [\"2ms\"]",
    "invalid length 1",
    "",
    "between = [\"2ms\"]"
)]
#[case::frames_of_a_message(
    "kind = \"rnr\"; message = 1; frame = 1",
    "`frame` says nothing here",
    "times = N",
    "frame = 1"
)]
#[case::rnr_in_bursts(
    "kind = \"rnr\"; burst = { start = 0.1, frames = 2 }",
    "`burst` says nothing here",
    "or rate",
    "burst = { start = 0.1, frames = 2 }"
)]
#[case::occurrence_of_rnr(
    "kind = \"rnr\"; message = 1; occurrence = 2",
    "`occurrence` says nothing here",
    "times = N",
    "occurrence = 2"
)]
fn a_wrong_impairment_is_refused_at_its_line(
    #[case] entry: &str,
    #[case] what: &str,
    #[case] help: &str,
    #[case] shown: &str,
) {
    let text = with(entry);
    let error = read(&text).unwrap_err();
    assert!(error.to_string().contains(what), "{error}");
    let advice = error.help().map(|help| help.to_string()).unwrap_or_default();
    assert!(advice.contains(help), "{advice:?}");
    if !shown.is_empty() {
        assert_eq!(text.lines().nth(error.line() - 1), Some(shown), "{error}");
    }
}

#[rstest]
#[case::ce("[[fabric.impairments]]\nkind = \"ce\"\nrate = 1", "transport.ecn is 0")]
#[case::queues("[fabric.ecn]\nkmin = \"1kB\"", "transport.ecn is 0")]
fn nothing_is_marked_that_can_not_be(#[case] entry: &str, #[case] what: &str) {
    let error = read(&format!("{HEAD}[transport]\necn = 0\n{entry}\n")).unwrap_err();
    assert!(error.to_string().contains(what), "{error}");
    assert!(error.help().unwrap().to_string().contains("ecn = 2"));
}

#[rstest]
#[case::order("kmin = \"2kB\"\nkmax = \"1kB\"", "kmax 1000B is below kmin 2000B")]
#[case::chance("kmin = \"2kB\"\npmax = 2", "`2` is more than always")]
#[case::unit("kmin = \"2\"", "has no unit")]
#[case::no_kmin("kmax = \"2kB\"", "missing field `kmin`")]
fn wrong_marks_by_queues_are_refused(#[case] entry: &str, #[case] what: &str) {
    let error = read(&format!("{HEAD}[fabric.ecn]\n{entry}\n")).unwrap_err();
    assert!(error.to_string().contains(what), "{error}");
}

#[rstest]
#[case("dce_tcp_g = 1024", "dce_tcp_g is out of range", "between 0 and 1023")]
#[case("rpg_gd = 7", "rpg_gd is out of range", "between 10 and 11")]
#[case("rpg_ai_rate = \"5kbit\"", "rpg_ai_rate of 5kbit", "at least 1Mbit")]
#[case("rpg_time_reset = \"300ns\"", "rpg_time_reset of 300ns", "at least 1us")]
#[case("rpg_ai_rat = \"5Mbit\"", "unknown key `rpg_ai_rat`", "did you mean `rpg_ai_rate`?")]
fn wrong_parameters_of_senders_are_refused(#[case] line: &str, #[case] what: &str, #[case] help: &str) {
    let text = format!("{HEAD}[fabric.dcqcn]\n{line}\n");
    let error = read(&text).unwrap_err();
    assert!(error.to_string().contains(what), "{error}");
    assert!(error.help().unwrap().to_string().contains(help));
    assert_eq!(text.lines().nth(error.line() - 1), Some(line), "{error}");
}

#[test]
fn defaults_are_written_out() {
    let plan = read(&with("kind = \"loss\"; message = 3; frame = 7; from = 1; to = \"host1-nic1\"")).unwrap();
    let text = plan.to_toml();
    let entry = "[[fabric.impairments]]\nkind = \"loss\"\nmessage = 3\nframe = 7\ncount = 1\noccurrence = 1\ntimes = 1\n\
                 frames = \"data\"\nfrom = \"host0-nic1\"\nto = \"host1-nic1\"\n";
    assert!(text.contains(entry), "{text}");
    assert!(text.contains("rate = \"50%\""), "{text}");
    assert!(!read(HEAD).unwrap().to_toml().contains("impairments"));
}

#[test]
fn trouble_changes_the_digest() {
    let digests = [HEAD.to_owned(), with("kind = \"loss\"; rate = 0.1"), with("kind = \"loss\"; rate = 0.2")];
    let digests = digests.map(|text| read(&text).unwrap().digest());
    assert!(digests[0] != digests[1] && digests[1] != digests[2], "{digests:?}");
}

fn impairments() -> impl Strategy<Value = Vec<Impairment>> {
    let run = || (1..u32::MAX, 1..u32::MAX).prop_map(|(first, count)| Run { first, count });
    let chance = (0..=Chance::PARTS).prop_map(|billionths| Chance::new(billionths).unwrap());
    let harm = prop_oneof![
        Just(Harm::Loss),
        Just(Harm::Mark),
        (1..LONGEST.0).prop_map(|delay| Harm::Delay(Nanos(delay)))
    ];
    let choice = prop_oneof![
        chance.clone().prop_map(Choice::Rate),
        (0..=1_000_000_u32, 1..1_000_u32)
            .prop_map(|(start, frames)| Choice::Burst { start: Chance::new(start).unwrap(), frames }),
        (any::<u32>(), run(), run()).prop_map(|(message, frames, occurrences)| Choice::Named {
            message,
            frames: Some(frames),
            occurrences
        }),
    ];
    let attempts = prop_oneof![
        chance.prop_map(Choice::Rate),
        (any::<u32>(), 1..9_u32).prop_map(|(message, count)| Choice::Named {
            message,
            frames: None,
            occurrences: Run { first: 1, count }
        }),
    ];
    let frames = prop::sample::select(vec![
        Frames::Data,
        Frames::Acknowledgements,
        Frames::ClearToSend,
        Frames::Notifications,
        Frames::All,
    ]);
    let filter = (
        prop::option::of(0..2_u32),
        prop::option::of(2..4_u32),
        prop::option::of(any::<u32>()),
        prop::option::of(prop::sample::select(Class::ALL)),
        prop::option::of((0..1_000_000_u64, 1..1_000_000_u64)),
    )
        .prop_map(|(from, to, queue_pair, class, between)| Filter {
            frames: Frames::Data,
            from: from.map(NicId),
            to: to.map(NicId),
            queue_pair: queue_pair.map(QueuePairId),
            class,
            between: between.map(|(from, length)| [Nanos(from), Nanos(from + length)]),
        });
    let one = prop_oneof![
        (harm, choice, frames, filter.clone()).prop_map(|(harm, choice, frames, filter)| Impairment {
            harm,
            choice,
            filter: Filter { frames, ..filter }
        }),
        (attempts, filter).prop_map(|(choice, filter)| Impairment { harm: Harm::NotReady, choice, filter }),
    ];
    prop::collection::vec(one, 0..5)
}

proptest! {
    #[test]
    fn trouble_is_read_as_it_is_written(impairments in impairments()) {
        let plan = Plan { fabric: crate::plan::Fabric { impairments, ..read(HEAD).unwrap().fabric }, ..read(HEAD).unwrap() };
        prop_assert_eq!(&read(&plan.to_toml()).unwrap(), &plan);
    }
}
