//! Small worlds: two hosts that talk, seen at the ports of both. A mutation spoils one of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::critic::{Check, Critic, Departures, Payloads, Vantage, Verdict};
use crate::unit::{BitRate, Nanos};
use crate::wire::icrc::icrc;
use crate::wire::profile::{Identification, NicProfile, NotificationPort};
use crate::wire::{
    Aeth, Bth, Ecn, Extensions, Frame, Immediate, Ip, Link, Mac, Network, Opcode, Payload, Psn, Qpn,
    RemoteKey, Reth, Syndrome,
};

/// A host with one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) mac: Mac,
    pub(super) address: IpAddr,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) host: Host,
    pub(super) number: u32,
}

/// A frame on its way from one port to another.
#[derive(Clone, Debug)]
pub(super) struct Shot {
    /// When it leaves.
    pub(super) at: u64,
    pub(super) link: Link,
    pub(super) network: Network,
    pub(super) port: u16,
    pub(super) bth: Bth,
    pub(super) extensions: Extensions,
    pub(super) payload: Vec<u8>,
    /// It never arrives.
    pub(super) lost: bool,
    /// A switch marks it.
    pub(super) marked: bool,
    /// Instead of all that.
    pub(super) raw: Option<Vec<u8>>,
    /// What happens to the bytes, as (place, exclusive or).
    pub(super) damage: Vec<(usize, u8)>,
    /// The ICRC is made after that.
    pub(super) sealed: bool,
    /// Its place in the count of its port; by itself it is the next.
    pub(super) identification: Option<u16>,
}

/// What goes on, and what is known of the ports.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) shots: Vec<Shot>,
    pub(super) profile: NicProfile,
    pub(super) content: Option<Payloads>,
    /// What happens to the captures of A and B once they are taken.
    pub(super) spoil: Option<fn(&mut [Vec<Taken>; 2])>,
    /// By how much headers alone are kept.
    pub(super) snap: usize,
    /// What a graph says.
    pub(super) departures: Vec<((IpAddr, Qpn), Departures)>,
}

/// A frame in a capture.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) at: u64,
    pub(super) length: usize,
    pub(super) bytes: Vec<u8>,
}

pub(super) const A: Host = host(1);
pub(super) const B: Host = host(2);
pub(super) const C: Host = host(3);
/// The way from port to port.
pub(super) const WAY: u64 = 1_237;
pub(super) const MTU: usize = 1024;
pub(super) const RATE: u64 = 100_000_000_000;

const fn host(number: u8) -> Host {
    Host {
        mac: Mac([0x02, 0x00, 198, 18, 0, number]),
        address: IpAddr::V4(Ipv4Addr::new(198, 18, 0, number)),
    }
}

/// The same port with an address of IPv6.
pub(super) const fn six(host: Host) -> Host {
    let Mac([.., number]) = host.mac;
    let address = Ipv6Addr::from_octets([0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number]);
    Host { address: IpAddr::V6(address), ..host }
}

impl End {
    pub(super) fn qpn(self) -> Qpn {
        Qpn::new(self.number).unwrap()
    }
}

impl World {
    pub(super) fn new(profile: NicProfile) -> Self {
        let content = Some(Payloads::Fixed(Payload::Pattern));
        Self { shots: Vec::new(), profile, content, spoil: None, snap: usize::MAX, departures: Vec::new() }
    }

