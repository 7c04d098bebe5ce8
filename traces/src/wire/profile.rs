//! A NIC's habits: what hardware and drivers choose where the specification leaves a choice.
//!
//! A profile is data: one per NIC, the same through a whole trace. The named ones follow captures and driver sources; a
//! plan can name its own. Not here: how the network treats frames, and what an application chooses (DSCP, path MTU).
//!
//! Sources: Linux `drivers/infiniband/hw/{mlx5,hns}` and `sw/rxe`, NCCL `net_ib`, captures of HNS, rxe and ConnectX-4 Lx.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::aeth::Syndrome;
use super::credits::Credits;
use super::network::Ecn;
use super::qpn::Qpn;
use super::segment::{AckCadence, Between};
use super::source_port;
use crate::unit::Nanos;

/// A NIC's habits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicProfile {
    /// Its name in plans and manifests.
    pub name: Cow<'static, str>,
    /// The M bit of all that it sends but congestion notifications.
    pub migrated: bool,
    /// Byte 4 of BTH in data frames; answers carry 0.
    pub congestion: u8,
    /// The IPv4 identification.
    pub identification: Identification,
    /// The ECN field of what no switch has marked.
    pub ecn: Ecn,
    /// The time to live that frames start with.
    pub ttl: u8,
    /// How the UDP source port of a connection is chosen.
    pub source_port: PortRule,
    /// When frames ask for an acknowledgement.
    pub acks: AckCadence,
    /// What acknowledgements say of credits.
    pub credit: Credits,
    /// Where sequence numbers start.
    pub first_psn: FirstPsn,
    /// Congestion notifications.
    pub notification: NotificationHabit,
}

/// How a NIC fills the identification of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Identification {
    /// Always 0.
    Zero,
    /// One counter for all that the port sends.
    Counter,
}

/// How the UDP source port of a connection is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortRule {
    /// The hash of the product of both numbers, equal in both directions ([`source_port::product`]).
    Product,
    /// The hash of the own number ([`source_port::own`]): each direction has its own.
    Own,
    /// One port for all connections: 49152, as NICs do that leave it to their firmware.
    Fixed,
}

/// Where the sequence numbers of a queue pair start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FirstPsn {
    /// At 0: NCCL asks for it.
    Zero,
    /// Anywhere: connections of RDMA-CM.
    Random,
}

/// How a NIC notifies of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotificationHabit {
    /// Whether notifications come from the connection's source port (or from port 0, as ConnectX's do).
    pub source_port: NotificationPort,
    /// The least time between two of a queue pair.
    pub interval: Nanos,
}

/// The UDP source port of congestion notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotificationPort {
    /// 0: seen from a ConnectX-4 Lx.
    Zero,
    /// The connection's.
    Connection,
}

impl NicProfile {
    /// ConnectX under NCCL: queue pairs are set up over TCP, sequence numbers start at 0, TTL 255. The default.
    pub const MLX5_NCCL: Self = Self {
        name: Cow::Borrowed("mlx5-nccl"),
        migrated: true,
        congestion: 0,
        identification: Identification::Counter,
        ecn: Ecn::Capable0,
        ttl: 255,
        source_port: PortRule::Product,
        // `log_ack_req_freq = 8` in the queue pair's context.
        acks: AckCadence { between: Between::Sequence(256), opening: false },
        credit: Credits::UNCOUNTED,
        first_psn: FirstPsn::Zero,
        notification: NotificationHabit { source_port: NotificationPort::Zero, interval: CNP_INTERVAL },
    };

    /// ConnectX under RDMA-CM: random sequence numbers, TTL 64.
    pub const MLX5_CM: Self =
        Self { name: Cow::Borrowed("mlx5-cm"), ttl: 64, first_psn: FirstPsn::Random, ..Self::MLX5_NCCL };

    /// Huawei's HNS, as captured: identification 0, BTH byte 4 of data is 0x10, the first frame of a queue pair asks for an
    /// acknowledgement. The captured driver took the source port from the low byte of the queue pair's number, which
    /// Wireshark reads as TFTP and worse; later drivers use the product.
    pub const HNS: Self = Self {
        name: Cow::Borrowed("hns"),
        congestion: 0x10,
        identification: Identification::Zero,
        ttl: 64,
        acks: AckCadence { between: Between::Never, opening: true },
        credit: Credits::HNS,
        notification: NotificationHabit { source_port: NotificationPort::Connection, interval: CNP_INTERVAL },
        ..Self::MLX5_NCCL
    };

    /// Linux's software RoCE: M clear, not ECN capable, a hash of the own number as source port, random sequence numbers.
    pub const RXE: Self = Self {
        name: Cow::Borrowed("rxe"),
        migrated: false,
        congestion: 0,
        identification: Identification::Counter,
        ecn: Ecn::NotCapable,
        ttl: 64,
        source_port: PortRule::Own,
        // `noack_pkts++ > RXE_MAX_PKT_PER_ACK` (64): the 66th in a row.
        acks: AckCadence { between: Between::Run(66), opening: false },
        credit: Credits::UNCOUNTED,
        first_psn: FirstPsn::Random,
        notification: NotificationHabit { source_port: NotificationPort::Connection, interval: CNP_INTERVAL },
    };

    /// All named profiles, the default first.
    pub const ALL: [Self; 4] = [Self::MLX5_NCCL, Self::MLX5_CM, Self::HNS, Self::RXE];

    /// The profile of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// The syndrome of its acknowledgements.
    #[must_use]
    pub const fn acknowledgement(&self) -> Syndrome {
        Syndrome::ack(self.credit)
    }
}

impl PortRule {
    /// The source port of what `local` sends to `remote`.
    #[must_use]
    pub const fn port(self, local: Qpn, remote: Qpn) -> u16 {
        match self {
            Self::Product => source_port::product(local, remote),
            Self::Own => source_port::own(local),
            Self::Fixed => source_port::LOWEST,
        }
    }

    /// Whether both directions of a connection have the same.
    #[must_use]
    pub const fn is_symmetric(self) -> bool {
        !matches!(self, Self::Own)
    }
}

/// mlx5's `MIN_TIME_BETWEEN_CNPS`, as three public configurations of ConnectX have it.
const CNP_INTERVAL: Nanos = Nanos(4_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_profiles() {
        for profile in NicProfile::ALL {
            assert_eq!(NicProfile::named(&profile.name), Some(profile));
        }
        assert_eq!(NicProfile::named("mlx6"), None);
    }

    #[test]
    fn ports_are_those_of_captures() {
        let [a, b] = [0x124, 0x2a7].map(|number| Qpn::for_data(number).unwrap());
        assert_eq!((PortRule::Product.port(a, b), PortRule::Product.port(b, a)), (50800, 50800));
        assert_eq!(PortRule::Own.port(Qpn::for_data(0x11).unwrap(), a), 57236);
        assert_eq!(PortRule::Own.port(Qpn::for_data(0x17).unwrap(), a), 62017);
        assert!(PortRule::Product.is_symmetric() && !PortRule::Own.is_symmetric());
    }
}
