//! Checks of what stays the same: source ports of a connection; time to live, identification and M of a host.

use super::check::Tally;
use super::flow::{Part, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::wire::{Ip, Opcode};

family! {
    "habits":
    PortConstant,
    PortSymmetric,
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

/// Both directions of a connection have the same source port, as mlx5's rule makes it.
#[derive(Default)]
struct PortSymmetric(Vec<Option<u16>>);

impl Rule for PortSymmetric {
    const LOOK: Look = Look::Constant;

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
struct TtlConstant(Vec<Option<u8>>);

impl Rule for TtlConstant {
    const LOOK: Look = Look::Constant;

    fn name(&self) -> &'static str {
        "ttl_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let now = frame.network.ttl;
        let first = *state_of(&mut self.0, placed.host).get_or_insert(now);
        sight.expect(tally, now == first, || {
            format!("time to live {now} from {}, was {first} before", frame.network.ip.source())
        });
    }
}

/// IPv4 identifications of a host are all 0, or count up by one over all that its port sends: a NIC has one
/// counter, or none. At the port that receives, others of its frames went elsewhere.
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
        let right = now == before.wrapping_add(1) || (now, before) == (0, 0);
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
