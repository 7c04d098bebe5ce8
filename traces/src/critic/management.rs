//! Checks of connection management: its datagrams have their form, connections start as they say, and NCCL has
//! none.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::check::Tally;
use super::flow::{Part, Step, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::wire::datagram::Deth;
use crate::wire::management::{Mad, MadError, Message};
use crate::wire::{Psn, Qpn};

family! {
    "management":
    Form,
    StartingPsn,
    WithoutNccl,
}

/// The management datagram of a frame, if it is one that was captured whole; an error says why it is none.
fn datagram<'a>(sight: &Sight<'a>) -> Option<(IpAddr, Option<Deth>, Result<Mad, MadError>)> {
    let (frame, placed) = sight.roce()?;
    let whole = frame.payload.len() == frame.payload_length;
    let management = frame.bth.destination == Qpn::GENERAL_SERVICES && matches!(placed.part, Part::Other);
    (management && whole)
        .then(|| (frame.network.ip.source(), frame.extensions.deth, Mad::parse(frame.payload)))
}

/// What goes to queue pair 1 comes from there with the key of general services, and says what it is. Of classes
/// other than connection management no more is asked.
#[derive(Default)]
struct Form;

impl Rule for Form {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "management_form"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((_, deth, mad)) = datagram(sight) else { return };
        let wrong = match (deth, mad) {
            (None, _) => Some("comes to queue pair 1, but is no datagram".to_owned()),
            (Some(deth), _) if deth != Deth::GENERAL_SERVICES => Some(format!(
                "comes from queue pair {} with key 0x{:08x}, should be from 1 with 0x80010000",
                deth.source, deth.queue_key
            )),
            (Some(_), Ok(_) | Err(MadError::Class { .. })) => None,
            (Some(_), Err(error)) => Some(error.to_string()),
        };
        sight.judge(tally, wrong);
    }
}

/// The queue pairs that REQ and REP name, with the number that each wants to receive first.
#[derive(Default)]
struct Named(BTreeMap<(usize, IpAddr, Qpn), Psn>);

impl Named {
    /// Learns from a datagram; whether the frame was one.
    fn learn(&mut self, sight: &Sight<'_>) -> bool {
        let Some((address, _, mad)) = datagram(sight) else { return false };
        let end = match mad.map(|mad| mad.message) {
            Ok(Message::Request(request)) => (request.queue_pair, request.starting_psn),
            Ok(Message::Reply(reply)) => (reply.queue_pair, reply.starting_psn),
            _ => return true,
        };
        self.0.insert((sight.port, address, end.0), end.1);
        true
    }

    fn get(&self, sight: &Sight<'_>) -> Option<Psn> {
        if self.0.is_empty() {
            return None;
        }
        let (frame, _) = sight.roce()?;
        self.0.get(&(sight.port, frame.network.ip.destination(), frame.bth.destination)).copied()
    }
}

/// The first frame to a queue pair has the Starting PSN that this end named: it is what it wants to receive.
#[derive(Default)]
struct StartingPsn(Named);

impl Rule for StartingPsn {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "cm_starting_psn"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        if self.0.learn(sight) {
            return;
        }
        let Some((frame, placed)) = sight.roce() else { return };
        if !matches!(placed.part, Part::Request(_, Step::First)) {
            return;
        }
        if let Some(right) = self.0.get(sight) {
            let psn = frame.bth.psn;
            sight.expect(tally, psn == right, || {
                format!("starts with PSN {psn}, its receiver wants {right} (Starting PSN)")
            });
        }
    }
}

/// NCCL agrees on its queue pairs over TCP and sets a hop limit of 255; connections of RDMA-CM have that of IP,
/// 64. So what connection management named does not live as long as NCCL's frames.
#[derive(Default)]
struct WithoutNccl {
    named: Named,
    known: Vec<bool>,
}

impl Rule for WithoutNccl {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "nccl_without_cm"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        if self.named.learn(sight) {
            return;
        }
        let Some((frame, placed)) = sight.roce() else { return };
        if matches!(placed.part, Part::Other)
            || std::mem::replace(state_of(&mut self.known, placed.flow), true)
        {
            return;
        }
        let ttl = frame.network.ttl;
        let named = self.named.get(sight).is_some();
        if named || ttl > LONGEST {
            sight.expect(tally, !(named && ttl > LONGEST), || {
                format!("time to live {ttl}, as NCCL sets it, but connection management made the connection")
            });
        }
    }
}

/// 64 and 128 are IP's own choices.
const LONGEST: u8 = 128;
