use proptest::prelude::*;
use traces::id::{GroupId, QueuePairId};
use traces::origin::{Operation, Phase};

use super::*;
use crate::plan::load::load;

/// The demo's plan with this payload: slots of 128 bytes, 256 tokens a sequence, four sequences a microbatch, two replicas.
fn plan(payload: Payload) -> Plan {
    let mut plan = load("demo").unwrap();
    plan.transport.payload = payload;
    plan
}

fn filled(plan: &Plan, message: &MessageContent, offset: u64, length: usize) -> Vec<u8> {
    let network = Network::new(plan, &Placement::new(plan));
    let mut bytes = vec![0; length];
    Content::new(plan, &network).fill(message, offset, &mut bytes);
    bytes
}

/// A message of the first microbatch's activation, sent by a queue pair of rank 0.
fn message(class: Class, offset: u64) -> MessageContent {
    let origin = Origin {
        step: 0,
        microbatch: Some(0),
        layer: None,
        phase: Phase::Forward,
        class,
        operation: Operation::SendReceive,
        group: GroupId(0),
        instance: 0,
        collective_step: 0,
        channel: 0,
        slice: 0,
    };
    MessageContent { id: MessageId { sender: QueuePairId(0), sequence: 0 }, origin, offset }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(feature = "tokens")]
#[test]
fn a_slot_names_its_token_again_and_again() {
    let bytes = filled(&plan(Payload::Token), &message(Class::PpForward, 0), 0, 384);
    assert_eq!(text(&bytes[..128]), "[N] token 0 id 45 seq 0 . . . . ".repeat(4));
    assert_eq!(text(&bytes[128..160]), "[el] token 1 id 417 seq 0 . . . ");
    assert_eq!(text(&bytes[256..288]), "[ me] token 2 id 502 seq 0. . . ");
}

#[cfg(feature = "tokens")]
#[test]
fn a_message_in_the_middle_goes_on_where_the_one_before_ends() {
    let plan = plan(Payload::Token);
    // Token 11 is ` vita`: 11 x 128 = 1408 bytes into the buffer, half of it in this message.
    let bytes = filled(&plan, &message(Class::TpForward, 1408 + 64), 0, 128);
    assert_eq!(text(&bytes[..64]), "[ita] token 11 id 5350 seq 0. . ".repeat(2));
    // The sequence after it, and the padding behind 151 tokens of text.
    let bytes = filled(&plan, &message(Class::TpBackward, 256 * 128), 0, 32);
    assert_eq!(text(&bytes), "[N] token 0 id 45 seq 1 . . . . ");
    let bytes = filled(&plan, &message(Class::PpBackward, 0), 151 * 128, 32);
    assert_eq!(text(&bytes), "[pad] token 151 seq 0 . . . . . ");
}

#[cfg(feature = "tokens")]
#[test]
fn replicas_and_microbatches_take_sequences_in_turn_and_a_long_text_goes_on() {
    let mut plan = plan(Payload::Token);
    plan.training.sequence_length = 8;
    let network = Network::new(&plan, &Placement::new(&plan));
    let content = Content::new(&plan, &network);
    // Of 151 tokens in pieces of 8 there are 19. Microbatch 2 of replica 0 begins with sequence (2 x 2 + 0) x 4 = 16.
    let mut message = message(Class::PpForward, 0);
    message.origin.microbatch = Some(2);
    let mut bytes = [0; 32];
    content.fill(&message, 2 * 8 * 128, &mut bytes);
    assert!(text(&bytes).contains("token 0 ") && text(&bytes).contains("seq 18"), "{}", text(&bytes));
    content.fill(&message, 2 * 8 * 128 + 7 * 128, &mut bytes);
    assert_eq!(text(&bytes), "[pad] token 7 seq 18. . . . . . ");
    content.fill(&message, 3 * 8 * 128, &mut bytes);
    assert_eq!(text(&bytes), "[N] token 0 id 45 seq 19. . . . ");
    let other = network.pairs().iter().find(|pair| pair.rank.0 == 1).unwrap();
    assert_eq!(content.placement.coordinates(other.rank).data, 1);
    message.id.sender = other.id;
    content.fill(&message, 0, &mut bytes);
    assert!(text(&bytes).contains("seq 20"), "{}", text(&bytes));
}

#[test]
fn tokens_that_are_only_counted_are_numbered() {
    let mut plan = plan(Payload::Token);
    plan.training.words = crate::plan::Words::Tokens(2);
    let bytes = filled(&plan, &message(Class::TpEmbedding, 0), 128, 256);
    assert_eq!(text(&bytes[..16]), "token 1 seq 0 . ");
    assert_eq!(text(&bytes[128..160]), "[pad] token 2 seq 0 . . . . . . ");
}

