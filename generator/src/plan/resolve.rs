//! What a written value means, and why it is refused.

use traces::unit::{BitRate, Bytes};

use super::error::{Wrong, did_you_mean};
use super::fabric;
use super::file::{ClusterTable, ModelTable, ParallelismTable, PlanFile, TimingTable, TrainingTable};
use super::value::{between, choice, positive, prefix, quantity, within, wrong};
use super::{
    Cluster, Collectives, Dimension, Number, Parallelism, Plan, Schedule, Timing, Training, Words, transport,
};
use crate::model::Model;

/// The meaning of a plan file; the text that it names was read by the caller.
pub(super) fn resolve(file: &PlanFile, words: Words) -> Result<Plan, Wrong> {
    if file.version != VERSION {
        let what = format!("version {} of the plan format is not known", file.version);
        return Err(wrong(&["version"], what, format!("write version = {VERSION}")));
    }
    let training = training(&file.training)?;
    let model = model(&file.model, training.sequence_length)?;
    let table = file.parallelism.clone().unwrap_or_default();
    let cluster = cluster(&file.cluster)?;
    let parallelism = parallelism(&table, &model, &cluster)?;
    let per_round = training.micro_batch * u64::from(parallelism.data);
    let global = file.training.global_batch;
    let microbatches =
        global.is_multiple_of(per_round).then(|| u32::try_from(global / per_round).ok()).flatten();
    let Some(microbatches) = microbatches.filter(|&microbatches| microbatches > 0) else {
        let what = format!(
            "global_batch {global} is not a multiple of micro_batch {} x data {} = {per_round}",
            training.micro_batch, parallelism.data
        );
        let near = (global / per_round).max(1) * per_round;
        return Err(wrong(&["training", "global_batch"], what, format!("{near} would be")));
    };
    bounded(&model, &training, &parallelism, microbatches)?;
    let transport = transport::meant(file, &cluster)?;
    let collectives = file.collectives.clone().unwrap_or_default();
    choice(&["collectives", "algorithm"], collectives.algorithm.as_deref(), &["auto", "ring"])?;
    choice(&["collectives", "protocol"], collectives.protocol.as_deref(), &["auto", "simple"])?;
    let channels = collectives.channels.unwrap_or(4);
    if !(1..=64).contains(&channels) {
        let what = format!("{channels} channels");
        return Err(wrong(&["collectives", "channels"], what, "between 1 and 64, as NCCL has".to_owned()));
    }
    let fabric = fabric::resolve(&file.fabric.clone().unwrap_or_default(), &cluster, &transport)?;
    let queue_pairs = collectives.queue_pairs.unwrap_or(1);
    between(&["collectives", "queue_pairs"], queue_pairs.into(), 1, 16)?;
    let split = collectives.split.unwrap_or(false);
    Ok(Plan {
        name: file.name.clone(),
        seed: file.seed.unwrap_or(1),
        model,
        training: Training { microbatches, words, ..training },
        parallelism,
        cluster,
        collectives: Collectives { channels, queue_pairs, split },
        transport,
        timing: timing(file.timing.as_ref().unwrap_or(&TimingTable::default()))?,
        fabric,
    })
}

