//! Where a rank runs and with whom it works: ranks to coordinates, hosts, GPUs and NICs, and the process groups.
//!
//! All by formula from the plan's degrees and order: nothing here grows with the number of ranks. What the groups do is
//! told in [`crate::operation`].

use std::fmt;

use traces::id::{GroupId, HostId, NicId, Rank};

use crate::plan::{Dimension, Plan};

/// The grid of ranks, laid over hosts in the order of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The dimensions, the fastest first.
    axes: [Axis; 3],
    gpus_per_host: u32,
    nics_per_host: u32,
    ends: Ends,
}

/// A rank's place in the grid, each from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Coordinates {
    /// In the tensor-parallel group.
    pub tensor: u32,
    /// The replica.
    pub data: u32,
    /// The pipeline stage.
    pub pipeline: u32,
}

/// Where a rank runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its host.
    pub host: HostId,
    /// Its GPU within the host.
    pub gpu: u32,
    /// The NIC that serves that GPU.
    pub nic: NicId,
}

/// What a group is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKind {
    /// Ranks that share a layer's matrices.
    Tensor,
    /// Ranks that hold the same parameters.
    Data,
    /// The stages of one replica; neighbours send to each other.
    Pipeline,
    /// The first and the last stage, which both hold the tied embedding.
    FirstAndLastStage,
}

/// A process group: ranks at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its id: kinds one after another, within a kind by the least rank. Kinds of a single rank have no ids.
    pub id: GroupId,
    /// What it is for.
    pub kind: GroupKind,
    /// Its least rank.
    first: Rank,
    /// From a member to the next.
    stride: u32,
    /// Members, at least two.
    size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    dimension: Dimension,
    degree: u32,
    stride: u32,
}

/// Whether the pipeline's ends hold one matrix twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Tied,
    Apart,
}

impl Placement {
    /// The placement that the plan means.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let mut stride = 1;
        let axes = plan.parallelism.order.map(|dimension| {
            let degree = match dimension {
                Dimension::Tensor => plan.parallelism.tensor,
                Dimension::Data => plan.parallelism.data,
                Dimension::Pipeline => plan.parallelism.pipeline,
            };
            let axis = Axis { dimension, degree, stride };
            stride *= degree;
            axis
        });
        Self {
            axes,
            gpus_per_host: plan.cluster.gpus_per_host,
            nics_per_host: plan.cluster.nics_per_host,
            // GPT's head is its embedding, so on one stage there is one matrix, on several there are two.
            ends: if plan.parallelism.pipeline > 1 { Ends::Tied } else { Ends::Apart },
        }
    }

    /// All ranks.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.world()).map(Rank)
    }

    /// The rank at these coordinates.
    #[must_use]
    pub fn rank(&self, at: Coordinates) -> Rank {
        Rank(self.axes.iter().map(|axis| axis.stride * at.along(axis.dimension)).sum())
    }

    /// The coordinates of a rank.
    #[must_use]
    pub fn coordinates(&self, rank: Rank) -> Coordinates {
        let along = |dimension| self.axis(dimension).of(rank);
        Coordinates {
            tensor: along(Dimension::Tensor),
            data: along(Dimension::Data),
            pipeline: along(Dimension::Pipeline),
        }
    }

    /// Where a rank runs: hosts are filled one after another, and neighbouring GPUs share a NIC.
    #[must_use]
    pub const fn seat(&self, rank: Rank) -> Seat {
        let (host, gpu) = (rank.0 / self.gpus_per_host, rank.0 % self.gpus_per_host);
        let nic = host * self.nics_per_host + gpu / (self.gpus_per_host / self.nics_per_host);
        Seat { host: HostId(host), gpu, nic: NicId(nic) }
    }

    /// The group of this kind that a rank belongs to; none if it would be alone in it, or is not one of the ends.
    #[must_use]
    pub fn group(&self, kind: GroupKind, rank: Rank) -> Option<Group> {
        let axis = self.axis(kind.dimension());
        let first = Rank(rank.0 - axis.of(rank) * axis.stride);
        let group = self.led_by(kind, first)?;
        group.position(rank).map(|_| group)
    }

    /// The group with this id.
    #[must_use]
    pub fn group_of_id(&self, id: GroupId) -> Option<Group> {
        let mut index = id.0;
        for kind in GroupKind::ALL {
            let count = self.count(kind);
            if index < count {
                return self.led_by(kind, self.leader(kind, index));
            }
            index -= count;
        }
        None
    }

    /// All groups, by id.
    pub fn groups(&self) -> impl Iterator<Item = Group> + '_ {
        let count: u32 = GroupKind::ALL.into_iter().map(|kind| self.count(kind)).sum();
        (0..count).filter_map(|id| self.group_of_id(GroupId(id)))
    }

    /// Whether members of the group run on different hosts.
    #[must_use]
    pub fn leaves_host(&self, group: &Group) -> bool {
        let last = Rank(group.first.0 + group.stride * (group.size - 1));
        self.seat(group.first).host != self.seat(last).host
    }

    fn world(&self) -> u32 {
        self.axes.iter().map(|axis| axis.degree).product()
    }

    fn axis(&self, dimension: Dimension) -> Axis {
        let [a, b, c] = self.axes;
        if a.dimension == dimension {
            a
        } else if b.dimension == dimension {
            b
        } else {
            c
        }
    }

    /// How many groups there are of this kind.
    fn count(&self, kind: GroupKind) -> u32 {
        let axis = self.axis(kind.dimension());
        let exists = axis.degree > 1 && (kind != GroupKind::FirstAndLastStage || self.ends == Ends::Tied);
        if exists { self.world() / axis.degree } else { 0 }
    }

    /// The least rank of the `index`-th group of this kind.
    fn leader(&self, kind: GroupKind, index: u32) -> Rank {
        let axis = self.axis(kind.dimension());
        // The axis is cut out of the grid: below it the index counts ranks, above it whole turns of the axis.
        Rank(index % axis.stride + index / axis.stride * axis.stride * axis.degree)
    }

    fn led_by(&self, kind: GroupKind, first: Rank) -> Option<Group> {
        if self.count(kind) == 0 {
            return None;
        }
        let axis = self.axis(kind.dimension());
        let index = first.0 % axis.stride + first.0 / (axis.stride * axis.degree) * axis.stride;
        let before: u32 =
            GroupKind::ALL.into_iter().filter(|&other| other < kind).map(|other| self.count(other)).sum();
        let (stride, size) = match kind {
            GroupKind::FirstAndLastStage => (axis.stride * (axis.degree - 1), 2),
            _ => (axis.stride, axis.degree),
        };
        Some(Group { id: GroupId(before + index), kind, first, stride, size })
    }
}

