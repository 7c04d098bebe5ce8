//! Checks of what stays the same: source ports of a connection; time to live, identification and M of a host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::check::Tally;
use super::flow::{Part, state_of};
use super::sight::{Rule, Sight};
use crate::wire::{Ip, Opcode};

pub(super) fn rules() -> Vec<Box<dyn Rule>> {
    vec![
        Box::new(PortConstant::default()),
        Box::new(PortSymmetric::default()),
        Box::new(TtlConstant::default()),
        Box::new(Identification::default()),
        Box::new(MigratedConstant::default()),
    ]
}

/// The source port of a flow never changes. Congestion notifications may come from another.
#[derive(Default)]
struct PortConstant(Vec<Option<u16>>);

impl Rule for PortConstant {
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

/// Both directions of a connection have the same source port, as mlx5's rule makes it.
#[derive(Default)]
struct PortSymmetric(Vec<Option<u16>>);

impl Rule for PortSymmetric {
    fn name(&self) -> &'static str {
        "source_port_symmetric"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let port = frame.udp.source;
        match placed.part {
            Part::Request(..) => *state_of(&mut self.0, placed.flow) = Some(port),
            Part::Answer(_, Some(flow)) => {
                if let Some(there) = *state_of(&mut self.0, flow) {
                    let wrong = (port != there)
                        .then(|| format!("source port {port}, but the other direction has {there}"));
                    sight.judge(tally, wrong);
                }
            }
            Part::Answer(_, None) | Part::Other => {}
        }
    }
}

/// In one capture, all frames of a host have the same time to live: they come the same way.
#[derive(Default)]
struct TtlConstant(BTreeMap<(usize, IpAddr), u8>);

impl Rule for TtlConstant {
    fn name(&self) -> &'static str {
        "ttl_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        let now = frame.network.ttl;
        let source = frame.network.ip.source();
        let first = *self.0.entry((sight.file, source)).or_insert(now);
        let wrong = (now != first).then(|| format!("time to live {now} from {source}, was {first} before"));
        sight.judge(tally, wrong);
    }
}

/// IPv4 identifications of a host are all 0, or count up by one over all that its port sends: a NIC has one
/// counter, or none. At the port that receives, others of its frames went elsewhere.
#[derive(Default)]
struct Identification(BTreeMap<(usize, IpAddr), u16>);

impl Rule for Identification {
    fn name(&self) -> &'static str {
        "ipv4_identification"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        let (Ip::V4 { identification: now, .. }, Some(true)) = (frame.network.ip, sight.sent) else { return };
        let Some(before) = self.0.insert((sight.file, frame.network.ip.source()), now) else { return };
        let right = now == before.wrapping_add(1) || (now, before) == (0, 0);
        let wrong =
            (!right).then(|| format!("identification {now} after {before}, should be one more, or always 0"));
        sight.judge(tally, wrong);
    }
}

/// All frames of a host have the same M bit, which is its NIC's habit. Congestion notifications have none.
#[derive(Default)]
struct MigratedConstant(BTreeMap<(usize, IpAddr), bool>);

impl Rule for MigratedConstant {
    fn name(&self) -> &'static str {
        "migrated_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        if frame.bth.opcode() == Some(Opcode::CongestionNotification) {
            return;
        }
        let (now, source) = (frame.bth.migrated, frame.network.ip.source());
        let first = *self.0.entry((sight.file, source)).or_insert(now);
        let bit = u8::from(now);
        sight.judge(
            tally,
            (now != first).then(|| format!("M is {bit} from {source}, was {} before", 1 - bit)),
        );
    }
}