fn model(table: &ModelTable, sequence_length: u64) -> Result<Model, Wrong> {
    let positions = table.learned_positions.unwrap_or(sequence_length);
    let mut model = match (&table.preset, &table.family) {
        (Some(preset), None) => Model::preset(preset, positions).ok_or_else(|| {
            let what = format!("there is no preset `{preset}`");
            wrong(&["model", "preset"], what, did_you_mean(preset, Model::presets()))
        })?,
        (None, Some(family)) => {
            choice(&["model", "family"], Some(family), &["gpt"])?;
            let needed = |key: &'static str| {
                wrong(
                    &["model"],
                    format!("family `{family}` needs `{key}`"),
                    "layers, hidden and heads".to_owned(),
                )
            };
            let hidden = table.hidden.ok_or_else(|| needed("hidden"))?;
            Model {
                name: format!("a {family}"),
                layers: table.layers.ok_or_else(|| needed("layers"))?,
                hidden,
                heads: table.heads.ok_or_else(|| needed("heads"))?,
                ffn: hidden.saturating_mul(4),
                vocab: 50_257,
                positions,
            }
        }
        _ => {
            let what = "give either `preset` or `family`".to_owned();
            return Err(wrong(
                &["model"],
                what,
                "preset = \"gpt2\", or family = \"gpt\" with its fields".to_owned(),
            ));
        }
    };
    model.layers = table.layers.unwrap_or(model.layers);
    model.hidden = table.hidden.unwrap_or(model.hidden);
    model.heads = table.heads.unwrap_or(model.heads);
    model.vocab = table.vocab.unwrap_or(model.vocab);
    model.ffn =
        table.ffn.unwrap_or(if table.hidden.is_some() { model.hidden.saturating_mul(4) } else { model.ffn });
    let sizes = [("layers", u64::from(model.layers)), ("hidden", model.hidden), ("heads", model.heads)];
    for (key, value) in sizes.into_iter().chain([
        ("vocab", model.vocab),
        ("ffn", model.ffn),
        ("learned_positions", positions),
    ]) {
        within(&["model", key], value, LARGEST)?;
    }
    within(&["model", "layers"], model.layers.into(), MOST_LAYERS)?;
    if !model.hidden.is_multiple_of(model.heads) {
        let what = format!("hidden {} is not a multiple of heads {}", model.hidden, model.heads);
        return Err(wrong(&["model", "hidden"], what, "every head has hidden / heads dimensions".to_owned()));
    }
    if positions < sequence_length {
        let what = format!("{positions} learned positions, but sequences of {sequence_length} tokens");
        return Err(wrong(&["model", "learned_positions"], what, "at least the sequence length".to_owned()));
    }
    Ok(model)
}

fn training(table: &TrainingTable) -> Result<Training, Wrong> {
    for (key, value) in [
        ("sequence_length", table.sequence_length),
        ("micro_batch", table.micro_batch),
        ("global_batch", table.global_batch),
        ("steps", table.steps.unwrap_or(1).into()),
    ] {
        within(&["training", key], value, LARGEST)?;
    }
    if table.text.is_some() && table.tokens.is_some() {
        let what = "both `text` and `tokens` are given".to_owned();
        return Err(wrong(
            &["training", "tokens"],
            what,
            "a text has its own number of tokens: leave one out".to_owned(),
        ));
    }
    let number = |key: &'static str, text: &Option<String>| {
        choice(&["training", key], text.as_deref(), &["bf16", "fp16", "fp32"]).map(|choice| match choice {
            2 => Number::Fp32,
            1 => Number::Fp16,
            _ => Number::Bf16,
        })
    };
    Ok(Training {
        sequence_length: table.sequence_length,
        micro_batch: table.micro_batch,
        microbatches: 1,
        steps: table.steps.unwrap_or(1),
        activation: number("activation_dtype", &table.activation_dtype)?,
        gradient: number("gradient_dtype", &table.gradient_dtype)?,
        parameter: number("parameter_dtype", &table.parameter_dtype)?,
        words: Words::Tokens(0),
    })
}

fn cluster(table: &ClusterTable) -> Result<Cluster, Wrong> {
    let nics_per_host = table.nics_per_host.unwrap_or(table.gpus_per_host);
    for (key, value) in
        [("hosts", table.hosts), ("gpus_per_host", table.gpus_per_host), ("nics_per_host", nics_per_host)]
    {
        within(&["cluster", key], value.into(), MOST_MACHINES)?;
    }
    if !table.gpus_per_host.is_multiple_of(nics_per_host) {
        let what = format!("{nics_per_host} NICs cannot be shared evenly by {} GPUs", table.gpus_per_host);
        return Err(wrong(&["cluster", "nics_per_host"], what, "a divisor of gpus_per_host".to_owned()));
    }
    if let Some(vlan) = table.vlan {
        between(&["cluster", "vlan"], vlan.into(), 0, 4_094)?;
    }
    let addresses = prefix(table.addresses.as_deref().unwrap_or("198.18.0.0/15"))?;
    let nics = u64::from(table.hosts) * u64::from(nics_per_host);
    let width = if addresses.network.is_ipv4() { 32 } else { 128 };
    // The network's own address and, in IPv4, its broadcast address belong to nobody.
    let room = 1_u64.checked_shl(width - u32::from(addresses.length)).unwrap_or(u64::MAX).saturating_sub(2);
    if room < nics {
        let what =
            format!("a network of /{} has {room} addresses, but there are {nics} NICs", addresses.length);
        return Err(wrong(
            &["cluster", "addresses"],
            what,
            "a shorter prefix, for example 198.18.0.0/15".to_owned(),
        ));
    }
    Ok(Cluster {
        hosts: table.hosts,
        gpus_per_host: table.gpus_per_host,
        nics_per_host,
        link: quantity::<BitRate>(&["cluster", "link"], Some(&table.link), "")?,
        nvlink: quantity::<BitRate>(&["cluster", "nvlink"], table.nvlink.as_deref(), "3600Gbit")?,
        addresses,
        vlan: table.vlan,
        mtu: table.mtu.unwrap_or(9_000),
    })
}

