//! Why a message exists: the training step, the layer, the pass, the class of traffic, the step of the collective.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::GroupId;

macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant = $number,)*
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name as plans, manifests and reports write it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// The number that stands for it in the graph.
            #[must_use]
            pub const fn number(self) -> u32 {
                match self { $(Self::$variant => $number),* }
            }

            /// The one with this number, if there is one.
            #[must_use]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

names! {
    /// A class of traffic: which parallelism needs the operation, and for which tensor.
    Class {
        /// Gradients summed over data-parallel replicas.
        DpGradients = 1, "dp_gradients";
        /// Gradient shards summed over replicas of a sharding group (HSDP).
        DpReplicaGradients = 2, "dp_replica_gradients";
        /// Parameters gathered by ZeRO or FSDP.
        ZeroAllGather = 3, "zero_all_gather";
        /// A layer's activations, forward, over the tensor-parallel group.
        TpForward = 4, "tp_forward";
        /// A layer's gradients, backward, over the tensor-parallel group.
        TpBackward = 5, "tp_backward";
        /// The vocabulary-parallel embedding's output.
        TpEmbedding = 6, "tp_embedding";
        /// The vocabulary-parallel head's input gradient.
        TpHead = 7, "tp_head";
        /// The vocabulary-parallel cross-entropy's scalars.
        TpCrossEntropy = 8, "tp_cross_entropy";
        /// Norm gradients under sequence parallelism.
        TpNormGradients = 9, "tp_norm_gradients";
        /// Activations to the next pipeline stage.
        PpForward = 10, "pp_forward";
        /// Gradients to the previous pipeline stage.
        PpBackward = 11, "pp_backward";
        /// The tied embedding's gradients, between the first and the last stage.
        TiedEmbedding = 12, "tied_embedding";
        /// Keys and values, forward, over the context-parallel group.
        CpForward = 13, "cp_forward";
        /// Keys, values and their gradients, backward, over the context-parallel group.
        CpBackward = 14, "cp_backward";
        /// Tokens to their experts.
        EpDispatch = 15, "ep_dispatch";
        /// Tokens back from their experts.
        EpCombine = 16, "ep_combine";
        /// Token counts for the experts.
        EpMetadata = 17, "ep_metadata";
        /// Expert gradients.
        ExpertGradients = 18, "expert_gradients";
        /// Expert parameters gathered.
        ExpertAllGather = 19, "expert_all_gather";
        /// The global gradient norm.
        GradNorm = 20, "grad_norm";
        /// The averaged loss.
        Loss = 21, "loss";
        /// A batch, from tensor rank zero to its group.
        BatchBroadcast = 22, "batch_broadcast";
    }
}

names! {
    /// What a group does together.
    Operation {
        /// Every rank ends with the sum over all.
        AllReduce = 1, "all_reduce";
        /// Every rank ends with all parts.
        AllGather = 2, "all_gather";
        /// Every rank ends with its part of the sum.
        ReduceScatter = 3, "reduce_scatter";
        /// Every rank ends with the root's data.
        Broadcast = 4, "broadcast";
        /// The root ends with the sum.
        Reduce = 5, "reduce";
        /// Every rank sends a part to every other.
        AllToAll = 6, "all_to_all";
        /// One rank sends to another.
        SendReceive = 7, "send_recv";
    }
}

names! {
    /// A part of the training step.
    Phase {
        /// Activations.
        Forward = 1, "forward";
        /// Gradients.
        Backward = 2, "backward";
        /// After the last backward: gradient synchronization that overlaps with nothing, the optimizer.
        End = 3, "end";
    }
}

/// Why a node or a message exists. Equal for all messages of one operation but for the last three fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The training step, from zero.
    pub step: u32,
    /// The microbatch, if it belongs to one.
    pub microbatch: Option<u32>,
    /// The model's layer, if it belongs to one.
    pub layer: Option<u32>,
    /// The part of the step.
    pub phase: Phase,
    /// The class of traffic.
    pub class: Class,
    /// What the group does.
    pub operation: Operation,
    /// The group that does it.
    #[schemars(with = "u32")]
    pub group: GroupId,
    /// The instance: the how-manieth operation of this group in the trace, from zero. With `group` it names an operation.
    pub instance: u32,
    /// The step of the collective algorithm, from zero.
    pub collective_step: u32,
    /// The channel of the collective.
    pub channel: u32,
    /// The slice within the step.
    pub slice: u32,
}

impl fmt::Display for Origin {
    /// One line that a person reads: `step 0 backward layer 3 dp_gradients all_reduce group2#4 step 5 channel 1 slice 0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} {}", self.step, self.phase)?;
        if let Some(microbatch) = self.microbatch {
            write!(f, " microbatch {microbatch}")?;
        }
        if let Some(layer) = self.layer {
            write!(f, " layer {layer}")?;
        }
        write!(
            f,
            " {} {} {}#{} step {} channel {} slice {}",
            self.class,
            self.operation,
            self.group,
            self.instance,
            self.collective_step,
            self.channel,
            self.slice
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_inverse() {
        for &class in Class::ALL {
            assert_eq!(Class::from_number(class.number()), Some(class));
        }
        assert_eq!(Class::from_number(0), None);
        assert_eq!(Class::PpForward.to_string(), "pp_forward");
        assert_eq!(Operation::from_number(7), Some(Operation::SendReceive));
        assert_eq!(Phase::from_number(4), None);
    }
}
