//! A plan written out as the file that means it, with every default.

use traces::unit::{rate_text, size_text};

use super::fabric;
use super::file::{
    ClusterTable, CollectivesTable, ModelTable, ParallelismTable, PlanFile, TimingTable, TrainingTable,
};
use super::{Dimension, Plan, Schedule, Words, transport};
use crate::model::Model;

pub(super) fn file(plan: &Plan) -> PlanFile {
    let Plan { model, training, parallelism, cluster, collectives, transport, timing, fabric, .. } = plan;
    let (text, tokens) = match &training.words {
        Words::Text { name, .. } => (Some(name.clone()), None),
        Words::Tokens(tokens) => (None, Some(*tokens)),
    };
    let replicas = training.micro_batch * u64::from(parallelism.data);
    let order = parallelism.order.map(|dimension| match dimension {
        Dimension::Tensor => "tp",
        Dimension::Data => "dp",
        Dimension::Pipeline => "pp",
    });
    let preset = Model::presets().find(|preset| *preset == model.name).map(str::to_owned);
    PlanFile {
        version: 1,
        name: plan.name.clone(),
        seed: Some(plan.seed),
        model: ModelTable {
            family: preset.is_none().then(|| "gpt".to_owned()),
            preset,
            layers: Some(model.layers),
            hidden: Some(model.hidden),
            heads: Some(model.heads),
            ffn: Some(model.ffn),
            vocab: Some(model.vocab),
            learned_positions: Some(model.positions),
        },
        training: TrainingTable {
            sequence_length: training.sequence_length,
            micro_batch: training.micro_batch,
            global_batch: replicas * u64::from(training.microbatches),
            steps: Some(training.steps),
            activation_dtype: Some(training.activation.name().to_owned()),
            gradient_dtype: Some(training.gradient.name().to_owned()),
            parameter_dtype: Some(training.parameter.name().to_owned()),
            text,
            tokens,
        },
        parallelism: Some(ParallelismTable {
            tensor: Some(parallelism.tensor),
            pipeline: Some(parallelism.pipeline),
            data: Some(parallelism.data),
            schedule: Some(parallelism.schedule.name().to_owned()),
            layers_per_stage: Some(parallelism.layers_per_stage.clone()),
            order: Some(order.join("-")),
            buckets: Some(size_text(parallelism.bucket)),
        }),
        cluster: ClusterTable {
            hosts: cluster.hosts,
            gpus_per_host: cluster.gpus_per_host,
            nics_per_host: Some(cluster.nics_per_host),
            link: rate_text(cluster.link),
            nvlink: Some(rate_text(cluster.nvlink)),
            addresses: Some(format!("{}/{}", cluster.addresses.network, cluster.addresses.length)),
            vlan: cluster.vlan,
            mtu: Some(cluster.mtu),
        },
        collectives: Some(CollectivesTable {
            algorithm: Some("ring".to_owned()),
            protocol: Some("simple".to_owned()),
            channels: Some(collectives.channels),
            queue_pairs: Some(collectives.queue_pairs),
            split: Some(collectives.split),
        }),
        transport: Some(transport::written(transport)),
        nic_profiles: transport::written_profile(&transport.profile),
        timing: Some(TimingTable {
            gpu: None,
            peak_flops: Some(timing.peak_flops),
            efficiency_percent: Some(timing.efficiency_percent),
        }),
        fabric: Some(fabric::written(fabric, cluster)),
    }
}

impl Schedule {
    /// Its name in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneForwardOneBackward => "1f1b",
            Self::GPipe => "gpipe",
        }
    }
}
