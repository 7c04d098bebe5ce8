//! What ranks do together in a training step: which collective, in which group, with how much payload, how often.
//!
//! The formulas stand here once; `explain` adds them up and the schedule puts them in time. How an operation becomes
//! messages is told elsewhere. Sources: Shoeybi et al. 2019 (tensor parallelism), Narayanan et al. 2021 (pipelines), Li et al.
//! 2020 (gradient buckets), and Megatron-LM's code where the papers are silent.

mod bucket;

pub use bucket::{Bucket, FIRST_BUCKET, Part, buckets, parameters};

use traces::id::Rank;
use traces::origin::{Class, Operation, Phase};
use traces::unit::Bytes;

use crate::placement::{Coordinates, GroupKind, Placement};
use crate::plan::Plan;

/// All operations of one class that a rank takes part in during one training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// For which tensor.
    pub class: Class,
    /// What the group does; a message counts where it is sent.
    pub operation: Operation,
    /// Among whom.
    pub group: GroupKind,
    /// The group's size.
    pub group_size: u32,
    /// In which part of the step.
    pub phase: Phase,
    /// How often.
    pub count: u64,
    /// The payload of all of them together.
    pub payload: Bytes,
    /// What the rank sends for them in rings: of the sum, rounded down.
    pub sent: Bytes,
    /// Whether any of it goes to another host.
    pub leaves_host: bool,
}

/// A microbatch's activation, b s h numbers: what a layer hands to the next, a stage to the next, and what tensor-parallel
/// ranks reduce.
#[must_use]
pub fn activation(plan: &Plan) -> Bytes {
    let training = &plan.training;
    Bytes(training.micro_batch * training.sequence_length * plan.model.hidden * training.activation.bytes())
}

/// One of the [`CROSS_ENTROPY_REDUCTIONS`] of the vocabulary-parallel loss: b s numbers of 32 bits.
#[must_use]
pub fn cross_entropy(plan: &Plan) -> Bytes {
    Bytes(plan.training.micro_batch * plan.training.sequence_length * 4)
}

/// The gradient of the tied embedding that a tensor-parallel rank of the first and of the last stage holds.
#[must_use]
pub fn tied_embedding(plan: &Plan, tensor: u32) -> Bytes {
    let held = plan.model.token_embedding().held(tensor.into(), plan.parallelism.tensor.into());
    Bytes(held * plan.training.gradient.bytes())
}

/// What one rank sends for an operation on `payload` among `size` ranks in a ring, rounded down.
///
/// All-reduce: 2 (n-1)/n S; reduce-scatter, all-gather, all-to-all: (n-1)/n S; a message or a broadcast: S
/// (nccl-tests, PERFORMANCE.md).
///
/// ```
/// use generator::operation::ring_sent;
/// use traces::{origin::Operation, unit::Bytes};
/// assert_eq!(ring_sent(Operation::AllReduce, 8, Bytes(248_879_616)), Bytes(435_539_328));
/// assert_eq!(ring_sent(Operation::AllReduce, 1, Bytes(100)), Bytes(0));
/// ```
#[must_use]
pub fn ring_sent(operation: Operation, size: u32, payload: Bytes) -> Bytes {
    let (times, size) = match operation {
        Operation::AllReduce => (2 * u128::from(size.saturating_sub(1)), u128::from(size)),
        Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll => {
            (u128::from(size.saturating_sub(1)), u128::from(size))
        }
        Operation::Broadcast | Operation::Reduce | Operation::SendReceive => (1, 1),
    };
    let sent = u128::from(payload.0) * times / size.max(1);
    Bytes(u64::try_from(sent).unwrap_or(u64::MAX))
}

