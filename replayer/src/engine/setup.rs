//! What an engine has to know before it starts.

use thiserror::Error;
use traces::id::{HostId, NicId, QueuePairId};
use traces::manifest::{Manifest, QueuePair};
use traces::unit::Nanos;
use traces::wire::payload::Payload;
use traces::wire::psn::Psn;
use traces::wire::qpn::Qpn;
use traces::wire::reth::RemoteKey;
use traces::wire::segment::{Encapsulation, IpVersion, PathMtu};

use crate::measure::Meter;

/// A host's part in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The run, as stamps name it: different from that of any run whose frames may still be under way.
    pub run: u32,
    /// The host.
    pub host: HostId,
    /// When it starts, in time since the run's epoch.
    pub start: Nanos,
    /// Its NICs.
    pub nics: Vec<NicId>,
    /// Its queue pairs: bursts name them by their place here.
    pub queue_pairs: Vec<QueuePairEnd>,
    /// The largest payload of a frame.
    pub path_mtu: PathMtu,
    /// What payloads hold behind the stamp.
    pub payload: Payload,
    /// What is around the base transport header: it decides what a frame counts.
    pub encapsulation: Encapsulation,
    /// Whether frames carry stamps where they fit. Without, a timed replay sends a capture's frames as they are.
    pub stamps: bool,
    /// Its limits and times.
    pub limits: Limits,
}

/// One end of a connection, with what it must know of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairEnd {
    /// Its id.
    pub id: QueuePairId,
    /// Its peer's id.
    pub peer: QueuePairId,
    /// Its NIC, by its place in [`Setup::nics`].
    pub nic: usize,
    /// The number that frames to it carry.
    pub number: Qpn,
    /// The number that frames to its peer carry.
    pub peer_number: Qpn,
    /// The PSN of the first frame that it sends.
    pub first_psn: Psn,
    /// The PSN of the first frame that its peer sends.
    pub peer_first_psn: Psn,
    /// The key of the memory that it writes to.
    pub peer_key: RemoteKey,
    /// Whether it sends data; otherwise what it sends clears its peer to, and is no data.
    pub sends_data: bool,
}

/// Limits and times of an engine; the defaults suit hosts on one machine and in one room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Frames that a queue pair may have under way without acknowledgement, at least one.
    pub window: u32,
    /// After so many frames at most an acknowledgement is asked for, and at the end of every message.
    pub acknowledge_every: u32,
    /// Frames of one queue pair before the next one's turn.
    pub quantum: u32,
    /// Frames of one burst at most: Linux segments 64 at once (`UDP_MAX_SEGMENTS`).
    pub burst: u32,
    /// When the first acknowledgement is overdue. Each time-out in a row doubles it, up to `longest_timeout`.
    pub timeout: Nanos,
    /// The longest time-out.
    pub longest_timeout: Nanos,
    /// Time-outs in a row that end the run.
    pub tries: u32,
    /// How long a host answers its peers after its own part is done, counted from the last arrival. Must be longer than
    /// `longest_timeout`, so that a peer whose last acknowledgement was lost gets another.
    pub drain: Nanos,
    /// How long a host waits for arrivals when nothing else is left to do, before it gives up.
    pub idle: Nanos,
    /// Timed: a frame is late when it leaves so long after its intended time.
    pub late_after: Nanos,
    /// The bins of traffic in time.
    pub bin: Nanos,
    /// Nodes, or frames in timed mode, that are held at once.
    pub held: usize,
}

/// Why a manifest does not describe a host's part.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// No such host.
    #[error("the manifest has no {0}")]
    Host(HostId),
    /// A queue pair's peer is missing.
    #[error("{queue_pair} has the peer {peer}, which the manifest does not have")]
    Peer {
        /// The queue pair.
        queue_pair: QueuePairId,
        /// Its peer.
        peer: QueuePairId,
    },
    /// A figure has a value that frames cannot carry.
    #[error("{what} is {value}, which a frame cannot carry")]
    Value {
        /// The figure.
        what: &'static str,
        /// Its value.
        value: u32,
    },
    /// Payloads of an unknown kind.
    #[error("payload is `{0}`; known are `pattern`, `zero`, `random` and `token`")]
    Payload(String),
}

