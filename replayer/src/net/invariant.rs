//! The invariant CRC of frames whose IP and UDP headers the kernel writes.
//!
//! It covers those headers (IBTA vol. 1, annex A17.3.3), so they are foreseen here. Of what it does not mask, only
//! the IPv4 identification and the fragment bits are the kernel's choice: a socket that is not connected and forbids
//! fragments sends identification 0 (Linux `ip_select_ident_segs`), and software segmentation counts up from there
//! within one send (`inet_gso_segment`). The tests capture both and look.

use std::net::SocketAddr;

use traces::wire::{Bth, icrc};

use super::flow::Flow;

/// The headers in front of a flow's frames, as far as the CRC sees them.
#[derive(Clone, Debug)]
pub(super) struct Headers {
    bytes: Vec<u8>,
    ip: usize,
}

impl Headers {
    /// The headers of a flow; both of its addresses are of one version.
    pub(super) fn new(flow: Flow) -> Self {
        let mut bytes = Vec::with_capacity(IPV6 + UDP + Bth::LEN);
        let ip = match (flow.from, flow.to) {
            (SocketAddr::V4(from), SocketAddr::V4(to)) => {
                // Version and length; lengths follow; may not be cut; hops are masked; UDP.
                bytes.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 0, 17, 0, 0]);
                bytes.extend(from.ip().octets());
                bytes.extend(to.ip().octets());
                IPV4
            }
            (from, to) => {
                bytes.extend([0x60, 0, 0, 0, 0, 0, 17, 0]);
                for address in [from, to] {
                    let octets = match address {
                        SocketAddr::V4(address) => address.ip().to_ipv6_mapped().octets(),
                        SocketAddr::V6(address) => address.ip().octets(),
                    };
                    bytes.extend(octets);
                }
                IPV6
            }
        };
        bytes.extend(flow.from.port().to_be_bytes());
        bytes.extend(flow.to.port().to_be_bytes());
        bytes.extend([0; 4 + Bth::LEN]);
        Self { bytes, ip }
    }

    /// Writes the CRC into the last four bytes of `frame`, which begins with the base transport header and is the
    /// `identification`-th that the kernel numbers.
    pub(super) fn seal(&mut self, frame: &mut [u8], identification: u16) {
        let Some(covered) = frame.len().checked_sub(icrc::LEN).filter(|&covered| covered >= Bth::LEN) else {
            return;
        };
        let udp_length = u16::try_from(UDP + frame.len()).unwrap_or(u16::MAX);
        if self.ip == IPV4 {
            let total = u16::try_from(IPV4).unwrap_or(0).saturating_add(udp_length);
            self.bytes[2..4].copy_from_slice(&total.to_be_bytes());
            self.bytes[4..6].copy_from_slice(&identification.to_be_bytes());
        } else {
            self.bytes[4..6].copy_from_slice(&udp_length.to_be_bytes());
        }
        self.bytes[self.ip + 4..self.ip + 6].copy_from_slice(&udp_length.to_be_bytes());
        let (body, trailer) = frame.split_at_mut(covered);
        let (bth, rest) = body.split_at(Bth::LEN);
        self.bytes[self.ip + UDP..].copy_from_slice(bth);
        let crc = icrc::icrc_of(&self.bytes, &[rest]).unwrap_or(0);
        trailer.copy_from_slice(&crc.to_le_bytes());
    }
}

const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_crc_is_that_of_the_whole_datagram() {
        let from = SocketAddr::from((Ipv4Addr::new(198, 18, 0, 1), 50_000));
        let to = SocketAddr::from((Ipv4Addr::new(198, 18, 0, 2), 4791));
        let mut headers = Headers::new(Flow { from, to });
        let mut frame: Vec<u8> = (0..12 + 8 + 4).collect();
        headers.seal(&mut frame, 3);
        let mut datagram =
            vec![0x45, 0x68, 0, 52, 0, 3, 0x40, 0, 64, 17, 0xbe, 0xef, 198, 18, 0, 1, 198, 18, 0, 2];
        datagram.extend([0xc3, 0x50, 0x12, 0xb7, 0, 32, 0, 0]);
        datagram.extend(&frame[..20]);
        assert_eq!(frame[20..], icrc::icrc(&datagram).unwrap().to_le_bytes());
    }

    #[test]
    fn ipv6_has_no_identification() {
        let [from, to] = ["[2001:2::1]:50000", "[2001:2::2]:4791"].map(|address| address.parse().unwrap());
        let mut headers = Headers::new(Flow { from, to });
        let mut frame = vec![7_u8; 24];
        headers.seal(&mut frame, 0);
        let first = frame.clone();
        headers.seal(&mut frame, 9);
        assert_eq!(frame, first);
        assert_ne!(frame[20..], [7; 4]);
    }
}
