//! Where frames go from and to.

use std::net::{IpAddr, SocketAddr};

/// A flow of a backend, numbered in the order in which flows were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(pub usize);

/// One direction of a connection: everything that an ECMP hash sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The address of the NIC that sends, and the UDP source port of the queue pair.
    pub from: SocketAddr,
    /// The address of the NIC that receives, and the port that it listens on.
    pub to: SocketAddr,
}

/// The addresses that a run may touch: for benchmarks (RFC 2544, appendix C.2.2: 198.18.0.0/15; RFC 5180, section
/// 8: 2001:2::/48) and this machine itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Loopback: nothing leaves the machine.
    Loopback,
    /// Set aside for benchmarks: no one's address.
    Benchmark,
    /// Somebody's.
    Foreign,
}

impl Place {
    /// Where an address belongs.
    ///
    /// ```
    /// use replayer::net::Place;
    /// assert_eq!(Place::of("198.19.255.255".parse()?), Place::Benchmark);
    /// assert_eq!(Place::of("198.20.0.0".parse()?), Place::Foreign);
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            address if address.is_loopback() => Self::Loopback,
            IpAddr::V4(address) if matches!(address.octets(), [198, 18 | 19, ..]) => Self::Benchmark,
            IpAddr::V6(address) if matches!(address.segments(), [0x2001, 2, 0, ..]) => Self::Benchmark,
            _ => Self::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_without_owner_are_played_to() {
        for (address, place) in [
            ("127.100.0.1", Place::Loopback),
            ("::1", Place::Loopback),
            ("::ffff:127.0.0.1", Place::Loopback),
            ("198.18.0.0", Place::Benchmark),
            ("::ffff:198.18.3.4", Place::Benchmark),
            ("2001:2::7", Place::Benchmark),
            ("198.17.255.255", Place::Foreign),
            ("2001:2:1::7", Place::Foreign),
            ("0.0.0.0", Place::Foreign),
            ("10.0.0.1", Place::Foreign),
            ("224.0.0.1", Place::Foreign),
            ("255.255.255.255", Place::Foreign),
        ] {
            assert_eq!(Place::of(address.parse().unwrap()), place, "{address}");
        }
    }
}
