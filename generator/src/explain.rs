//! The life of a token in numbers: from the words of a text to the bytes that a training step puts on the wires.
//!
//! [`explain`] computes it from the plan alone; [`text::render`] writes it for people. The keys of the JSON document are an
//! interface. No frame is made here: that payload and frames agree is for the trace's tests to show.

mod text;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use traces::origin::{Class, Operation, Phase};

use crate::operation::{self, Work};
use crate::pipeline;
use crate::placement::{Coordinates, Placement};
use crate::plan::{Plan, Words};
use crate::tokens;

pub use text::render;

/// All figures of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    /// The version of this document's shape.
    pub schema_version: u32,
    /// The plan's name.
    pub name: String,
    /// The plan's digest.
    pub plan_digest: String,
    /// What is trained.
    pub model: ModelFigures,
    /// What it is trained on.
    pub text: TextFigures,
    /// The sizes that everything else is made of.
    pub tensors: TensorFigures,
    /// Who holds what.
    pub ranks: RankFigures,
    /// One training step, pipeline stage by pipeline stage.
    pub stages: Vec<StageFigures>,
    /// The same step, summed over all ranks.
    pub totals: Vec<ClassFigures>,
    /// The step's passes in time, communication not counted.
    pub schedule: ScheduleFigures,
}

/// What is trained.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModelFigures {
    /// Its name.
    pub name: String,
    /// Parameters, each once.
    pub parameters: u64,
    /// Parameters that one token uses: all of them in a dense model.
    pub active_parameters: u64,
    /// Layers.
    pub layers: u32,
    /// Width of an activation.
    pub hidden: u64,
    /// Attention heads.
    pub heads: u64,
    /// Rows of the embedding.
    pub vocab: u64,
}

/// What it is trained on. Of a number of tokens nothing else is known.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TextFigures {
    /// Bytes of the text.
    pub bytes: Option<u64>,
    /// Words: runs of anything but white space.
    pub words: Option<u64>,
    /// Tokens.
    pub tokens: u64,
    /// The tokens' ids.
    pub ids: Option<Vec<u32>>,
    /// The tokens of the first line, as text; for people, so not in the document.
    #[serde(skip)]
    pub first_line: Vec<String>,
}

/// The sizes that everything else is made of.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TensorFigures {
    /// Of sequences in a microbatch, b.
    pub micro_batch: u64,
    /// Of tokens in a sequence, s.
    pub sequence_length: u64,
    /// A microbatch's activation, b s h numbers.
    pub activation_bytes: u64,
    /// All parameters.
    pub parameter_bytes: u64,
    /// All gradients.
    pub gradient_bytes: u64,
}

/// Who holds what.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RankFigures {
    /// Ranks.
    pub world: u32,
    /// Tensor-parallel degree.
    pub tensor: u32,
    /// Pipeline stages.
    pub pipeline: u32,
    /// Replicas.
    pub data: u32,
    /// Microbatches of a step on each replica.
    pub microbatches: u32,
    /// What a rank of each pipeline stage holds, at tensor coordinate 0.
    pub parameters_per_rank: Vec<HeldFigures>,
}

/// What a rank of one pipeline stage holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldFigures {
    /// Parameters outside experts.
    pub dense: u64,
    /// Parameters of experts.
    pub expert: u64,
}

/// One pipeline stage, seen from its rank at tensor and data coordinate 0.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StageFigures {
    /// The stage.
    pub stage: u32,
    /// The rank.
    pub rank: u32,
    /// Its host.
    pub host: u32,
    /// The stage's layers.
    pub layers: u32,
    /// A microbatch's forward pass.
    pub forward_ns: u64,
    /// A microbatch's backward pass.
    pub backward_ns: u64,
    /// What the rank does with others in one step.
    pub operations: Vec<OperationFigures>,
}

/// All operations of one class that a rank takes part in during one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OperationFigures {
    /// For which tensor.
    pub class: Class,
    /// What the group does.
    pub collective: Operation,
    /// The kind of group.
    pub group: &'static str,
    /// Its size.
    pub group_size: u32,
    /// In which part of the step.
    pub phase: Phase,
    /// How often.
    pub count: u64,
    /// What the operations mean, together.
    pub payload_bytes: u64,
    /// What the rank sends for them in rings, rounded down; no headers.
    pub wire_bytes: u64,
    /// Whether any of it goes to another host.
    pub leaves_host: bool,
    /// The least time that the link, or NVLink inside a host, takes for `wire_bytes`.
    pub wire_ns: u64,
    /// Full frames at the path MTU that `wire_bytes` fill; none inside a host.
    pub frames: u64,
}

/// One class of traffic, summed over all ranks of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClassFigures {
    /// The class.
    pub class: Class,
    /// What the operations mean, on each rank that takes part.
    pub payload_bytes: u64,
    /// What ranks send.
    pub wire_bytes: u64,
}

/// The step's passes in time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ScheduleFigures {
    /// From the first pass to the end of the last.
    pub makespan_ns: u64,
    /// What the busiest stage computes.
    pub ideal_ns: u64,
    /// Idle time over the ideal.
    pub bubble_over_ideal: f64,
}

