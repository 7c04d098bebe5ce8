//! What each rank does, in the order of its program: compute, and operations with others.
//!
//! An item runs on a stream of its rank, as a kernel on a GPU's: behind all earlier items of that stream, and behind
//! what its other streams hold so far where it says so. So an item names what it waits for without a list of items,
//! and a schedule of any length is an iterator of bounded memory.
//!
//! Pipelines follow Megatron-LM's 1F1B without overlap: `receive, forward, send`; a send and the receive that follows it
//! run together, and the next pass waits for both. Tensor-parallel ranks wait for their all-reduces in the forward pass; in
//! the backward pass an all-reduce of input gradients overlaps the weight gradients of the same half layer. Gradients are
//! summed on a stream of their own while the backward pass of the last microbatch goes on.
//!
//! Not here: sizes and buckets ([`crate::operation`]), messages ([`crate::program`]), time ([`crate::timeline`]).

mod step;

use std::collections::VecDeque;

use traces::graph::Purpose;
use traces::id::Rank;
use traces::origin::Origin;
use traces::unit::{Bytes, Nanos};

use crate::operation::{self, Bucket};
use crate::pipeline::{self, Pass};
use crate::placement::{Coordinates, Group, GroupKind, Placement};
use crate::plan::{Plan, Training};

/// One thing that a rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The stream it runs on.
    pub stream: Stream,
    /// The other streams whose earlier items it waits for.
    pub after: &'static [Stream],
    /// What it does.
    pub work: Work,
}

/// A queue of a rank's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Kernels, and the collectives that they cannot go on without.
    Compute,
    /// All-reduces that overlap with kernels of the same layer.
    Tensor,
    /// Sends to the neighbouring stage.
    Send,
    /// Receives from the neighbouring stage.
    Receive,
    /// Sums of gradients.
    Gradients,
}

/// What an item does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Passes time.
    Compute {
        /// On what.
        purpose: Purpose,
        /// How long.
        duration: Nanos,
    },
    /// Sums a buffer with all members of the group.
    AllReduce(Operation),
    /// Sends to a rank.
    Send {
        /// What.
        operation: Operation,
        /// To whom.
        to: Rank,
    },
    /// Receives from a rank.
    Receive {
        /// What.
        operation: Operation,
        /// From whom.
        from: Rank,
    },
}

/// An operation that a rank takes part in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its name and reason; the last three fields are zero.
    pub origin: Origin,
    /// Among whom.
    pub group: Group,
    /// What it means.
    pub payload: Bytes,
    /// Bytes of a number.
    pub element: u64,
}

/// The items of a rank, in order.
#[derive(Clone, Debug)]
pub struct RankSchedule<'a> {
    plan: &'a Plan,
    placement: &'a Placement,
    rank: Rank,
    at: Coordinates,
    times: Times,
    buckets: Vec<Bucket>,
    layers: std::ops::Range<u32>,
    /// The passes of a step, and the next of them.
    passes: Vec<Pass>,
    next: usize,
    step: u32,
    steps: u32,
    /// Operations so far, by kind of group.
    instances: [u32; GroupKind::ALL.len()],
    ready: VecDeque<Item>,
}

/// How long the parts of a stage's passes take on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The attention half of a layer, forward.
    pub attention: Nanos,
    /// The other half.
    pub feed_forward: Nanos,
    /// The projection to the vocabulary, forward.
    pub head: Nanos,
    /// The optimizer.
    pub optimizer: Nanos,
}

impl<'a> RankSchedule<'a> {
    /// The schedule of a rank over `steps` training steps.
    #[must_use]
    pub fn new(plan: &'a Plan, placement: &'a Placement, rank: Rank, steps: u32) -> Self {
        let at = placement.coordinates(rank);
        Self {
            plan,
            placement,
            rank,
            at,
            times: Times::new(plan, at),
            buckets: operation::buckets(plan, at.pipeline, at.tensor),
            layers: layers(plan, at.pipeline),
            passes: pipeline::passes(
                plan.parallelism.schedule,
                plan.parallelism.pipeline,
                at.pipeline,
                plan.training.microbatches,
            ),
            next: 0,
            step: 0,
            steps,
            instances: [0; GroupKind::ALL.len()],
            ready: VecDeque::new(),
        }
    }
}

impl Iterator for RankSchedule<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if self.step == self.steps {
                return None;
            }
            match self.passes.get(self.next).copied() {
                Some(pass) => {
                    self.next += 1;
                    self.pass(self.step, pass);
                }
                None => {
                    self.end(self.step);
                    (self.next, self.step) = (0, self.step + 1);
                }
            }
        }
    }
}

impl Times {
    /// The times of a rank at these coordinates, at the rate that the plan's GPUs reach.
    #[must_use]
    pub fn new(plan: &Plan, at: Coordinates) -> Self {
        let layer = pipeline::layer_time(plan).forward;
        let Training { micro_batch, sequence_length, .. } = plan.training;
        let (hidden, ffn) = (plan.model.hidden, plan.model.ffn);
        let flops = plan.model.layer_flops(micro_batch, sequence_length).max(1);
        // Two matrices of h f: 4 B s h f of the layer's operations.
        let feed_forward =
            [4, micro_batch, sequence_length, hidden, ffn].map(u128::from).iter().product::<u128>();
        let feed_forward = nanos(u128::from(layer.0) * feed_forward / flops);
        let buckets = operation::buckets(plan, at.pipeline, at.tensor);
        let held: u64 = buckets.iter().map(|bucket| bucket.elements).sum();
        let moved = u128::from(held) * OPTIMIZER_BYTES * FLOPS_PER_BYTE * 1_000_000_000;
        Self {
            attention: layer - feed_forward,
            feed_forward,
            head: pipeline::head_time(plan).forward,
            optimizer: nanos(moved / u128::from(plan.timing.peak_flops)),
        }
    }
}

fn nanos(nanos: u128) -> Nanos {
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// How long a training step takes if the network takes no time: the passes of the pipeline by compute alone
/// ([`pipeline::makespan`]), and the slowest optimizer behind them.
#[must_use]
pub fn ideal_step(plan: &Plan) -> Nanos {
    let stages = 0..plan.parallelism.pipeline;
    let times: Vec<_> = stages.clone().map(|stage| pipeline::stage_time(plan, stage)).collect();
    let passes = pipeline::makespan(plan.parallelism.schedule, &times, plan.training.microbatches);
    let optimizers =
        stages.map(|pipeline| Times::new(plan, Coordinates { pipeline, ..Coordinates::default() }).optimizer);
    passes.makespan + optimizers.max().unwrap_or(Nanos::ZERO)
}

/// The layers of a stage, counted over the whole model.
fn layers(plan: &Plan, stage: u32) -> std::ops::Range<u32> {
    let stage = Rank(stage).index();
    let counts = &plan.parallelism.layers_per_stage;
    let first = counts.iter().take(stage).sum();
    first..first + counts.get(stage).copied().unwrap_or(0)
}

/// What Adam moves per parameter: the gradient, the master copy and two moments read, the last three written, 4 bytes each.
const OPTIMIZER_BYTES: u128 = 28;

/// Peak operations per byte of memory bandwidth, between an A100's 153 and an H100's 295 (vendor data sheets).
const FLOPS_PER_BYTE: u128 = 200;
