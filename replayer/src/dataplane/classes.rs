//! The class of a captured frame: that of the message whose packet sequence numbers hold it.
//!
//! A capture does not say why a frame exists; the graph of the sending host does. Of each queue pair it keeps where
//! classes change, which is little: a queue pair serves one group.

use traces::folder::TraceFolder;
use traces::graph::{Message, Work};
use traces::id::{HostId, QueuePairId};
use traces::origin::Class;
use traces::wire::Bth;
use traces::wire::opcode::Role;

/// What a host's queue pairs send, by class.
#[derive(Debug)]
pub(super) struct Classes {
    flows: Vec<Flow>,
}

/// One queue pair's.
#[derive(Debug)]
struct Flow {
    id: QueuePairId,
    first_psn: u32,
    /// Where a class begins, in frames since the first; ascending.
    changes: Vec<(u64, Class)>,
    /// The place of the last frame that was asked for.
    last: u64,
}

impl Classes {
    /// Reads the graph of a host. Without one, no class is known.
    ///
    /// # Errors
    /// Why the graph cannot be read.
    pub(super) fn of(folder: &TraceFolder, host: HostId) -> Result<Self, String> {
        let manifest = folder.manifest();
        let mut flows: Vec<_> = manifest
            .queue_pairs
            .iter()
            .filter(|pair| manifest.nics[pair.nic.index()].host == host)
            .map(|pair| Flow { id: pair.id, first_psn: pair.first_psn, changes: Vec::new(), last: 0 })
            .collect();
        let has_graph = manifest.hosts.get(host.index()).is_some_and(|host| host.graph.is_some());
        if has_graph {
            let mut messages: Vec<Message> = Vec::new();
            for node in folder.graph(host).map_err(|error| error.to_string())? {
                if let Work::Send(message) = node.map_err(|error| error.to_string())?.work {
                    messages.push(message);
                }
            }
            messages.sort_unstable_by_key(|message| message.id);
            for message in messages {
                if let Some(flow) = flows.iter_mut().find(|flow| flow.id == message.id.sender) {
                    flow.add(&message);
                }
            }
        }
        for flow in &mut flows {
            flow.last = 0;
        }
        Ok(Self { flows })
    }

    /// The class of the next data frame of a flow; frames come in the order in which they were sent.
    pub(super) fn class(&mut self, flow: usize, bth: &Bth) -> Option<Class> {
        if bth.opcode()?.shape().role != Role::Request {
            return None;
        }
        let flow = self.flows.get_mut(flow)?;
        let place = flow.place(bth.psn.value());
        let after = flow.changes.partition_point(|(start, _)| *start <= place);
        flow.changes.get(after.checked_sub(1)?).map(|(_, class)| *class)
    }
}

impl Flow {
    /// Takes the next message of the flow.
    fn add(&mut self, message: &Message) {
        let place = self.place(message.first_psn);
        let class = message.origin.class;
        if self.changes.last().is_none_or(|(_, last)| *last != class) {
            self.changes.push((place, class));
        }
    }

    /// Frames between the first and the one with this number, which is less than half a circle after the last.
    fn place(&mut self, psn: u32) -> u64 {
        let circle = 1 << 24;
        let expected = u64::from(self.first_psn) + self.last;
        let forward = (u64::from(psn) + circle - expected % circle) % circle;
        if forward < circle / 2 {
            self.last += forward;
        }
        self.last
    }
}