/// A text that can not be explained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum ExplainError {
    /// This build has no vocabulary.
    #[error("this build cannot count the tokens of a text: it was made without the feature `tokens`")]
    #[diagnostic(help("give a number instead: --tokens N, or tokens = N in the plan"))]
    NoVocabulary,
}

/// All figures of a plan, trained on `words`: the plan's own, or others.
///
/// ```
/// use generator::{explain::explain, plan::load::load};
/// let plan = load("tutorial-dp8")?;
/// let figures = explain(&plan, &plan.training.words)?;
/// assert_eq!(figures.tensors.activation_bytes, 50_331_648);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExplainError`] when the words are a text and this build has no vocabulary.
pub fn explain(plan: &Plan, words: &Words) -> Result<Explanation, ExplainError> {
    let placement = Placement::new(plan);
    let parameters = plan.model.parameters();
    let model = &plan.model;
    let stages: Vec<_> =
        (0..plan.parallelism.pipeline).map(|stage| stage_figures(plan, &placement, stage)).collect();
    let times: Vec<_> =
        (0..plan.parallelism.pipeline).map(|stage| pipeline::stage_time(plan, stage)).collect();
    let step = pipeline::makespan(plan.parallelism.schedule, &times, plan.training.microbatches);
    Ok(Explanation {
        schema_version: SCHEMA_VERSION,
        name: plan.name.clone(),
        plan_digest: plan.digest(),
        model: ModelFigures {
            name: model.name.clone(),
            parameters,
            active_parameters: parameters,
            layers: model.layers,
            hidden: model.hidden,
            heads: model.heads,
            vocab: model.vocab,
        },
        text: text_figures(words)?,
        tensors: TensorFigures {
            micro_batch: plan.training.micro_batch,
            sequence_length: plan.training.sequence_length,
            activation_bytes: operation::activation(plan).0,
            parameter_bytes: parameters * plan.training.parameter.bytes(),
            gradient_bytes: parameters * plan.training.gradient.bytes(),
        },
        ranks: RankFigures {
            world: plan.ranks(),
            tensor: plan.parallelism.tensor,
            pipeline: plan.parallelism.pipeline,
            data: plan.parallelism.data,
            microbatches: plan.training.microbatches,
            parameters_per_rank: (0..plan.parallelism.pipeline).map(|stage| held(plan, stage)).collect(),
        },
        stages,
        totals: totals(plan, &placement),
        schedule: ScheduleFigures {
            makespan_ns: step.makespan.0,
            ideal_ns: step.ideal.0,
            bubble_over_ideal: step.bubble_over_ideal(),
        },
    })
}

/// The JSON Schema of `explain --json`.
#[must_use]
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Explanation)
}

fn text_figures(words: &Words) -> Result<TextFigures, ExplainError> {
    let text = match words {
        Words::Text { text, .. } => text,
        &Words::Tokens(tokens) => {
            return Ok(TextFigures { bytes: None, words: None, tokens, ids: None, first_line: Vec::new() });
        }
    };
    let whole = tokens::tokenize(text).ok_or(ExplainError::NoVocabulary)?;
    let first_line = whole.pieces.into_iter().take_while(|piece| !piece.contains('\n')).collect();
    Ok(TextFigures {
        bytes: Some(whole.bytes),
        words: Some(whole.words),
        tokens: u64::try_from(whole.ids.len()).unwrap_or(u64::MAX),
        ids: Some(whole.ids),
        first_line,
    })
}

fn stage_figures(plan: &Plan, placement: &Placement, stage: u32) -> StageFigures {
    let rank = placement.rank(Coordinates { tensor: 0, data: 0, pipeline: stage });
    let time = pipeline::stage_time(plan, stage);
    StageFigures {
        stage,
        rank: rank.0,
        host: placement.seat(rank).host.0,
        layers: operation::stage_layers(plan, stage),
        forward_ns: time.forward.0,
        backward_ns: time.backward.0,
        operations: operation::of_rank(plan, placement, rank)
            .iter()
            .map(|work| figures(plan, work))
            .collect(),
    }
}

fn figures(plan: &Plan, work: &Work) -> OperationFigures {
    let rate = if work.leaves_host { plan.cluster.link } else { plan.cluster.nvlink };
    let frame = u64::from(plan.transport.path_mtu.bytes());
    OperationFigures {
        class: work.class,
        collective: work.operation,
        group: work.group.name(),
        group_size: work.group_size,
        phase: work.phase,
        count: work.count,
        payload_bytes: work.payload.0,
        wire_bytes: work.sent.0,
        leaves_host: work.leaves_host,
        wire_ns: rate.time_of(work.sent).0,
        frames: if work.leaves_host { work.sent.0.div_ceil(frame) } else { 0 },
    }
}

fn held(plan: &Plan, stage: u32) -> HeldFigures {
    let degree = u64::from(plan.parallelism.tensor);
    let dense =
        operation::parameters(plan, stage).iter().map(|(_, parameter)| parameter.held(0, degree)).sum();
    HeldFigures { dense, expert: 0 }
}

