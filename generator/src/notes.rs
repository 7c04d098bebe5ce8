//! What pcapng files say beside the frames: the ports that see them, the names of addresses, why each message is sent.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use traces::id::{NicId, Rank};
use traces::origin::Origin;
use traces::pcap::Interface;
use traces::pcap::write::Section;

use crate::connection::{Network, QueuePair};
use crate::plan::Plan;
use crate::timeline::{Carried, Clearance, Purpose};

/// By NIC, what queue pairs tell of it.
#[derive(Clone, Debug)]
pub struct Notes<'a> {
    plan: &'a Plan,
    network: &'a Network,
    nics: Vec<About>,
}

#[derive(Clone, Debug, Default)]
struct About {
    ranks: BTreeSet<Rank>,
    peers: BTreeSet<NicId>,
}

impl<'a> Notes<'a> {
    /// Looks through all queue pairs of the plan's network.
    #[must_use]
    pub fn new(plan: &'a Plan, network: &'a Network) -> Self {
        let mut nics = vec![About::default(); network.nics().len()];
        for pair in network.pairs() {
            let about = &mut nics[pair.nic.index()];
            about.ranks.insert(pair.rank);
            about.peers.insert(network.pair(pair.peer).nic);
        }
        Self { plan, network, nics }
    }

    /// What stands in front of the frames that these NICs see: an interface for each, in this order, and the names of all
    /// addresses that occur.
    #[must_use]
    pub fn section(&self, nics: &[NicId]) -> Section {
        let mut named: BTreeSet<NicId> = nics.iter().copied().collect();
        named.extend(nics.iter().flat_map(|nic| &self.nics[nic.index()].peers));
        Section {
            program: concat!("tokenwire ", env!("CARGO_PKG_VERSION")).to_owned(),
            comment: Some(format!(
                "plan {}, seed {}, digest {}",
                self.plan.name,
                self.plan.seed,
                self.plan.digest()
            )),
            interfaces: nics.iter().map(|&nic| self.interface(nic)).collect(),
            names: named
                .into_iter()
                .map(|nic| self.network.nic(nic))
                .map(|nic| (nic.address, nic.name.clone()))
                .collect(),
        }
    }

    fn interface(&self, nic: NicId) -> Interface {
        let own = self.network.nic(nic);
        let ranks: Vec<_> = self.nics[nic.index()].ranks.iter().map(|rank| rank.0.to_string()).collect();
        Interface {
            name: Some(own.name.clone()),
            description: Some(match ranks.len() {
                0 => format!("{nic} of {}", own.host),
                _ => format!("{nic} of {}, of ranks {}", own.host, ranks.join(" ")),
            }),
            mac: Some(own.mac),
            addresses: vec![(own.address, self.plan.cluster.addresses.length)],
            bits_per_second: Some(self.plan.cluster.link.bits_per_second()),
            link_type: 1,
        }
    }
}

/// Says in `text` why a message is there, in one line that a person reads and a program finds its way in:
/// `step 0, layer 3, backward, dp_gradients: all_reduce of group 2, instance 4, collective step 5, channel 1, slice 0;
/// message qp5#17, 1048576 bytes, rank 0 -> rank 1`. A clearance says instead what it clears:
/// `clear to send message 17, room for 1048576 bytes, rank 1 -> rank 0`.
pub fn message(text: &mut String, network: &Network, sender: &QueuePair, carried: &Carried, again: bool) {
    text.clear();
    let Origin { step, microbatch, layer, phase, class, operation, .. } = carried.origin;
    let Origin { group, instance, collective_step, channel, slice, .. } = carried.origin;
    let mut put = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).expect("a String takes all that is written");
    };
    put(format_args!("step {step}, "));
    if let Some(microbatch) = microbatch {
        put(format_args!("microbatch {microbatch}, "));
    }
    if let Some(layer) = layer {
        put(format_args!("layer {layer}, "));
    }
    put(format_args!(
        "{phase}, {class}: {operation} of group {}, instance {instance}, collective step {collective_step}, \
         channel {channel}, slice {slice}; ",
        group.0
    ));
    match carried.purpose {
        Purpose::Data { .. } => put(format_args!(
            "message {}#{}, {} bytes",
            sender.id, carried.sequence, carried.segments.bytes.0
        )),
        Purpose::Clearance(Clearance { number, room, .. }) => {
            put(format_args!("clear to send message {number}, room for {room} bytes"));
        }
    }
    put(format_args!(", rank {} -> rank {}", sender.rank.0, network.pair(sender.peer).rank.0));
    if again {
        put(format_args!(", sent again"));
    }
}