fn parallelism(table: &ParallelismTable, model: &Model, cluster: &Cluster) -> Result<Parallelism, Wrong> {
    let [tensor, pipeline, data] =
        [table.tensor, table.pipeline, table.data].map(|degree| degree.unwrap_or(1));
    for (key, degree) in [("tensor", tensor), ("pipeline", pipeline), ("data", data)] {
        within(&["parallelism", key], degree.into(), MOST_MACHINES)?;
    }
    let ranks = u64::from(tensor) * u64::from(pipeline) * u64::from(data);
    let gpus = u64::from(cluster.hosts) * u64::from(cluster.gpus_per_host);
    within(&["cluster", "gpus_per_host"], gpus, MOST_RANKS)?;
    if ranks != gpus {
        let what = format!(
            "tensor {tensor} x pipeline {pipeline} x data {data} = {ranks} ranks, but the cluster has {gpus} GPUs ({} hosts of {})",
            cluster.hosts, cluster.gpus_per_host
        );
        let help = "the product of the degrees is the number of GPUs".to_owned();
        return Err(wrong(&["parallelism"], what, help));
    }
    for (key, whole) in [("heads", model.heads), ("ffn", model.ffn)] {
        if !whole.is_multiple_of(u64::from(tensor)) {
            let what = format!("tensor degree {tensor} does not divide {whole} {key}");
            return Err(wrong(
                &["parallelism", "tensor"],
                what,
                format!("each rank of a tensor group holds {key} / tensor"),
            ));
        }
    }
    let stages = usize::try_from(pipeline).unwrap_or(usize::MAX);
    let layers_per_stage = match &table.layers_per_stage {
        Some(layers) if layers.len() != stages => {
            let what = format!("layers_per_stage names {} stages, but pipeline is {pipeline}", layers.len());
            return Err(wrong(&["parallelism", "layers_per_stage"], what, "one number a stage".to_owned()));
        }
        Some(layers) => {
            let sum: u64 = layers.iter().map(|&layers| u64::from(layers)).sum();
            if sum != u64::from(model.layers) || layers.contains(&0) {
                let what = match layers.contains(&0) {
                    true => "layers_per_stage has a stage without layers".to_owned(),
                    false => {
                        format!("layers_per_stage sums to {sum}, but the model has {} layers", model.layers)
                    }
                };
                return Err(wrong(
                    &["parallelism", "layers_per_stage"],
                    what,
                    "at least one layer a stage".to_owned(),
                ));
            }
            layers.clone()
        }
        None if !model.layers.is_multiple_of(pipeline) => {
            let what = format!("{} layers do not divide into {pipeline} equal stages", model.layers);
            let help = "say how many each stage has: layers_per_stage = [..]".to_owned();
            return Err(wrong(&["parallelism", "pipeline"], what, help));
        }
        None => vec![model.layers / pipeline; stages],
    };
    let schedule = choice(&["parallelism", "schedule"], table.schedule.as_deref(), &["1f1b", "gpipe"])?;
    let bucket = quantity::<Bytes>(&["parallelism", "buckets"], table.buckets.as_deref(), "25MiB")?;
    positive(&["parallelism", "buckets"], bucket.0)?;
    Ok(Parallelism {
        tensor,
        pipeline,
        data,
        schedule: if schedule == 1 { Schedule::GPipe } else { Schedule::OneForwardOneBackward },
        layers_per_stage,
        order: order(table.order.as_deref().unwrap_or("tp-cp-ep-dp-pp"))?,
        bucket,
    })
}