/// Sums over all ranks. Replicas do the same as one another, so one is counted and multiplied.
fn totals(plan: &Plan, placement: &Placement) -> Vec<ClassFigures> {
    let mut totals: BTreeMap<Class, ClassFigures> = BTreeMap::new();
    let replicas = u64::from(plan.parallelism.data);
    for pipeline in 0..plan.parallelism.pipeline {
        for tensor in 0..plan.parallelism.tensor {
            let rank = placement.rank(Coordinates { tensor, data: 0, pipeline });
            for work in operation::of_rank(plan, placement, rank) {
                let empty = ClassFigures { class: work.class, payload_bytes: 0, wire_bytes: 0 };
                let total = totals.entry(work.class).or_insert(empty);
                total.payload_bytes =
                    total.payload_bytes.saturating_add(work.payload.0.saturating_mul(replicas));
                total.wire_bytes = total.wire_bytes.saturating_add(work.sent.0.saturating_mul(replicas));
            }
        }
    }
    totals.into_values().collect()
}

/// The version of the document's shape.
const SCHEMA_VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::load::load;

    fn document(name: &str) -> serde_json::Value {
        let plan = load(name).unwrap();
        serde_json::to_value(explain(&plan, &plan.training.words).unwrap()).unwrap()
    }

    /// The sum of a figure over all stages' operations of some classes.
    fn sum(document: &serde_json::Value, figure: &str, classes: &[&str]) -> u64 {
        let stages = document["stages"].as_array().unwrap();
        let operations = stages.iter().flat_map(|stage| stage["operations"].as_array().unwrap());
        operations
            .filter(|operation| classes.contains(&operation["class"].as_str().unwrap()))
            .map(|operation| operation[figure].as_u64().unwrap())
            .sum()
    }

    #[test]
    #[cfg(feature = "tokens")]
    fn the_tutorial_has_the_published_sizes() {
        for name in ["tutorial-dp8", "tutorial-pp8", "tutorial-tp8"] {
            let document = document(name);
            assert_eq!(document["schema_version"], 1);
            assert_eq!(document["model"]["parameters"], 124_439_808);
            assert_eq!(document["tensors"]["activation_bytes"], 50_331_648);
            assert_eq!(document["tensors"]["parameter_bytes"], 248_879_616);
            assert_eq!(document["ranks"]["world"], 8);
            assert_eq!(document["ranks"]["microbatches"], 1);
            assert_eq!(document["text"]["tokens"], 151);
        }
    }

    #[test]
    #[cfg(feature = "tokens")]
    fn the_tutorial_moves_the_published_volumes() {
        assert_eq!(sum(&document("tutorial-dp8"), "wire_bytes", &["dp_gradients"]), 435_539_328);
        let tensor = document("tutorial-tp8");
        assert_eq!(sum(&tensor, "payload_bytes", &["tp_forward", "tp_backward"]), 2_415_919_104);
        assert_eq!(sum(&tensor, "wire_bytes", &["tp_forward", "tp_backward"]), 4_227_858_432);
        let pipeline = document("tutorial-pp8");
        assert_eq!(sum(&pipeline, "payload_bytes", &["pp_forward", "pp_backward"]), 704_643_072);
    }

    #[test]
    fn a_number_of_tokens_needs_no_vocabulary() {
        let plan = load("tutorial-dp8").unwrap();
        let document = serde_json::to_value(explain(&plan, &Words::Tokens(12)).unwrap()).unwrap();
        assert_eq!(document["text"]["tokens"], 12);
        assert!(document["text"]["ids"].is_null());
    }

    #[test]
    #[cfg(feature = "tokens")]
    fn every_number_of_the_totals_is_that_of_all_ranks() {
        let plan = load("demo").unwrap();
        let placement = Placement::new(&plan);
        let works: Vec<_> =
            placement.ranks().flat_map(|rank| operation::of_rank(&plan, &placement, rank)).collect();
        for total in explain(&plan, &plan.training.words).unwrap().totals {
            let sent: u64 =
                works.iter().filter(|work| work.class == total.class).map(|work| work.sent.0).sum();
            assert_eq!(total.wire_bytes, sent, "{}", total.class);
        }
    }

    #[test]
    #[cfg(feature = "tokens")]
    fn people_read_it_within_100_columns() {
        for name in crate::plan::load::names() {
            let plan = load(name).unwrap();
            let text = render(&explain(&plan, &plan.training.words).unwrap());
            for line in text.lines() {
                assert!(line.chars().count() <= 100 && line == line.trim_end(), "{name}: {line:?}");
            }
            assert!(text.contains("124,439,808") || name == "demo");
            assert!(text.contains("·cam") && text.contains("47802"), "{text}");
        }
    }

    #[test]
    #[cfg(not(feature = "tokens"))]
    fn without_a_vocabulary_a_text_is_refused() {
        let words = Words::Text { name: "a".to_owned(), text: "a".to_owned() };
        assert_eq!(explain(&load("demo").unwrap(), &words), Err(ExplainError::NoVocabulary));
    }
}
