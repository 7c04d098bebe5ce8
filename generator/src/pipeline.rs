//! The order of forward and backward passes on a pipeline stage, and how long a step of them takes.
//!
//! Orders are Narayanan et al. 2021 (section 2.2). Only passes are timed here; what ranks tell one another is in
//! [`crate::operation`].

use traces::unit::Nanos;

use crate::operation;
use crate::plan::{Plan, Schedule};

/// A pass of one microbatch through one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Activations of this microbatch.
    Forward(u32),
    /// Gradients of this microbatch.
    Backward(u32),
}

/// How long the passes of one stage, or of a part of it, take for a microbatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTime {
    /// A forward pass.
    pub forward: Nanos,
    /// A backward pass.
    pub backward: Nanos,
}

/// How long a step takes when nothing but passes takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Makespan {
    /// From the first pass's start to the last pass's end.
    pub makespan: Nanos,
    /// What the busiest stage computes, without ever waiting.
    pub ideal: Nanos,
}

/// How long one layer computes for a microbatch on a tensor-parallel rank; backward takes twice as long.
#[must_use]
pub fn layer_time(plan: &Plan) -> StageTime {
    let training = &plan.training;
    let flops = plan.model.layer_flops(training.micro_batch, training.sequence_length);
    time_of(plan, flops.div_ceil(plan.parallelism.tensor.into()))
}

/// How long the projection to the vocabulary computes for a microbatch, on the rank with the largest part of it.
#[must_use]
pub fn head_time(plan: &Plan) -> StageTime {
    let (training, degree) = (&plan.training, plan.parallelism.tensor.into());
    let whole = plan.model.head_flops(training.micro_batch, training.sequence_length);
    let embedding = plan.model.token_embedding();
    time_of(plan, whole * u128::from(embedding.held(0, degree)) / u128::from(embedding.elements.max(1)))
}

/// How long a stage computes for a microbatch: its layers, and the head on the last.
#[must_use]
pub fn stage_time(plan: &Plan, stage: u32) -> StageTime {
    let (layer, layers) = (layer_time(plan), u64::from(operation::stage_layers(plan, stage)));
    let (_, last) = operation::ends(plan, stage);
    let head = if last { head_time(plan) } else { StageTime { forward: Nanos::ZERO, backward: Nanos::ZERO } };
    let sum = |layer: Nanos, head: Nanos| Nanos(layer.0.saturating_mul(layers).saturating_add(head.0));
    StageTime { forward: sum(layer.forward, head.forward), backward: sum(layer.backward, head.backward) }
}

fn time_of(plan: &Plan, flops: u128) -> StageTime {
    let rate = u128::from(plan.timing.flops_per_second);
    let time = |flops: u128| {
        Nanos(u64::try_from(flops.saturating_mul(1_000_000_000).div_ceil(rate)).unwrap_or(u64::MAX))
    };
    StageTime { forward: time(flops), backward: time(flops.saturating_mul(2)) }
}

/// The passes of `stage` of `stages` in the order in which it makes them.
///
/// 1F1B: min(p-1-r, m) forward passes to warm up, then a forward and a backward in turn, then the backwards that are left.
#[must_use]
pub fn passes(schedule: Schedule, stages: u32, stage: u32, microbatches: u32) -> Vec<Pass> {
    let warm_up = match schedule {
        Schedule::OneForwardOneBackward => microbatches.min(stages.saturating_sub(stage.saturating_add(1))),
        Schedule::GPipe => microbatches,
    };
    let steady =
        (warm_up..microbatches).flat_map(|next| [Pass::Forward(next), Pass::Backward(next - warm_up)]);
    let cool_down = (microbatches - warm_up..microbatches).map(Pass::Backward);
    (0..warm_up).map(Pass::Forward).chain(steady).chain(cool_down).collect()
}

