//! Checks of what stays the same: source ports of a connection; time to live, identification and M of a host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::check::Tally;
use super::flow::{Part, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::wire::{Ip, Opcode, Qpn, source_port};

family! {
    "habits":
    PortConstant,
    PortSymmetric,
    PortByRule,
    QueuePairsDistinct,
    TtlConstant,
    Identification,
    MigratedConstant,
}

/// The source port of a flow never changes. Congestion notifications may come from another.
#[derive(Default)]
struct PortConstant(Vec<Option<u16>>);

impl Rule for PortConstant {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "source_port_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        if frame.bth.opcode() == Some(Opcode::CongestionNotification) {
            return;
        }
        let now = frame.udp.source;
        let first = *state_of(&mut self.0, placed.flow).get_or_insert(now);
        sight.judge(tally, (now != first).then(|| format!("source port {now}, was {first} before")));
    }
}

/// Both directions of a connection have the same source port where one has that of mlx5's rule, the hash of both
/// numbers. (rxe and HNS have rules by which each direction has its own.)
#[derive(Default)]
struct PortSymmetric(Vec<Option<(u16, Qpn)>>);

impl Rule for PortSymmetric {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "source_port_symmetric"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let (port, queue_pair) = (frame.udp.source, frame.bth.destination);
        match placed.part {
            Part::Request(..) => *state_of(&mut self.0, placed.flow) = Some((port, queue_pair)),
            Part::Answer(_, Some(flow)) => {
                let Some((there, other)) = *state_of(&mut self.0, flow) else { return };
                if port == there || [port, there].contains(&source_port::product(queue_pair, other)) {
                    sight.expect(tally, port == there, || {
                        format!("source port {port}, but the other direction has {there}")
                    });
                }
            }
            Part::Answer(_, None) | Part::Other => {}
        }
    }
}

/// All connections of a host have the source port of one rule: the hash of both numbers, the hash of the own
/// number, its low byte, or 49152 for all. A host whose first connection follows none of them is not examined.
#[derive(Default)]
struct PortByRule {
    flows: Vec<Option<Way>>,
    /// For each host, the rules that all its connections follow.
    hosts: Vec<Option<u8>>,
}

/// Where a flow goes, and whether its port was examined, for which the other direction has to be known.
#[derive(Clone, Copy)]
struct Way {
    destination: Qpn,
    examined: bool,
}

impl Rule for PortByRule {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "source_port_rule"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        if matches!(placed.part, Part::Other) || frame.bth.destination.is_management() {
            return;
        }
        let (port, destination, host) = (frame.udp.source, frame.bth.destination, placed.host);
        let way = state_of(&mut self.flows, placed.flow);
        if way.get_or_insert(Way { destination, examined: false }).examined {
            return;
        }
        let Some(Some(back)) = placed.peer.and_then(|peer| self.flows.get(peer).copied()) else { return };
        self.flows[placed.flow] = Some(Way { destination, examined: true });
        let follows = rules(port, back.destination, destination);
        let rules = state_of(&mut self.hosts, host).get_or_insert(follows);
        if *rules != 0 {
            sight.expect(tally, *rules & follows != 0, || {
                format!("source port {port} follows another rule than those of this host's other connections")
            });
            if *rules & follows != 0 {
                *rules &= follows;
            }
        }
    }
}

/// The rules that a port follows, a bit each.
fn rules(port: u16, own: Qpn, other: Qpn) -> u8 {
    let all = [
        source_port::product(own, other),
        source_port::own(own),
        source_port::low_byte(own),
        source_port::LOWEST,
    ];
    (0..).zip(all).map(|(rule, right)| u8::from(port == right) << rule).sum()
}

/// A host has no two connections at one queue pair: what goes to it comes from one other host.
#[derive(Default)]
struct QueuePairsDistinct {
    known: Vec<bool>,
    peers: BTreeMap<(usize, IpAddr, Qpn), IpAddr>,
}

impl Rule for QueuePairsDistinct {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "queue_pairs_distinct"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        if matches!(placed.part, Part::Other)
            || std::mem::replace(state_of(&mut self.known, placed.flow), true)
        {
            return;
        }
        let (from, to) = (frame.network.ip.source(), frame.network.ip.destination());
        let queue_pair = frame.bth.destination;
        let first = *self.peers.entry((sight.port, to, queue_pair)).or_insert(from);
        sight.expect(tally, first == from, || {
            format!("{from} sends to queue pair {queue_pair} of {to}, which {first} has a connection with")
        });
    }
}

/// In one capture, all frames of a flow have the same time to live: they come the same way.
#[derive(Default)]
struct TtlConstant(Vec<Option<u8>>);

impl Rule for TtlConstant {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "ttl_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let now = frame.network.ttl;
        let first = *state_of(&mut self.0, placed.flow).get_or_insert(now);
        sight.expect(tally, now == first, || {
            format!("time to live {now} from {}, was {first} before", frame.network.ip.source())
        });
    }
}

/// IPv4 identifications of a host are all 0, or count up by one over all that its port sends: a NIC has one
/// counter, or none. At the port that receives, others of its frames went elsewhere. In software (M clear) the
/// host's other traffic takes numbers too.
#[derive(Default)]
struct Identification(Vec<Option<u16>>);

impl Rule for Identification {
    fn name(&self) -> &'static str {
        "ipv4_identification"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let (Ip::V4 { identification: now, .. }, Some(true)) = (frame.network.ip, sight.sent) else { return };
        let Some(before) = state_of(&mut self.0, placed.host).replace(now) else { return };
        let steps = now.wrapping_sub(before);
        let software = !frame.bth.migrated && (1..0x8000).contains(&steps);
        let right = steps == 1 || (now, before) == (0, 0) || software;
        sight.expect(tally, right, || {
            format!("identification {now} after {before}, should be one more, or always 0")
        });
    }
}

/// All frames of a host have the same M bit, which is its NIC's habit. Congestion notifications have none.
#[derive(Default)]
struct MigratedConstant(Vec<Option<bool>>);

impl Rule for MigratedConstant {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "migrated_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        if frame.bth.opcode() == Some(Opcode::CongestionNotification) {
            return;
        }
        let now = frame.bth.migrated;
        let first = *state_of(&mut self.0, placed.host).get_or_insert(now);
        sight.expect(tally, now == first, || {
            let bit = u8::from(now);
            format!("M is {bit} from {}, was {} before", frame.network.ip.source(), 1 - bit)
        });
    }
}
