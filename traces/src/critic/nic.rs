//! Which NIC a host has: what its frames show of its habits, and the profile that fits.
//!
//! A few habits tell NICs apart, because no setting changes them: M, byte 4 of BTH, ECN, and the rule of the source port. A
//! profile fits a host if most of its frames agree in each of these that was seen. Between profiles that fit, the
//! time to live, first sequence numbers, credits, identifications and requests for acknowledgements decide. Most, not all: a frame
//! that breaks a host's habit is a finding of a rule, not another NIC.
//!
//! A host of which no profile fits is unknown. Rules do not ask: they hold a host to what its own frames showed first, so that
//! they hold for NICs that nobody described.

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flow::{FlowHabits, Flows, Placed, state_of};
use crate::wire::profile::{FirstPsn, Identification, NicProfile, PortRule};
use crate::wire::segment::Between;
use crate::wire::{Ecn, Ip, Opcode, ParsedFrame, Psn, Qpn};

/// The NIC of a host, as its frames tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostProfile {
    /// The host's IP address.
    pub address: String,
    /// The name of the profile that fits; none does if it is absent.
    pub profile: Option<String>,
    /// In what the host differs from that profile, or from the nearest if none fits.
    pub differs: Vec<String>,
}

/// The NICs of all hosts.
#[derive(Default)]
pub(super) struct Nics {
    habits: Vec<Habits>,
}

/// What the first frames of a host showed: how many of them, and of what kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Habits {
    frames: u32,
    migrated: Votes,
    congestion: Votes,
    capable: Votes,
    identified: Votes,
    /// The greatest time to live: what came the shortest way.
    ttl: u8,
    /// Acknowledgements with each credit code.
    credits: [u32; 32],
    asks: Asks,
    ports: Ports,
    /// Flows that started at 0.
    first_zero: Votes,
}

/// How often something was so, and how often not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Votes {
    yes: u32,
    no: u32,
}

/// Frames within messages by whether they ask for an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Asks {
    /// Those whose number is the last of 256, and all others that ask.
    at_256: u32,
    elsewhere: u32,
    silent: u32,
}

/// Flows of which the own queue pair is known, and those whose source port follows a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ports {
    flows: u32,
    product: u32,
    own: u32,
    low_byte: u32,
}

impl Nics {
    /// Looks at a frame of a host; beyond the first [`ENOUGH`] it is a comparison.
    #[inline]
    pub(super) fn frame(&mut self, placed: &Placed, frame: &ParsedFrame<'_>) {
        let habits = state_of(&mut self.habits, placed.host);
        if habits.frames < ENOUGH {
            habits.add(frame);
        }
    }

    /// Which profile each host has, by address: one that is seen at several ports is one host.
    pub(super) fn describe(&self, flows: &Flows) -> Vec<HostProfile> {
        let describe = |(address, habits): (IpAddr, Habits)| {
            let profile = habits.profile();
            let nearest = profile.unwrap_or_else(|| habits.nearest());
            HostProfile {
                address: address.to_string(),
                profile: profile.map(|profile| profile.name.to_string()),
                differs: habits.differs(nearest),
            }
        };
        self.by_address(flows).into_iter().map(describe).collect()
    }

    fn by_address(&self, flows: &Flows) -> BTreeMap<IpAddr, Habits> {
        let mut habits = self.habits.clone();
        for flow in flows.habits() {
            if let Some(habits) = habits.get_mut(flow.host) {
                habits.add_flow(&flow);
            }
        }
        let mut by_address: BTreeMap<IpAddr, Habits> = BTreeMap::new();
        for (address, host) in flows.hosts() {
            if let Some(habits) = habits.get(host).filter(|habits| habits.frames > 0) {
                by_address.entry(address).or_default().merge(habits);
            }
        }
        by_address
    }
}

impl Habits {
    fn add(&mut self, frame: &ParsedFrame<'_>) {
        self.frames += 1;
        self.ttl = self.ttl.max(frame.network.ttl);
        if let Ip::V4 { identification, .. } = frame.network.ip {
            self.identified.add(identification != 0);
        }
        let bth = &frame.bth;
        let Some(opcode) = bth.opcode().filter(|&opcode| opcode != Opcode::CongestionNotification) else {
            return;
        };
        self.migrated.add(bth.migrated);
        if frame.network.ecn != Ecn::CongestionExperienced {
            self.capable.add(frame.network.ecn != Ecn::NotCapable);
        }
        match frame.extensions.aeth.map(|aeth| aeth.syndrome) {
            Some(code @ 0..=31) => self.credits[usize::from(code)] += 1,
            Some(_) => {}
            // Answers have 0 there whatever the NIC.
            None => self.congestion.add(bth.congestion & RESERVED != 0),
        }
        let shape = opcode.shape();
        if !shape.place.ends() && !shape.place.starts() {
            self.asks.add(bth.ack_request, bth.psn);
        }
    }

    fn add_flow(&mut self, flow: &FlowHabits) {
        if let Some(first) = flow.first {
            self.first_zero.add(first == Psn::ZERO);
        }
        if let Some(own) = flow.own {
            let votes = &mut self.ports;
            let port = flow.source_port;
            votes.flows += 1;
            votes.product += u32::from(PortRule::Product.port(own, flow.destination) == port);
            votes.own += u32::from(PortRule::Own.port(own, flow.destination) == port);
            votes.low_byte += u32::from(low_byte(own) == port);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.frames += other.frames;
        self.migrated.merge(other.migrated);
        self.congestion.merge(other.congestion);
        self.capable.merge(other.capable);
        self.identified.merge(other.identified);
        self.ttl = self.ttl.max(other.ttl);
        for (code, count) in self.credits.iter_mut().zip(other.credits) {
            *code += count;
        }
        self.asks.at_256 += other.asks.at_256;
        self.asks.elsewhere += other.asks.elsewhere;
        self.asks.silent += other.asks.silent;
        self.ports.flows += other.ports.flows;
        self.ports.product += other.ports.product;
        self.ports.own += other.ports.own;
        self.ports.low_byte += other.ports.low_byte;
        self.first_zero.merge(other.first_zero);
    }

    /// The profile that fits best, if one fits.
    fn profile(&self) -> Option<&'static NicProfile> {
        let nearest = self.nearest();
        (self.migrated.most().is_some() && self.telling(nearest).next().is_none()).then_some(nearest)
    }

