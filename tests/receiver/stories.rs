//! The judge itself on trial: conversations that are right, and the same with one thing wrong, each refused with its reason.

use traces::wire::Opcode;

use super::exchange::{
    Exchange, MTU, Said, ack, answer, first, last, middle, nak, not_ready, notification, only, read,
};

/// A message of three frames, of which the second is lost and sent again, with what stood behind it.
fn loss() -> [(u32, Said, bool); 7] {
    let length = 2 * MTU + 100;
    [
        (0, first(7, length), true),
        (0, middle(8, 1), false),
        (0, last(9, 2, 100), true),
        (1, nak(8, 0), true),
        (0, middle(8, 1), true),
        (0, last(9, 2, 100), true),
        (1, ack(9, 1), true),
    ]
}

fn told(story: &[(u32, Said, bool)]) -> Result<Vec<(u64, Option<u32>)>, String> {
    let exchange = story.iter().fold(Exchange::from(7), |exchange, &(from, said, arrives)| {
        if arrives { exchange.pass(from, said) } else { exchange.sends(from, said) }
    });
    exchange.ends()
}

fn refused(story: &[(u32, Said, bool)], reason: &str) {
    let objections = told(story).expect_err(reason);
    assert!(objections.contains(reason), "{objections}\nshould say: {reason}");
}

#[test]
fn a_lost_frame_is_asked_for_and_the_message_delivered_once() {
    assert_eq!(told(&loss()), Ok(vec![(612, Some(612))]));
}

#[test]
fn a_missing_nak_is_noticed() {
    let mut story = loss().to_vec();
    story.remove(3);
    refused(
        &story,
        "nic1 frame 3, RC RDMA WRITE Middle of PSN 8: it was missing, and no NAK has asked for it",
    );
    refused(&story, "PSN 10 would go on, 7 is the oldest that is not acknowledged, a NAK asks for None");
}

#[test]
fn a_nak_of_another_number_is_noticed() {
    let mut story = loss();
    story[3].1 = nak(7, 0);
    refused(&story, "a NAK, but PSN 8 is expected");
    story[3].1 = nak(8, 1);
    refused(&story, "MSN 1, but 0 messages have ended there");
}

#[test]
fn a_second_nak_for_a_gap_and_one_without_are_noticed() {
    let mut story = loss().to_vec();
    story.insert(4, (1, nak(8, 0), true));
    refused(&story, "a second NAK for one gap");
    refused(&[(1, nak(7, 0), true)], "a NAK, but nothing is missing");
}

#[test]
fn a_nak_that_is_not_followed_is_noticed() {
    refused(&loss()[..4], "a NAK asks for PSN 8, and it is not sent again");
    refused(&loss()[..4], "PSN 8 is missing to the end");
}

#[test]
fn a_restart_elsewhere_is_noticed() {
    let mut story = loss();
    story[4].1 = last(9, 2, 100);
    refused(
        &story,
        "PSN 10 would go on, 8 is the oldest that is not acknowledged, a NAK asks for Some(Psn(8))",
    );
}

#[test]
fn a_frame_that_changes_when_it_is_sent_again_is_noticed() {
    let mut story = loss();
    story[5].1 = last(9, 2, 99);
    refused(&story, "sent again as Request");
    refused(&story, "611 bytes of the message are there, its RETH announces 612");
}

#[test]
fn wrong_message_counts_numbers_and_bytes_are_noticed() {
    let mut story = loss();
    story[6].1 = ack(9, 2);
    refused(&story, "nic1 frame 6, RC Acknowledge of PSN 9: MSN 2, but 1 messages have ended there");
    story[6].1 = ack(10, 1);
    refused(&story, "it has not arrived");
    refused(&story, "an answer, but only what is before 10 was sent");
    let mut story = loss();
    story[4].1 = middle(8, 1).shifted();
    refused(&story, "byte 256 of the message is 180, should be 13");
}

#[test]
fn a_question_without_an_answer_is_noticed() {
    refused(&loss()[..6], "PSN 9 asks for an acknowledgement and gets none");
    refused(&loss()[..6], "PSN 8 is never acknowledged");
    let mut story = loss();
    story[5].1 = last(9, 2, 100).silent();
    refused(&story[..6], "PSN 8 is never acknowledged");
}

#[test]
fn what_arrives_was_sent_before() {
    let exchange = Exchange::from(0).takes(1, only(0, 10)).sends(1, ack(0, 1)).sends(0, only(0, 10));
    let objections = exchange.takes(0, ack(0, 1)).ends().unwrap_err();
    assert!(objections.contains("PSN 0 arrives at 1.000 us, and is sent at 3.000 us"), "{objections}");
    let exchange = Exchange::from(0).sends(0, only(0, 10)).takes(1, only(0, 11)).pass(1, ack(0, 1));
    let objections = exchange.ends().unwrap_err();
    assert!(objections.contains("PSN 0 arrives, but was not sent before it"), "{objections}");
}