impl Group {
    /// The members, in the order of ranks.
    pub fn members(&self) -> impl ExactSizeIterator<Item = Rank> + use<> {
        let Self { first, stride, .. } = *self;
        (0..self.size).map(move |place| Rank(first.0 + place * stride))
    }

    /// How many members there are, at least two.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The place of a rank among the members.
    #[must_use]
    pub fn position(&self, rank: Rank) -> Option<u32> {
        let distance = rank.0.checked_sub(self.first.0)?;
        let place = distance / self.stride;
        (distance % self.stride == 0 && place < self.size).then_some(place)
    }

    /// The member at a place; places go around.
    #[must_use]
    pub const fn member(&self, place: u32) -> Rank {
        Rank(self.first.0 + place % self.size * self.stride)
    }
}

impl GroupKind {
    /// All kinds, in the order of their ids.
    pub const ALL: [Self; 4] = [Self::Tensor, Self::Data, Self::Pipeline, Self::FirstAndLastStage];

    /// The name in reports and manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Data => "data",
            Self::Pipeline => "pipeline",
            Self::FirstAndLastStage => "first and last stage",
        }
    }

    const fn dimension(self) -> Dimension {
        match self {
            Self::Tensor => Dimension::Tensor,
            Self::Data => Dimension::Data,
            Self::Pipeline | Self::FirstAndLastStage => Dimension::Pipeline,
        }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Coordinates {
    const fn along(&self, dimension: Dimension) -> u32 {
        match dimension {
            Dimension::Tensor => self.tensor,
            Dimension::Data => self.data,
            Dimension::Pipeline => self.pipeline,
        }
    }
}

impl Axis {
    /// The coordinate of a rank along this axis.
    const fn of(&self, rank: Rank) -> u32 {
        rank.0 / self.stride % self.degree
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn plan(degrees: [u32; 3], order: &str, [hosts, gpus, nics]: [u32; 3]) -> Plan {
        let [tensor, pipeline, data] = degrees;
        let text = format!(
            "version = 1\nname = \"p\"\n[model]\nfamily = \"gpt\"\nlayers = {pipeline}\nhidden = {tensor}\nheads = {tensor}\n\
             [training]\nsequence_length = 4\nmicro_batch = 1\nglobal_batch = {data}\n[parallelism]\ntensor = {tensor}\n\
             pipeline = {pipeline}\ndata = {data}\norder = \"{order}\"\n[cluster]\nhosts = {hosts}\ngpus_per_host = {gpus}\n\
             nics_per_host = {nics}\nlink = \"1Gbit\"\n"
        );
        Plan::read("p.toml", &text, |_| Err(String::new())).unwrap()
    }

    fn members(placement: &Placement, kind: GroupKind, rank: u32) -> Vec<u32> {
        placement
            .group(kind, Rank(rank))
            .map_or(Vec::new(), |group| group.members().map(|rank| rank.0).collect())
    }

    #[test]
    fn the_first_axis_of_the_order_changes_fastest() {
        let placement = Placement::new(&plan([2, 2, 2], "tp-cp-ep-dp-pp", [4, 2, 1]));
        assert_eq!(placement.coordinates(Rank(5)), Coordinates { tensor: 1, data: 0, pipeline: 1 });
        assert_eq!(members(&placement, GroupKind::Tensor, 5), [4, 5]);
        assert_eq!(members(&placement, GroupKind::Data, 5), [5, 7]);
        assert_eq!(members(&placement, GroupKind::Pipeline, 5), [1, 5]);
        let placement = Placement::new(&plan([2, 2, 2], "pp-dp-tp", [4, 2, 1]));
        assert_eq!(members(&placement, GroupKind::Pipeline, 5), [4, 5]);
        assert_eq!(members(&placement, GroupKind::Tensor, 5), [1, 5]);
    }

    #[test]
    fn two_gpus_share_a_nic_where_there_are_half_as_many() {
        let placement = Placement::new(&plan([8, 1, 2], "tp-dp-pp", [2, 8, 4]));
        let seat = placement.seat(Rank(13));
        assert_eq!((seat.host, seat.gpu, seat.nic), (HostId(1), 5, NicId(6)));
        let tensor = placement.group(GroupKind::Tensor, Rank(13)).unwrap();
        let data = placement.group(GroupKind::Data, Rank(13)).unwrap();
        assert!(!placement.leaves_host(&tensor));
        assert!(placement.leaves_host(&data));
    }

    #[test]
    fn only_the_ends_of_a_pipeline_are_in_the_group_of_the_ends() {
        let placement = Placement::new(&plan([1, 4, 2], "tp-dp-pp", [8, 1, 1]));
        assert_eq!(members(&placement, GroupKind::FirstAndLastStage, 1), [1, 7]);
        assert_eq!(members(&placement, GroupKind::FirstAndLastStage, 3), [0_u32; 0]);
    }

    #[test]
    fn a_rank_alone_is_no_group() {
        let placement = Placement::new(&plan([1, 1, 4], "tp-dp-pp", [4, 1, 1]));
        assert_eq!(placement.group(GroupKind::Tensor, Rank(0)), None);
        assert_eq!(placement.group(GroupKind::FirstAndLastStage, Rank(0)), None);
        assert_eq!(placement.groups().count(), 1);
    }

    #[test]
    fn for_every_factorization_up_to_64_ranks_groups_partition_the_ranks() {
        for tensor in 1..=64_u32 {
            for pipeline in 1..=64 / tensor {
                for data in 1..=64 / (tensor * pipeline) {
                    for order in ["tp-dp-pp", "tp-pp-dp", "dp-tp-pp", "dp-pp-tp", "pp-tp-dp", "pp-dp-tp"] {
                        partition([tensor, pipeline, data], order);
                    }
                }
            }
        }
    }

    fn partition(degrees: [u32; 3], order: &str) {
        let [tensor, pipeline, data] = degrees;
        let world = tensor * pipeline * data;
        let placement = Placement::new(&plan(degrees, order, [world, 1, 1]));
        for rank in placement.ranks() {
            assert_eq!(placement.rank(placement.coordinates(rank)), rank);
        }
        for (kind, degree) in
            [(GroupKind::Tensor, tensor), (GroupKind::Data, data), (GroupKind::Pipeline, pipeline)]
        {
            let groups: Vec<_> = placement.groups().filter(|group| group.kind == kind).collect();
            let seen: BTreeSet<Rank> = groups.iter().flat_map(Group::members).collect();
            assert_eq!(groups.len(), if degree == 1 { 0 } else { usize::try_from(world / degree).unwrap() });
            assert_eq!(seen.len(), if degree == 1 { 0 } else { usize::try_from(world).unwrap() });
        }
        for (id, group) in (0..).zip(placement.groups()) {
            assert_eq!(group.id, GroupId(id));
            for (place, member) in (0..).zip(group.members()) {
                assert_eq!(placement.group(group.kind, member), Some(group));
                assert_eq!((group.position(member), group.member(place)), (Some(place), member));
            }
        }
    }

    proptest! {
        #[test]
        fn every_nic_serves_equally_many_gpus(hosts in 1..6_u32, nics in 1..5_u32, share in 1..4_u32) {
            let gpus = nics * share;
            let placement = Placement::new(&plan([1, 1, hosts * gpus], "tp-dp-pp", [hosts, gpus, nics]));
            for nic in 0..hosts * nics {
                let served = placement.ranks().filter(|&rank| placement.seat(rank).nic == NicId(nic)).count();
                prop_assert_eq!(served, usize::try_from(share).unwrap());
            }
        }
    }
}