#[cfg(feature = "tokens")]
#[test]
fn a_narrow_slot_keeps_the_text_to_the_last() {
    let slots = |hidden| {
        let mut plan = plan(Payload::Token);
        plan.model.hidden = hidden;
        let width = usize::try_from(hidden * 2).unwrap();
        // Token 3 is `zzo`.
        text(&filled(&plan, &message(Class::PpForward, 0), 3 * hidden * 2, width))
    };
    assert_eq!(slots(20), "[zzo] token 3 id 47802 seq 0. . . . . . ");
    assert_eq!(slots(16), "[zzo] token 3 id 47802 seq 0. . ");
    assert_eq!(slots(12), "[zzo] token 3 id 47802. ");
    assert_eq!(slots(7), "[zzo] token 3 ");
    assert_eq!(slots(4), "[zzo] 3 ");
    assert_eq!(slots(3), "[zzo] ");
    assert_eq!(slots(1), "zz");
}

#[test]
fn what_has_no_token_carries_the_pattern() {
    let token = plan(Payload::Token);
    let network = Network::new(&token, &Placement::new(&token));
    let content = Content::new(&token, &network);
    for class in [Class::DpGradients, Class::TiedEmbedding, Class::TpCrossEntropy, Class::Loss] {
        assert_eq!(content.fixed(class), Some(wire::Payload::Pattern));
        let mut bytes = vec![0; 5000];
        content.fill(&message(class, 77), 512, &mut bytes);
        assert_eq!(Some(&bytes[..4096]), wire::Payload::Pattern.bytes(0, 4096));
        assert_eq!(Some(&bytes[4096..]), wire::Payload::Pattern.bytes(0, 904));
    }
    assert_eq!(content.fixed(Class::PpForward), None);
}

#[test]
fn noise_differs_by_message_and_seed() {
    let first = message(Class::DpGradients, 0);
    let second = MessageContent { id: MessageId { sequence: 1, ..first.id }, ..first };
    let mut other = plan(Payload::Random);
    other.seed += 1;
    let plan = plan(Payload::Random);
    let noise = filled(&plan, &first, 0, 4096);
    assert_eq!(noise, filled(&plan, &MessageContent { offset: 9, ..first }, 0, 4096));
    assert_ne!(noise, filled(&plan, &second, 0, 4096));
    assert_ne!(noise, filled(&other, &first, 0, 4096));
    // All 255 values, each about 16 times.
    let mut counts = [0; 256];
    noise.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
    assert!(counts[0] == 0 && counts[1..].iter().all(|&count| (1..60).contains(&count)), "{counts:?}");
}

#[test]
fn words_lose_their_zero_bytes_and_nothing_else() {
    assert_eq!(without_zeros(0x0000_0100_80ff_7f00), 0x0101_0101_80ff_7f01);
    assert_eq!(without_zeros(0x1234_5678_9abc_def1), 0x1234_5678_9abc_def1);
}

/// Whether Wireshark's heuristics may take a frame that starts so for another protocol (see the head of the module).
fn looks_like_another_protocol(payload: &[u8]) -> bool {
    matches!(payload[0], 0x01..=0x09 | 0x21..=0x29 | 0x91 | 0xfe) || payload.contains(&0)
}

proptest! {
    #[test]
    fn any_piece_of_a_message_is_the_same_bytes_and_none_looks_like_another_protocol(
        token in any::<bool>(), hidden in 1..80_u64, buffer in 0..100_000_u64, offset in 0..20_000_u64, length in 1..9000_usize,
        cut in 0..9000_usize, words in "[!-)\u{0}\u{1}\u{9}é #%a]{0,40}",
    ) {
        let mut plan = plan(if token { Payload::Token } else { Payload::Random });
        plan.model.hidden = hidden;
        plan.training.words = crate::plan::Words::Text { name: "words".to_owned(), text: words };
        let network = Network::new(&plan, &Placement::new(&plan));
        let content = Content::new(&plan, &network);
        let message = message(Class::PpForward, buffer);
        let mut whole = vec![0; length];
        content.fill(&message, offset, &mut whole);
        let cut = cut.min(length);
        let mut parts = vec![0; length];
        let (front, back) = parts.split_at_mut(cut);
        content.fill(&message, offset, front);
        content.fill(&message, offset + u64::try_from(cut).unwrap(), back);
        prop_assert_eq!(&parts, &whole);

        let mut frame = vec![0; 4096];
        content.fill(&message, offset - offset % 4096, &mut frame);
        prop_assert!(!looks_like_another_protocol(&frame), "{:02x?}", &frame[..16]);
    }
}