#[test]
fn acknowledgements_may_come_late_and_cover_several_but_not_go_back() {
    let exchange =
        Exchange::from(0xff_ffff).pass(0, only(0xff_ffff, 1)).pass(0, only(0, 2)).pass(0, only(1, 3));
    let exchange = exchange.pass(1, ack(0, 2)).pass(1, ack(1, 3));
    assert_eq!(exchange.ends(), Ok(vec![(1, Some(1)), (2, Some(2)), (3, Some(3))]));
    let exchange = Exchange::from(0).pass(0, only(0, 1)).pass(0, only(1, 2));
    let objections = exchange.pass(1, ack(1, 2)).pass(1, ack(0, 1)).ends().unwrap_err();
    assert!(objections.contains("PSN 1 was answered before"), "{objections}");
    let objections =
        Exchange::from(0).pass(0, only(0, 1)).pass(1, ack(0, 1)).pass(1, ack(0, 1)).ends().unwrap_err();
    assert!(objections.contains("it was answered before, and nothing came again"), "{objections}");
}

#[test]
fn after_a_lost_acknowledgement_a_time_out_sends_again_and_nothing_is_delivered_twice() {
    let lost = || Exchange::from(0).pass(0, only(0, 5)).sends(1, ack(0, 1));
    let again = |exchange: Exchange| exchange.pass(0, only(0, 5)).pass(1, ack(0, 1));
    assert_eq!(again(lost().waits(67_000_000)).ends(), Ok(vec![(5, Some(5))]));
    let objections = again(lost()).ends().unwrap_err();
    assert!(objections.contains("which is no time-out, and no NAK asks for it"), "{objections}");
    let objections = lost().waits(67_000_000).pass(0, only(0, 5)).ends().unwrap_err();
    assert!(objections.contains("what came again asks for an acknowledgement and gets none"), "{objections}");
}

#[test]
fn a_port_that_is_not_ready_gives_back_what_came_and_is_waited_for() {
    let story = |wait: u64, again: Said| {
        let exchange = Exchange::from(0).pass(0, only(0, 5)).pass(0, only(1, 6)).pass(1, not_ready(0, 0));
        exchange.waits(wait).pass(0, again).pass(0, only(1, 6)).pass(1, ack(1, 2)).ends()
    };
    assert_eq!(story(640_000, only(0, 5)), Ok(vec![(5, Some(5)), (6, Some(6))]));
    let objections = story(600_000, only(0, 5)).unwrap_err();
    assert!(objections.contains("39000 ns too early after an RNR NAK"), "{objections}");
    assert!(story(640_000, only(1, 6)).is_err());
    let story = [(0, first(7, 300), true), (1, not_ready(7, 0), true)];
    refused(&story, "it says that it was not ready, but the request needs no receive");
}

#[test]
fn a_read_takes_as_many_numbers_as_its_answer_has_frames() {
    let asked = || Exchange::from(4).pass(0, read(4, 600)).pass(0, only(7, 9));
    let answers = |exchange: Exchange| {
        let exchange = exchange.pass(1, answer(Opcode::ReadResponseFirst, 4, 1, 256));
        exchange
            .pass(1, answer(Opcode::ReadResponseMiddle, 5, 1, 256))
            .pass(1, answer(Opcode::ReadResponseLast, 6, 1, 88))
    };
    assert_eq!(answers(asked()).pass(1, ack(7, 2)).ends(), Ok(vec![(600, None), (9, Some(9))]));
    let objections = asked().pass(1, ack(7, 2)).ends().unwrap_err();
    assert!(objections.contains("the Read of PSN 4 before it is not answered"), "{objections}");
    let objections = asked().pass(1, answer(Opcode::ReadResponseOnly, 4, 1, 256)).ends().unwrap_err();
    assert!(objections.contains("Only is not its place"), "{objections}");
}

#[test]
fn a_notification_follows_a_mark() {
    let marked = |said: Said| {
        let arrives = Exchange::from(0).sends(0, only(0, 5)).takes(1, said);
        arrives.pass(1, notification()).pass(1, ack(0, 1)).ends()
    };
    assert_eq!(marked(only(0, 5).marked()), Ok(vec![(5, Some(5))]));
    let objections = marked(only(0, 5)).unwrap_err();
    assert!(objections.contains("more notifications than marks"), "{objections}");
}
