//! Addresses on loopback for the NICs of a trace.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use traces::manifest::Manifest;

use super::error::LabError;
use crate::dataplane::NicAddress;

/// An address per NIC, all in the first of 32 networks in which the run's port is free on all: another run at the
/// same time has its own.
pub(super) fn addresses(manifest: &Manifest) -> Result<Vec<NicAddress>, LabError> {
    let port = manifest.transport.udp_port;
    let count = manifest.nics.len();
    if count > MOST_NICS {
        return Err(LabError::Nics(count));
    }
    (FIRST..FIRST + NETWORKS)
        .map(|network| {
            manifest
                .nics
                .iter()
                .zip(1_u16..)
                .map(|(nic, place)| {
                    let [high, low] = place.to_be_bytes();
                    NicAddress { nic: nic.id, address: IpAddr::V4(Ipv4Addr::new(127, network, high, low)) }
                })
                .collect::<Vec<_>>()
        })
        .find(|addresses| {
            addresses.iter().all(|entry| UdpSocket::bind(SocketAddr::new(entry.address, port)).is_ok())
        })
        .ok_or(LabError::Loopback(port))
}

const FIRST: u8 = 100;
const NETWORKS: u8 = 32;
const MOST_NICS: usize = 60_000;