    /// A frame of a connection, with this host's habits.
    pub(super) fn shot(
        &mut self,
        at: u64,
        (from, to): (End, End),
        opcode: Opcode,
        psn: u32,
        extensions: Extensions,
        payload: &[u8],
    ) -> &mut Shot {
        let profile = &self.profile;
        let [own, other] = [from, to].map(End::qpn);
        let mut bth = Bth::new(opcode, other, Psn::wrapping(psn));
        let notification = opcode == Opcode::CongestionNotification;
        let answer = matches!(
            opcode,
            Opcode::Acknowledge
                | Opcode::ReadResponseFirst
                | Opcode::ReadResponseMiddle
                | Opcode::ReadResponseLast
                | Opcode::ReadResponseOnly
        );
        bth.migrated = profile.migrated && !notification;
        bth.congestion = match (notification, answer) {
            (true, _) => Bth::BECN,
            (_, true) => 0,
            _ => profile.congestion,
        };
        bth.ack_request = !answer && !notification && opcode.shape().place.ends();
        let ip = match (from.host.address, to.host.address) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                Ip::V4 { source, destination, identification: 0, dont_fragment: true }
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => Ip::V6 { source, destination, flow_label: 0 },
            _ => unreachable!("both ends have one version of IP"),
        };
        let port = match profile.notification.source_port {
            NotificationPort::Zero if notification => 0,
            _ => profile.source_port.port(own, other),
        };
        self.shots.push(Shot {
            at,
            link: Link { source: from.host.mac, destination: to.host.mac, vlan: None },
            network: Network {
                ip,
                dscp: if notification { 48 } else { 26 },
                ecn: profile.ecn,
                ttl: profile.ttl,
            },
            port,
            bth,
            extensions,
            payload: payload.to_vec(),
            lost: false,
            marked: false,
            raw: None,
            damage: Vec::new(),
            sealed: false,
            identification: None,
        });
        self.shots.last_mut().unwrap()
    }

    /// A WRITE from one end to the other, frame behind frame, and when its last one leaves.
    pub(super) fn write(
        &mut self,
        at: u64,
        ends: (End, End),
        psn: u32,
        reth: Reth,
        immediate: Option<u32>,
        payload: &[u8],
    ) -> (u64, u32) {
        let frames = payload.len().div_ceil(MTU).max(1);
        let (mut at, mut last) = (at, at);
        for index in 0..frames {
            let piece = &payload[index * MTU..payload.len().min((index + 1) * MTU)];
            let (first, ends_here) = (index == 0, index + 1 == frames);
            let opcode = match (first, ends_here, immediate) {
                (true, true, None) => Opcode::WriteOnly,
                (true, true, Some(_)) => Opcode::WriteOnlyImmediate,
                (true, false, _) => Opcode::WriteFirst,
                (false, false, _) => Opcode::WriteMiddle,
                (false, true, None) => Opcode::WriteLast,
                (false, true, Some(_)) => Opcode::WriteLastImmediate,
            };
            let extensions = Extensions {
                reth: first.then_some(reth),
                immediate: immediate.filter(|_| ends_here).map(Immediate::from_u32),
                ..Extensions::default()
            };
            let number = psn + u32::try_from(index).unwrap();
            self.shot(at, ends, opcode, number, extensions, piece);
            last = at;
            // 1024 bytes of payload, 62 to 78 of headers, 24 of the line: 90 ns at 100 Gbit.
            at += 91;
        }
        (last, psn + u32::try_from(frames).unwrap())
    }

    pub(super) fn ack(&mut self, at: u64, ends: (End, End), psn: u32, messages: u32) -> &mut Shot {
        let syndrome = self.profile.acknowledgement();
        self.answer(at, ends, psn, syndrome, messages)
    }

    pub(super) fn answer(
        &mut self,
        at: u64,
        ends: (End, End),
        psn: u32,
        syndrome: Syndrome,
        messages: u32,
    ) -> &mut Shot {
        let aeth = Some(Aeth::new(syndrome, Psn::wrapping(messages)));
        self.shot(at, ends, Opcode::Acknowledge, psn, Extensions { aeth, ..Extensions::default() }, &[])
    }

    /// The frames of one opcode, in the order in which they were made.
    pub(super) fn of(&mut self, opcode: Opcode) -> Vec<&mut Shot> {
        self.shots.iter_mut().filter(|shot| shot.raw.is_none() && shot.bth.opcode() == Some(opcode)).collect()
    }

    /// The captures of A and B.
    pub(super) fn captures(&self) -> [Vec<Taken>; 2] {
        let mut shots: Vec<_> = self.shots.iter().collect();
        shots.sort_by_key(|shot| shot.at);
        let mut counts = [100_u16, 7_000, 30_000];
        let mut captures = [Vec::new(), Vec::new()];
        for shot in shots {
            let index = [A.mac, B.mac].iter().position(|mac| *mac == shot.link.source);
            let count = &mut counts[index.unwrap_or(2)];
            let mut shot = shot.clone();
            if let Ip::V4 { identification, .. } = &mut shot.network.ip {
                *identification = match (shot.identification, self.profile.identification) {
                    (Some(number), _) => number,
                    (None, Identification::Zero) => 0,
                    (None, Identification::Counter) => {
                        *count += u16::from(shot.raw.is_none());
                        *count
                    }
                };
            }
            for (port, capture) in [A, B].iter().zip(&mut captures) {
                let sends = shot.link.source == port.mac;
                let mut seen = shot.clone();
                if !sends && shot.marked {
                    seen.network.ecn = Ecn::CongestionExperienced;
                }
                if sends || (shot.link.source != port.mac && !shot.lost && reaches(&shot, *port)) {
                    let bytes = seen.bytes();
                    let length = bytes.len();
                    let at = if sends { shot.at } else { shot.at + WAY };
                    capture.push(Taken { at, length, bytes: bytes[..length.min(self.snap)].to_vec() });
                }
            }
        }
        for capture in &mut captures {
            capture.sort_by_key(|taken| taken.at);
        }
        if let Some(spoil) = self.spoil {
            spoil(&mut captures);
        }
        captures
    }

    pub(super) fn judge(&self) -> Vec<Check> {
        let mut critic = Critic::new(&[]);
        for (to, departures) in &self.departures {
            critic.expect(*to, departures.clone());
        }
        for (port, (name, capture)) in
            [A, B].iter().zip(["a.pcap", "b.pcap"].into_iter().zip(self.captures()))
        {
            let address = self.shots.iter().find(|shot| shot.raw.is_none() && shot.link.source == port.mac);
            let addresses = address.map(|shot| shot.network.ip.source()).into_iter().collect();
            let vantage = Vantage {
                mac: Some(port.mac),
                addresses,
                rate: BitRate::new(RATE),
                content: self.content,
                ..Vantage::default()
            };
            let port = critic.port(vantage);
            let file = critic.file(name, port);
            for (number, taken) in (1..).zip(capture) {
                let length = u32::try_from(taken.length).unwrap();
                critic.frame(file, number, Nanos(taken.at), length, &taken.bytes);
            }
        }
        critic.finish()
    }

    pub(super) fn violated(&self) -> Vec<String> {
        let checks = self.judge();
        let wrong = checks.into_iter().filter(|check| check.verdict() == Verdict::Violated);
        wrong.map(|check| check.name).collect()
    }
}