/// Refuses what no cluster could train, so that no sum of bytes over a step leaves 64 bits.
fn bounded(
    model: &Model,
    training: &Training,
    parallelism: &Parallelism,
    microbatches: u32,
) -> Result<(), Wrong> {
    let [layers, hidden, ffn] = [model.layers.into(), model.hidden, model.ffn].map(u128::from);
    let rows = u128::from(model.vocab) + u128::from(model.positions);
    let parameters = layers * (4 * hidden * hidden + 2 * hidden * ffn + 9 * hidden + ffn) + rows * hidden;
    if parameters > MOST_PARAMETERS {
        let what = format!("a model of {parameters} parameters is beyond what a plan can describe");
        return Err(wrong(&["model", "hidden"], what, format!("at most {MOST_PARAMETERS} parameters")));
    }
    if u64::from(microbatches) * u64::from(parallelism.pipeline) > MOST_PASSES {
        let what = format!("{microbatches} microbatches over {} stages are too many", parallelism.pipeline);
        let help =
            format!("at most {MOST_PASSES} passes a step: a larger micro_batch or a smaller global_batch");
        return Err(wrong(&["training", "global_batch"], what, help));
    }
    let numbers =
        [training.micro_batch, training.sequence_length, model.hidden, microbatches.into()].map(u128::from);
    let numbers: u128 = numbers.iter().product::<u128>() * (layers + 2);
    if numbers > MOST_PARAMETERS {
        let what = "a step's activations are beyond what a plan can describe".to_owned();
        let help = "fewer or shorter sequences: sequence_length, micro_batch, global_batch".to_owned();
        return Err(wrong(&["training", "sequence_length"], what, help));
    }
    Ok(())
}

fn order(text: &str) -> Result<[Dimension; 3], Wrong> {
    let known = |name: &str| match name {
        "tp" => Some(Dimension::Tensor),
        "dp" => Some(Dimension::Data),
        "pp" => Some(Dimension::Pipeline),
        _ => None,
    };
    // Context and expert parallelism are of degree 1, so their place does not matter.
    let named =
        text.split('-').filter(|name| !matches!(*name, "cp" | "ep")).map(known).collect::<Option<Vec<_>>>();
    named
        .and_then(|named| <[Dimension; 3]>::try_from(named).ok())
        .filter(|[a, b, c]| a != b && b != c && a != c)
        .ok_or_else(|| {
            let what = format!("`{text}` is not an order of the dimensions");
            wrong(
                &["parallelism", "order"],
                what,
                "each of tp, dp and pp once, the fastest first: tp-cp-ep-dp-pp".to_owned(),
            )
        })
}

fn timing(table: &TimingTable) -> Result<Timing, Wrong> {
    // Dense 16-bit tensor peak, vendor data sheets.
    const PEAKS: [u64; 2] = [312_000_000_000_000, 989_000_000_000_000];
    let gpu = choice(&["timing", "gpu"], table.gpu.as_deref(), &["a100", "h100"])?;
    let peak_flops = table.peak_flops.unwrap_or(PEAKS[gpu]);
    let efficiency_percent = table.efficiency_percent.unwrap_or(40);
    positive(&["timing", "peak_flops"], peak_flops)?;
    within(&["timing", "efficiency_percent"], efficiency_percent.into(), 100)?;
    let flops_per_second = (peak_flops / 100).saturating_mul(efficiency_percent.into()).max(1);
    Ok(Timing { flops_per_second, peak_flops, efficiency_percent })
}

/// The version of the plan format.
const VERSION: u32 = 1;

/// Beyond any size of a model or a batch.
const LARGEST: u64 = 1 << 24;

/// Beyond any model: a thousand trillion numbers, whose traffic in a step still fits 64 bits many times.
const MOST_PARAMETERS: u128 = 1_000_000_000_000_000;

/// Beyond any model's depth.
const MOST_LAYERS: u64 = 10_000;

/// Beyond any schedule: microbatches x stages.
const MOST_PASSES: u64 = 1 << 22;

/// Beyond any cluster.
const MOST_MACHINES: u64 = 1 << 20;

/// Beyond any job.
const MOST_RANKS: u64 = 1 << 22;
