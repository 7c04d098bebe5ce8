//! The items of a pass, and of the end of a step.

use traces::graph::{Purpose, Task};
use traces::id::GroupId;
use traces::origin::{self, Class, Origin, Phase};
use traces::unit::{Bytes, Nanos};

use super::{Item, Operation, RankSchedule, Stream, Times, Work};
use crate::operation::{self, Part};
use crate::pipeline::Pass;
use crate::placement::GroupKind;

impl RankSchedule<'_> {
    pub(super) fn pass(&mut self, step: u32, pass: Pass) {
        let (first, last) = operation::ends(self.plan, self.at.pipeline);
        let stage = self.at.pipeline;
        match pass {
            Pass::Forward(microbatch) => {
                if !first {
                    self.transfer(step, microbatch, Phase::Forward, Way::From(stage - 1));
                }
                let context = Context { step, microbatch, task: Task::Forward, phase: Phase::Forward };
                let mut behind = BEHIND_TRANSFERS;
                if first {
                    self.reduce_activation(
                        context,
                        None,
                        Class::TpEmbedding,
                        Stream::Compute,
                        BEHIND_TRANSFERS,
                    );
                }
                for layer in self.layers.clone() {
                    for time in self.halves() {
                        self.compute(context, Some(layer), time, behind);
                        behind = &[];
                        self.reduce_activation(context, Some(layer), Class::TpForward, Stream::Compute, &[]);
                    }
                }
                if last {
                    self.compute(context, None, self.times.head, &[]);
                    for _ in 0..operation::CROSS_ENTROPY_REDUCTIONS {
                        let payload = operation::cross_entropy(self.plan);
                        self.reduce(
                            context.origin(None, Class::TpCrossEntropy),
                            GroupKind::Tensor,
                            payload,
                            4,
                            Stream::Compute,
                            &[],
                        );
                    }
                } else {
                    self.transfer(step, microbatch, Phase::Forward, Way::To(stage + 1));
                }
            }
            Pass::Backward(microbatch) => {
                if !last {
                    self.transfer(step, microbatch, Phase::Backward, Way::From(stage + 1));
                }
                let context = Context { step, microbatch, task: Task::Backward, phase: Phase::Backward };
                let synchronize = microbatch + 1 == self.plan.training.microbatches;
                let mut behind = BEHIND_TRANSFERS;
                if last {
                    self.backward(context, None, self.times.head, Class::TpHead, behind);
                    behind = BEHIND_TENSOR;
                    self.sum_gradients(context, Part::Head, synchronize);
                }
                for layer in self.layers.clone().rev() {
                    for time in self.halves().into_iter().rev() {
                        self.backward(context, Some(layer), time, Class::TpBackward, behind);
                        behind = BEHIND_TENSOR;
                    }
                    self.sum_gradients(context, Part::Layer(layer), synchronize);
                }
                if first {
                    self.sum_gradients(context, Part::Embedding, synchronize);
                } else {
                    self.transfer(step, microbatch, Phase::Backward, Way::To(stage - 1));
                }
            }
        }
    }

    /// What follows the last pass of a step: the tied embedding, the optimizer, the end.
    pub(super) fn end(&mut self, step: u32) {
        let origin = Origin {
            microbatch: None,
            ..Context { step, microbatch: 0, task: Task::Optimizer, phase: Phase::End }
                .origin(None, Class::TiedEmbedding)
        };
        let payload = operation::tied_embedding(self.plan, self.at.tensor);
        let element = self.plan.training.gradient.bytes();
        self.reduce(origin, GroupKind::FirstAndLastStage, payload, element, Stream::Compute, ALL_OTHERS);
        for (task, duration) in [(Task::Optimizer, self.times.optimizer), (Task::StepEnd, Nanos::ZERO)] {
            let purpose = Purpose { step, microbatch: None, layer: None, task };
            self.ready.push_back(Item {
                stream: Stream::Compute,
                after: ALL_OTHERS,
                work: Work::Compute { purpose, duration },
            });
        }
    }

    fn compute(&mut self, context: Context, layer: Option<u32>, duration: Nanos, after: &'static [Stream]) {
        let Context { step, microbatch, task, .. } = context;
        let purpose = Purpose { step, microbatch: Some(microbatch), layer, task };
        let work = Work::Compute { purpose, duration };
        self.ready.push_back(Item { stream: Stream::Compute, after, work });
    }

    /// Twice the time of the forward pass: input gradients, then weight gradients. With tensor parallelism the input
    /// gradients are summed meanwhile, and what comes next waits for that.
    fn backward(
        &mut self,
        context: Context,
        layer: Option<u32>,
        forward: Nanos,
        class: Class,
        after: &'static [Stream],
    ) {
        if self.placement.group(GroupKind::Tensor, self.rank).is_none() {
            return self.compute(context, layer, forward * 2, after);
        }
        self.compute(context, layer, forward, after);
        self.reduce_activation(context, layer, class, Stream::Tensor, &[Stream::Compute]);
        self.compute(context, layer, forward, &[]);
    }

    fn reduce_activation(
        &mut self,
        context: Context,
        layer: Option<u32>,
        class: Class,
        stream: Stream,
        after: &'static [Stream],
    ) {
        let payload = operation::activation(self.plan);
        let element = self.plan.training.activation.bytes();
        self.reduce(context.origin(layer, class), GroupKind::Tensor, payload, element, stream, after);
    }

    fn sum_gradients(&mut self, context: Context, part: Part, synchronize: bool) {
        if !synchronize {
            return;
        }
        let layer = if let Part::Layer(layer) = part { Some(layer) } else { None };
        let element = self.plan.training.gradient.bytes();
        let complete: Vec<_> =
            self.buckets.iter().filter(|bucket| bucket.ready == part).map(|bucket| bucket.bytes).collect();
        for payload in complete {
            let origin = context.origin(layer, Class::DpGradients);
            self.reduce(
                origin,
                GroupKind::Data,
                payload,
                element,
                Stream::Gradients,
                &[Stream::Compute, Stream::Tensor],
            );
        }
    }

    /// An all-reduce, unless the rank is alone in its group.
    fn reduce(
        &mut self,
        origin: Origin,
        kind: GroupKind,
        payload: Bytes,
        element: u64,
        stream: Stream,
        after: &'static [Stream],
    ) {
        let Some(group) = self.placement.group(kind, self.rank) else { return };
        let instances = &mut self.instances[kind as usize];
        let origin = Origin { group: group.id, instance: *instances, ..origin };
        *instances += 1;
        let work = Work::AllReduce(Operation { origin, group, payload, element });
        self.ready.push_back(Item { stream, after, work });
    }

    /// A message between neighbouring stages.
    fn transfer(&mut self, step: u32, microbatch: u32, phase: Phase, way: Way) {
        let Some(group) = self.placement.group(GroupKind::Pipeline, self.rank) else { return };
        let (class, direction) =
            if phase == Phase::Forward { (Class::PpForward, 0) } else { (Class::PpBackward, 1) };
        let (Way::To(other) | Way::From(other)) = way;
        let boundary = other.min(self.at.pipeline);
        let round = (step * self.plan.training.microbatches + microbatch) * 2 + direction;
        let context = Context { step, microbatch, task: Task::Forward, phase };
        let operation = Operation {
            origin: Origin {
                operation: origin::Operation::SendReceive,
                group: group.id,
                // Both ends count alike: by microbatch, direction, boundary.
                instance: round * (group.size() - 1) + boundary,
                ..context.origin(None, class)
            },
            group,
            payload: operation::activation(self.plan),
            element: self.plan.training.activation.bytes(),
        };
        let peer = group.member(other);
        let (stream, work) = match way {
            Way::To(_) => (Stream::Send, Work::Send { operation, to: peer }),
            Way::From(_) => (Stream::Receive, Work::Receive { operation, from: peer }),
        };
        self.ready.push_back(Item { stream, after: &[Stream::Compute, Stream::Tensor], work });
    }

    /// The kernels of a layer, forward: two halves where an all-reduce follows each, else one.
    fn halves(&self) -> Vec<Nanos> {
        let Times { attention, feed_forward, .. } = self.times;
        if self.placement.group(GroupKind::Tensor, self.rank).is_some() {
            vec![attention, feed_forward]
        } else {
            vec![attention + feed_forward]
        }
    }
}

/// Where a pass stands.
#[derive(Clone, Copy)]
struct Context {
    step: u32,
    microbatch: u32,
    task: Task,
    phase: Phase,
}

impl Context {
    const fn origin(self, layer: Option<u32>, class: Class) -> Origin {
        Origin {
            step: self.step,
            microbatch: Some(self.microbatch),
            layer,
            phase: self.phase,
            class,
            operation: origin::Operation::AllReduce,
            group: GroupId(0),
            instance: 0,
            collective_step: 0,
            channel: 0,
            slice: 0,
        }
    }
}

/// Whom a message between stages goes to or comes from.
#[derive(Clone, Copy)]
enum Way {
    To(u32),
    From(u32),
}

/// A pass begins when the messages before it are through.
const BEHIND_TRANSFERS: &[Stream] = &[Stream::Tensor, Stream::Send, Stream::Receive];
const BEHIND_TENSOR: &[Stream] = &[Stream::Tensor];
const ALL_OTHERS: &[Stream] = &[Stream::Tensor, Stream::Send, Stream::Receive, Stream::Gradients];
