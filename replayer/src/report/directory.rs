//! Names of what an outcome knows by number, from the trace's manifest.

use std::collections::BTreeMap;

use traces::id::{GroupId, HostId, NicId, QueuePairId};
use traces::manifest::{Group, Host, Manifest, Nic, QueuePair};

/// The manifest's hosts, NICs, queue pairs and groups by number.
pub(super) struct Directory<'a> {
    hosts: BTreeMap<HostId, &'a Host>,
    nics: BTreeMap<NicId, &'a Nic>,
    queue_pairs: BTreeMap<QueuePairId, &'a QueuePair>,
    groups: BTreeMap<GroupId, &'a Group>,
}

impl<'a> Directory<'a> {
    pub(super) fn new(trace: &'a Manifest) -> Self {
        Self {
            hosts: trace.hosts.iter().map(|host| (host.id, host)).collect(),
            nics: trace.nics.iter().map(|nic| (nic.id, nic)).collect(),
            queue_pairs: trace.queue_pairs.iter().map(|pair| (pair.id, pair)).collect(),
            groups: trace.groups.iter().map(|group| (group.id, group)).collect(),
        }
    }

    pub(super) fn nic(&self, nic: NicId) -> Option<&'a Nic> {
        self.nics.get(&nic).copied()
    }

    pub(super) fn group(&self, group: GroupId) -> Option<&'a Group> {
        self.groups.get(&group).copied()
    }

    /// The queue pair that sends a flow.
    pub(super) fn sender(&self, flow: QueuePairId) -> Option<&'a QueuePair> {
        self.queue_pairs.get(&flow).copied()
    }

    /// The queue pair that receives what `flow` sends.
    pub(super) fn receiver(&self, flow: QueuePairId) -> Option<&'a QueuePair> {
        self.sender(flow).and_then(|pair| self.queue_pairs.get(&pair.peer)).copied()
    }

    pub(super) fn host_name(&self, host: HostId) -> String {
        self.hosts.get(&host).map_or_else(|| host.to_string(), |host| host.name.clone())
    }

    pub(super) fn nic_name(&self, nic: NicId) -> String {
        self.nic(nic).map_or_else(|| nic.to_string(), |nic| nic.name.clone())
    }
}
