//! The parameters that a rank holds, and the buckets in which replicas sum their gradients.

use traces::unit::Bytes;

use super::ends;
use crate::model::Parameter;
use crate::plan::Plan;

/// Gradients that are summed together, as one all-reduce over the data-parallel group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its elements.
    pub elements: u64,
    /// Its size on the wire.
    pub bytes: Bytes,
    /// The part of the model whose backward pass in the last microbatch completes it.
    pub ready: Part,
}

/// A part of the model, in the order of the forward pass; the backward pass goes the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The embedding of tokens and positions.
    Embedding,
    /// A layer, counted over the whole model.
    Layer(u32),
    /// The last norm and the projection to the vocabulary.
    Head,
}

/// The parameters of a pipeline stage in the order of registration, with the part of the model that uses each first.
///
/// On the last of several stages the head is a copy of the embedding. On a single stage it is the embedding itself, whose
/// gradient is complete only when the backward pass reaches the embedding.
#[must_use]
pub fn parameters(plan: &Plan, stage: u32) -> Vec<(Part, Parameter)> {
    let (first, last) = ends(plan, stage);
    let model = &plan.model;
    let mut parameters = Vec::new();
    if first {
        parameters.extend(model.embedding().map(|parameter| (Part::Embedding, parameter)));
    }
    let mut layer = 0;
    for (index, &layers) in (0_u32..).zip(&plan.parallelism.layers_per_stage) {
        if index == stage {
            for layer in layer..layer + layers {
                parameters.extend(model.layer(layer).map(|parameter| (Part::Layer(layer), parameter)));
            }
        }
        layer += layers;
    }
    if last {
        parameters.extend(model.final_norm().map(|parameter| (Part::Head, parameter)));
        if !first {
            parameters.push((Part::Head, model.token_embedding()));
        }
    }
    parameters
}

/// The gradient buckets of a rank, in the order in which the backward pass completes them.
///
/// PyTorch's rule (Li et al. 2020; `compute_bucket_assignment_by_size` with the order in which gradients arrive): parameters
/// in the reverse order of registration, a bucket is closed when it has reached its cap, and the first cap is
/// [`FIRST_BUCKET`], so that communication starts early.
#[must_use]
pub fn buckets(plan: &Plan, stage: u32, tensor: u32) -> Vec<Bucket> {
    let (width, degree) = (plan.training.gradient.bytes(), u64::from(plan.parallelism.tensor));
    let mut buckets = Vec::new();
    let mut cap = FIRST_BUCKET.min(plan.parallelism.bucket);
    let mut open: Option<Bucket> = None;
    for (ready, parameter) in parameters(plan, stage).into_iter().rev() {
        let elements = parameter.held(tensor.into(), degree) + open.map_or(0, |bucket| bucket.elements);
        let bucket = Bucket { elements, bytes: Bytes(elements * width), ready };
        open = Some(bucket);
        if bucket.bytes >= cap {
            buckets.push(bucket);
            (open, cap) = (None, plan.parallelism.bucket);
        }
    }
    buckets.extend(open);
    buckets
}

/// The size at which the first bucket closes (PyTorch, `_DEFAULT_FIRST_BUCKET_BYTES`).
pub const FIRST_BUCKET: Bytes = Bytes(1 << 20);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::load::load;

    #[test]
    fn gpt2_starts_with_its_last_layer_and_ends_with_its_embedding() {
        let plan = load("tutorial-dp8").unwrap();
        let buckets = buckets(&plan, 0, 0);
        // 2 h of the last norm, h of the bias and 4 h^2 of the last matrix: the first MiB is full.
        assert_eq!((buckets[0].elements, buckets[0].ready), (3 * 768 + 4 * 768 * 768, Part::Layer(11)));
        assert!(buckets[1..buckets.len() - 1].iter().all(|bucket| bucket.bytes >= Bytes(25 << 20)));
        assert_eq!(buckets.last().unwrap().ready, Part::Embedding);
        assert_eq!(buckets.iter().map(|bucket| bucket.elements).sum::<u64>(), 124_439_808);
    }

    #[test]
    fn the_last_stage_holds_a_copy_of_the_embedding_as_its_head() {
        let plan = load("tutorial-pp8").unwrap();
        let held =
            |stage| parameters(&plan, stage).iter().map(|(_, parameter)| parameter.elements).sum::<u64>();
        let layer = 12 * 768 * 768 + 13 * 768;
        assert_eq!(held(0), (50_257 + 1024) * 768 + 2 * layer);
        assert_eq!(held(4), layer);
        assert_eq!(held(7), layer + 2 * 768 + 50_257 * 768);
        assert_eq!((0..8).map(held).sum::<u64>(), 124_439_808 + 50_257 * 768);
        assert_eq!(buckets(&plan, 7, 0)[0].ready, Part::Head);
    }

    proptest! {
        #[test]
        fn buckets_hold_every_parameter_once(tensor in 1..9_u32, cap in 1..100_u64, stages in 1..4_u32) {
            let mut plan = load("tutorial-dp8").unwrap();
            plan.parallelism.tensor = tensor;
            plan.model.heads = u64::from(tensor);
            plan.model.ffn = 768 * u64::from(tensor);
            plan.model.hidden = 24 * u64::from(tensor);
            plan.parallelism.pipeline = stages;
            plan.parallelism.layers_per_stage = vec![2; usize::try_from(stages).unwrap()];
            plan.model.layers = 2 * stages;
            plan.parallelism.bucket = Bytes(cap << 16);
            let mut distinct = 0;
            for stage in 0..stages {
                distinct += parameters(&plan, stage).iter().map(|(_, parameter)| parameter.elements).sum::<u64>();
                let mut sum = 0;
                for place in 0..tensor {
                    let buckets = buckets(&plan, stage, place);
                    prop_assert!(buckets.is_sorted_by(|a, b| a.ready >= b.ready));
                    sum += buckets.iter().map(|bucket| bucket.elements).sum::<u64>();
                }
                // What is held whole counts once for each rank of the tensor group.
                let whole: u64 = parameters(&plan, stage).iter()
                    .map(|(_, p)| p.elements * if p.cut == crate::model::Cut::Whole { u64::from(tensor) } else { 1 }).sum();
                prop_assert_eq!(sum, whole);
            }
            let copy = if stages > 1 { plan.model.token_embedding().elements } else { 0 };
            prop_assert_eq!(distinct, plan.model.parameters() + copy);
        }
    }
}