impl Setup {
    /// A host's part in a run of a trace that starts at `start`.
    ///
    /// # Errors
    /// [`SetupError`] says what in the manifest does not fit.
    pub fn new(manifest: &Manifest, host: HostId, run: u32, start: Nanos) -> Result<Self, SetupError> {
        if !manifest.hosts.iter().any(|known| known.id == host) {
            return Err(SetupError::Host(host));
        }
        let nics: Vec<_> = manifest.nics.iter().filter(|nic| nic.host == host).collect();
        let mut queue_pairs = Vec::new();
        for queue_pair in &manifest.queue_pairs {
            let Some(nic) = nics.iter().position(|nic| nic.id == queue_pair.nic) else { continue };
            let peer = manifest.queue_pairs.iter().find(|peer| peer.id == queue_pair.peer);
            let missing = SetupError::Peer { queue_pair: queue_pair.id, peer: queue_pair.peer };
            queue_pairs.push(QueuePairEnd::new(queue_pair, peer.ok_or(missing)?, nic)?);
        }
        let mtu = manifest.transport.path_mtu_bytes;
        let slowest_bps = nics.iter().map(|nic| nic.link_bps).min().unwrap_or(u64::MAX);
        let path_mtu = u16::try_from(mtu).ok().and_then(PathMtu::new);
        let addresses = nics.iter().flat_map(|nic| &nic.addresses);
        let v6 = addresses.clone().next().is_some_and(|address| address.contains(':'));
        Ok(Self {
            run,
            host,
            start,
            nics: nics.iter().map(|nic| nic.id).collect(),
            queue_pairs,
            path_mtu: path_mtu.ok_or(SetupError::Value { what: "path MTU", value: mtu })?,
            payload: match manifest.transport.payload.as_str() {
                // Noise and tokens are the trace's alone: live frames are written from templates.
                "pattern" | "random" | "token" => Payload::Pattern,
                "zero" => Payload::Zero,
                other => return Err(SetupError::Payload(other.to_owned())),
            },
            encapsulation: Encapsulation {
                ip: if v6 { IpVersion::V6 } else { IpVersion::V4 },
                vlan: manifest.transport.vlan.is_some(),
            },
            stamps: true,
            limits: Limits { window: window(slowest_bps, mtu), ..Limits::default() },
        })
    }

    /// Counts for its NICs and flows.
    pub(super) fn meter(&self) -> Meter {
        let flows: Vec<_> = self.queue_pairs.iter().map(|end| (end.nic, end.id, end.peer)).collect();
        Meter::new(self.start, self.limits.bin, &self.nics, &flows)
    }
}

impl QueuePairEnd {
    fn new(here: &QueuePair, peer: &QueuePair, nic: usize) -> Result<Self, SetupError> {
        let number =
            |value| Qpn::for_data(value).map_err(|_| SetupError::Value { what: "queue pair number", value });
        let psn = |value| Psn::new(value).ok_or(SetupError::Value { what: "first PSN", value });
        Ok(Self {
            id: here.id,
            peer: peer.id,
            nic,
            number: number(here.qpn)?,
            peer_number: number(peer.qpn)?,
            first_psn: psn(here.first_psn)?,
            peer_first_psn: psn(peer.first_psn)?,
            peer_key: RemoteKey(peer.rkey),
            sends_data: here.sends_data,
        })
    }
}

/// The window of a queue pair: what the slowest line of its host carries in a round trip. More would stand in queues
/// before it: frames of other messages would wait behind it, and acknowledgements until they are overdue.
fn window(slowest_bps: u64, path_mtu_bytes: u32) -> u32 {
    let most = Limits::default().window;
    let bytes = u128::from(slowest_bps) * u128::from(ROUND_TRIP.0) / 8_000_000_000;
    let frames = bytes.div_ceil(u128::from(path_mtu_bytes.max(1)));
    u32::try_from(frames).unwrap_or(most).clamp(LEAST_WINDOW.min(most), most)
}

/// A round trip through the software of two hosts that share cores, with what it takes to be scheduled.
const ROUND_TRIP: Nanos = Nanos(2_000_000);

/// So that a slow line's window still holds frames enough to ask for an acknowledgement before it is used up.
const LEAST_WINDOW: u32 = 8;

impl Default for Limits {
    fn default() -> Self {
        Self {
            window: 256,
            acknowledge_every: 64,
            quantum: 16,
            burst: 64,
            // 4.096 us * 2^14, what a local ACK timeout of 14 means on a NIC (IBTA vol. 1, 9.7.6.1.3).
            timeout: Nanos(67_108_864),
            longest_timeout: Nanos(250_000_000),
            tries: 12,
            drain: Nanos(1_000_000_000),
            idle: Nanos(30_000_000_000),
            late_after: Nanos(100_000),
            bin: Nanos(10_000_000),
            held: 1 << 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_what_a_line_carries_in_two_milliseconds() {
        // 1 Gbit/s: 250,000 bytes, which 62 frames of 4 KiB carry and 61 do not.
        assert_eq!(window(1_000_000_000, 4_096), 62);
        assert_eq!(window(1_000_000, 4_096), 8);
        assert_eq!(window(100_000_000_000, 4_096), 256);
        assert_eq!(window(u64::MAX, 0), 256);
    }
}