/// The time of one step over these stages: a forward pass waits for the stage before, a backward pass for the one behind.
#[must_use]
pub fn makespan(schedule: Schedule, times: &[StageTime], microbatches: u32) -> Makespan {
    let count = usize::try_from(microbatches).unwrap_or(usize::MAX);
    let stages = u32::try_from(times.len()).unwrap_or(u32::MAX);
    let orders: Vec<_> = (0..stages).map(|stage| passes(schedule, stages, stage, microbatches)).collect();
    let mut forward_end = vec![vec![None::<u64>; count]; times.len()];
    let mut backward_end = forward_end.clone();
    let mut next = vec![0; times.len()];
    let mut free = vec![0_u64; times.len()];
    // Each sweep over the stages makes at least one pass, as neither order waits in a circle.
    let mut moved = true;
    while moved {
        moved = false;
        for stage in 0..times.len() {
            while let Some(&pass) = orders[stage].get(next[stage]) {
                let (end, batch, neighbour, time) = match pass {
                    Pass::Forward(batch) => (&forward_end, batch, stage.checked_sub(1), times[stage].forward),
                    Pass::Backward(batch) => (
                        &backward_end,
                        batch,
                        Some(stage + 1).filter(|&s| s < times.len()),
                        times[stage].backward,
                    ),
                };
                let batch = usize::try_from(batch).unwrap_or(usize::MAX);
                let Some(ready) = neighbour.map_or(Some(0), |stage| end[stage][batch]) else { break };
                free[stage] = free[stage].max(ready).saturating_add(time.0);
                match pass {
                    Pass::Forward(_) => forward_end[stage][batch] = Some(free[stage]),
                    Pass::Backward(_) => backward_end[stage][batch] = Some(free[stage]),
                }
                next[stage] += 1;
                moved = true;
            }
        }
    }
    let busy = times
        .iter()
        .map(|time| (time.forward.0.saturating_add(time.backward.0)).saturating_mul(microbatches.into()));
    Makespan {
        makespan: Nanos(free.iter().copied().max().unwrap_or(0)),
        ideal: Nanos(busy.max().unwrap_or(0)),
    }
}

impl Makespan {
    /// Idle time over the ideal: (p-1)/m for equal stages.
    #[must_use]
    pub fn bubble_over_ideal(&self) -> f64 {
        if self.ideal == Nanos::ZERO {
            return 0.0;
        }
        self.makespan.0.saturating_sub(self.ideal.0) as f64 / self.ideal.0 as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unit(stages: usize, microbatches: u32, schedule: Schedule) -> Makespan {
        makespan(schedule, &vec![StageTime { forward: Nanos(1), backward: Nanos(2) }; stages], microbatches)
    }

    fn words(passes: &[Pass]) -> String {
        let word = |pass: &Pass| match pass {
            Pass::Forward(batch) => format!("F{batch}"),
            Pass::Backward(batch) => format!("B{batch}"),
        };
        passes.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_first_stage_of_four_warms_up_with_three() {
        let order = |stage| words(&passes(Schedule::OneForwardOneBackward, 4, stage, 8));
        assert_eq!(order(0), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
        assert_eq!(order(3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
        assert_eq!(words(&passes(Schedule::GPipe, 4, 1, 2)), "F0 F1 B0 B1");
    }

    #[test]
    fn the_published_bubbles() {
        for (stages, microbatches, bubble) in [(4, 8, 0.375), (8, 32, 0.21875), (16, 64, 0.234_375)] {
            for schedule in [Schedule::OneForwardOneBackward, Schedule::GPipe] {
                let got = unit(stages, microbatches, schedule).bubble_over_ideal();
                assert!((got - bubble).abs() < 1e-12, "{stages} stages, {microbatches} microbatches: {got}");
            }
        }
        let four = unit(4, 8, Schedule::OneForwardOneBackward);
        assert_eq!((four.makespan, four.ideal), (Nanos(33), Nanos(24)));
    }

    #[test]
    fn a_stage_alone_never_waits() {
        assert_eq!(unit(1, 5, Schedule::OneForwardOneBackward).makespan, Nanos(15));
    }

    proptest! {
        #[test]
        fn every_microbatch_goes_forward_once_and_then_back(stages in 1..9_u32, stage in 0..9_u32, microbatches in 1..20_u32) {
            let stage = stage % stages;
            for schedule in [Schedule::OneForwardOneBackward, Schedule::GPipe] {
                let order = passes(schedule, stages, stage, microbatches);
                for batch in 0..microbatches {
                    let place = |pass| order.iter().position(|&other| other == pass).unwrap();
                    prop_assert!(place(Pass::Forward(batch)) < place(Pass::Backward(batch)));
                }
                prop_assert_eq!(order.len(), usize::try_from(2 * microbatches).unwrap());
            }
        }

        #[test]
        fn equal_stages_wait_for_p_minus_1_microbatches(stages in 1..9_usize, m in 1..20_u32, f in 1..50_u64, b in 1..50_u64) {
            let times = vec![StageTime { forward: Nanos(f), backward: Nanos(b) }; stages];
            let step = makespan(Schedule::OneForwardOneBackward, &times, m);
            let waits = u64::try_from(stages - 1).unwrap();
            prop_assert_eq!(step.makespan.0, (u64::from(m) + waits) * (f + b));
        }
    }
}