/// Frames go to the port that they name, or, to a group, to the other one.
fn reaches(shot: &Shot, port: Host) -> bool {
    let Mac([first, ..]) = shot.link.destination;
    shot.link.destination == port.mac || first & 1 == 1
}

impl Shot {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.raw.clone().unwrap_or_default();
        if self.raw.is_none() {
            let Self { link, network, port, bth, extensions, payload, .. } = self;
            let frame = Frame {
                link: *link,
                network: *network,
                source_port: *port,
                bth: *bth,
                extensions: *extensions,
                payload,
            };
            frame.emit(&mut bytes).unwrap();
        }
        for &(at, change) in &self.damage {
            bytes[at] ^= change;
        }
        if self.sealed {
            let end = bytes.len() - 4;
            let crc = icrc(&bytes[14..end]).unwrap();
            bytes[end..].copy_from_slice(&crc.to_le_bytes());
        }
        bytes
    }

    /// Something that is no RoCE, from one port to another.
    pub(super) fn raw(at: u64, source: Mac, destination: Mac, rest: &[u8]) -> Self {
        let mut world = World::new(NicProfile::MLX5_NCCL);
        let ends = (End { host: A, number: 2 }, End { host: B, number: 3 });
        let mut shot = world.ack(at, ends, 0, 0).clone();
        shot.link = Link { source, destination, vlan: None };
        let mut bytes = [&destination.0[..], &source.0[..], rest].concat();
        bytes.resize(bytes.len().max(60), 0);
        shot.raw = Some(bytes);
        shot
    }
}

pub(super) fn pattern(length: usize) -> Vec<u8> {
    Payload::Pattern.bytes(0, MTU).unwrap().iter().copied().cycle().take(length).collect()
}

pub(super) fn reth(address: u64, key: u32, length: usize) -> Reth {
    Reth { virtual_address: address, remote_key: RemoteKey(key), length: u32::try_from(length).unwrap() }
}