    /// The profile from which it differs least; of equal ones the first.
    fn nearest(&self) -> &'static NicProfile {
        let distance =
            |profile: &&NicProfile| (self.telling(profile).count(), self.deciding(profile).count());
        let [first, ..] = &KNOWN;
        KNOWN.iter().min_by_key(distance).unwrap_or(first)
    }

    fn differs(&self, profile: &NicProfile) -> Vec<String> {
        self.telling(profile).chain(self.deciding(profile)).collect()
    }

    /// Where it differs in what no setting changes.
    fn telling(&self, profile: &NicProfile) -> impl Iterator<Item = String> {
        let byte = profile.congestion;
        let port = self.ports.most(profile);
        [
            (self.migrated.most() == Some(!profile.migrated))
                .then(|| format!("M is {}, not {}", u8::from(!profile.migrated), u8::from(profile.migrated))),
            (self.congestion.most() == Some(byte == 0))
                .then(|| format!("the reserved bits in byte 4 of BTH are not those of 0x{byte:02x}")),
            (self.capable.most() == Some(profile.ecn == Ecn::NotCapable)).then(|| {
                format!("ECN is {}", if profile.ecn == Ecn::NotCapable { "capable" } else { "not capable" })
            }),
            (port == Some(false)).then(|| {
                let rule = match profile.source_port {
                    PortRule::Product => "the product of both numbers",
                    PortRule::Own => "the own number",
                    PortRule::Fixed => "a constant",
                };
                format!("source ports do not follow from {rule}, {} flows seen", self.ports.flows)
            }),
        ]
        .into_iter()
        .flatten()
    }

    /// Where it differs in what an application or a driver may choose.
    fn deciding(&self, profile: &NicProfile) -> impl Iterator<Item = String> {
        let starts = profile.ttl;
        let zero = profile.first_psn == FirstPsn::Zero;
        let counter = profile.identification == Identification::Counter;
        let code = (0..32).max_by_key(|&code| self.credits[code]).filter(|&code| self.credits[code] > 0);
        [
            (self.ttl > starts || starts - self.ttl >= MOST_HOPS)
                .then(|| format!("time to live {}, which does not start at {starts}", self.ttl)),
            (self.first_zero.most() == Some(!zero))
                .then(|| format!("sequence numbers {} at 0", if zero { "do not start" } else { "start" })),
            (self.identified.most() == Some(!counter))
                .then(|| format!("IPv4 identifications {}", if counter { "are all 0" } else { "are not 0" })),
            code.filter(|&code| code != usize::from(profile.credit.code()))
                .map(|code| format!("credit code {code}, not {}", profile.credit.code())),
            self.asks
                .differs(profile.acks.between)
                .then(|| "acknowledgements are asked for in another cadence".to_owned()),
        ]
        .into_iter()
        .flatten()
    }
}

impl Votes {
    fn add(&mut self, yes: bool) {
        *(if yes { &mut self.yes } else { &mut self.no }) += 1;
    }

    fn merge(&mut self, other: Self) {
        self.yes += other.yes;
        self.no += other.no;
    }

    /// What most say; `None` if nobody said anything, or as many this as that.
    fn most(self) -> Option<bool> {
        (self.yes != self.no).then_some(self.yes > self.no)
    }
}

impl Asks {
    fn add(&mut self, asks: bool, psn: Psn) {
        let count = match (asks, psn.value() % 256) {
            (true, 255) => &mut self.at_256,
            (true, _) => &mut self.elsewhere,
            (false, _) => &mut self.silent,
        };
        *count += 1;
    }

    /// Whether this is another cadence; too few frames are none.
    fn differs(self, between: Between) -> bool {
        let Self { at_256, elsewhere, silent } = self;
        let few = at_256 + elsewhere + silent < 1024;
        !few && match between {
            Between::Never => at_256 + elsewhere > 0,
            Between::Sequence(_) => elsewhere >= at_256,
            Between::Run(_) => elsewhere == 0,
        }
    }
}

impl Ports {
    /// Whether at least half of the flows follow the profile's rule; `None` if no flow's own queue pair is known.
    fn most(self, profile: &NicProfile) -> Option<bool> {
        let follow = match profile.source_port {
            // A driver of HNS took the low byte of the own number.
            PortRule::Product if profile.name == NicProfile::HNS.name => self.product.max(self.low_byte),
            PortRule::Product => self.product,
            PortRule::Own => self.own,
            PortRule::Fixed => return None,
        };
        (self.flows > 0).then_some(follow > 0 && 2 * follow >= self.flows)
    }
}

/// The source port that HNS's driver gave a queue pair before it had a rule: 72 for 0x48.
pub(super) fn low_byte(own: Qpn) -> u16 {
    let [.., low] = own.value().to_be_bytes();
    u16::from(low)
}

/// The profiles that can be told apart.
static KNOWN: [NicProfile; 4] = NicProfile::ALL;

/// Frames of a host that are looked at.
const ENOUGH: u32 = 4096;

/// The reserved bits beside FECN and BECN.
const RESERVED: u8 = 0x3f;

/// A frame passes fewer routers than this.
const MOST_HOPS: u8 = 64;