/// What a rank does with others in one training step, class by class, in the order of the step.
#[must_use]
pub fn of_rank(plan: &Plan, placement: &Placement, rank: Rank) -> Vec<Work> {
    let at = placement.coordinates(rank);
    let microbatches = u64::from(plan.training.microbatches);
    let layers = u64::from(stage_layers(plan, at.pipeline));
    let (first, last) = ends(plan, at.pipeline);
    let book = Book { placement, rank, at };
    let activation = activation(plan);
    let tensor = |class, phase, payload: Bytes, count: u64| {
        book.collective(class, GroupKind::Tensor, phase, count, Bytes(payload.0 * count))
    };
    let reductions = |each: u32| u64::from(each) * layers * microbatches;
    let ended = |end: bool, each: u32| if end { u64::from(each) * microbatches } else { 0 };
    let gradients = buckets(plan, at.pipeline, at.tensor);
    let summed = gradients.iter().map(|bucket| bucket.bytes).sum();
    let count = u64::try_from(gradients.len()).unwrap_or(u64::MAX);
    [
        tensor(Class::TpEmbedding, Phase::Forward, activation, ended(first, 1)),
        tensor(Class::TpForward, Phase::Forward, activation, reductions(LAYER_REDUCTIONS)),
        tensor(
            Class::TpCrossEntropy,
            Phase::Forward,
            cross_entropy(plan),
            ended(last, CROSS_ENTROPY_REDUCTIONS),
        ),
        book.messages(Class::PpForward, Phase::Forward, ended(!last, 1), activation),
        tensor(Class::TpHead, Phase::Backward, activation, ended(last, 1)),
        tensor(Class::TpBackward, Phase::Backward, activation, reductions(LAYER_REDUCTIONS)),
        book.messages(Class::PpBackward, Phase::Backward, ended(!first, 1), activation),
        book.collective(Class::DpGradients, GroupKind::Data, Phase::Backward, count, summed),
        book.collective(
            Class::TiedEmbedding,
            GroupKind::FirstAndLastStage,
            Phase::End,
            1,
            tied_embedding(plan, at.tensor),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether a pipeline stage is the first, and whether it is the last.
#[must_use]
pub fn ends(plan: &Plan, stage: u32) -> (bool, bool) {
    (stage == 0, stage + 1 == plan.parallelism.pipeline)
}

/// How many layers a pipeline stage has.
#[must_use]
pub fn stage_layers(plan: &Plan, stage: u32) -> u32 {
    let stage = usize::try_from(stage).unwrap_or(usize::MAX);
    plan.parallelism.layers_per_stage.get(stage).copied().unwrap_or(0)
}

/// Enters work of one rank, if it has any.
struct Book<'a> {
    placement: &'a Placement,
    rank: Rank,
    at: Coordinates,
}

impl Book<'_> {
    fn collective(
        &self,
        class: Class,
        kind: GroupKind,
        phase: Phase,
        count: u64,
        payload: Bytes,
    ) -> Option<Work> {
        let group = self.placement.group(kind, self.rank).filter(|_| count > 0)?;
        Some(Work {
            class,
            operation: Operation::AllReduce,
            group: kind,
            group_size: group.size(),
            phase,
            count,
            payload,
            sent: ring_sent(Operation::AllReduce, group.size(), payload),
            leaves_host: self.placement.leaves_host(&group),
        })
    }

    fn messages(&self, class: Class, phase: Phase, count: u64, each: Bytes) -> Option<Work> {
        let group = self.placement.group(GroupKind::Pipeline, self.rank).filter(|_| count > 0)?;
        let stage = self.at.pipeline;
        let peer = group.member(if phase == Phase::Forward { stage + 1 } else { stage - 1 });
        let payload = Bytes(each.0 * count);
        Some(Work {
            class,
            operation: Operation::SendReceive,
            group: GroupKind::Pipeline,
            group_size: group.size(),
            phase,
            count,
            payload,
            sent: ring_sent(Operation::SendReceive, group.size(), payload),
            leaves_host: self.placement.seat(self.rank).host != self.placement.seat(peer).host,
        })
    }
}

/// All-reduces over the tensor-parallel group in a layer's forward pass, and again in its backward pass: one for attention, one
/// for the feed-forward layer (Shoeybi et al. 2019, section 3).
pub const LAYER_REDUCTIONS: u32 = 2;

/// All-reduces of the vocabulary-parallel cross-entropy: the maximum, the target's logit, the sum of exponentials
/// (Megatron-LM, tensor_parallel/cross_entropy.py).
pub const CROSS_ENTROPY_REDUCTIONS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::load::load;

    fn works(name: &str) -> Vec<Vec<Work>> {
        let plan = load(name).unwrap();
        let placement = Placement::new(&plan);
        placement.ranks().map(|rank| of_rank(&plan, &placement, rank)).collect()
    }

    fn sum<'a>(works: impl IntoIterator<Item = &'a Work>, classes: &[Class]) -> (u64, u64, u64) {
        let chosen = works.into_iter().filter(|work| classes.contains(&work.class));
        chosen.fold((0, 0, 0), |(count, payload, sent), work| {
            (count + work.count, payload + work.payload.0, sent + work.sent.0)
        })
    }

    #[test]
    fn gpt2_over_eight_replicas_reduces_its_gradients_and_nothing_else() {
        for work in works("tutorial-dp8") {
            assert_eq!(work.len(), 1);
            let (_, payload, sent) = sum(&work, &[Class::DpGradients]);
            assert_eq!((payload, sent), (248_879_616, 435_539_328));
            assert!(work[0].leaves_host);
        }
    }

    #[test]
    fn gpt2_over_eight_tensor_ranks_reduces_four_activations_a_layer() {
        let works = works("tutorial-tp8");
        let layers = sum(&works[0], &[Class::TpForward, Class::TpBackward]);
        assert_eq!(layers, (48, 2_415_919_104, 4_227_858_432));
        assert_eq!(sum(&works[0], &[Class::TpEmbedding, Class::TpHead]).1, 2 * 50_331_648);
        assert_eq!(
            sum(&works[0], &[Class::TpCrossEntropy]),
            (3, 3 * 32 * 1024 * 4, 3 * 32 * 1024 * 4 * 7 / 4)
        );
    }

    #[test]
    fn gpt2_over_eight_stages_sends_an_activation_each_way_over_seven_boundaries() {
        let works = works("tutorial-pp8");
        let all = sum(works.iter().flatten(), &[Class::PpForward, Class::PpBackward]);
        assert_eq!(all, (14, 704_643_072, 704_643_072));
        assert_eq!(sum(&works[0], &[Class::PpBackward]).0, 0);
        assert_eq!(sum(&works[7], &[Class::PpForward]).0, 0);
        for stage in [0, 7] {
            assert_eq!(sum(&works[stage], &[Class::TiedEmbedding]), (1, 77_194_752, 77_194_752));
        }
        assert_eq!(sum(&works[3], &[Class::TiedEmbedding]).0, 0);
    }
}
