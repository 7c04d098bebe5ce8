//! The invariant CRC: the four bytes that end every RoCEv2 datagram and hold from the sender to the receiver.
//!
//! CRC-32 of IEEE 802.3 (as zlib's `crc32`) over eight bytes of ones in place of InfiniBand's local route
//! header, then the IP header and all behind it up to the pad, with the fields that routers change masked to
//! ones (IBTA vol. 1, annex A17.3.3; Linux `rxe_icrc.c`; checked on 129 captured frames of HNS and rxe and
//! one of ConnectX-4):
//!
//! - IPv4: type of service, time to live, header checksum. IPv6: traffic class, flow label, hop limit.
//! - UDP: checksum. BTH: byte 4, the congestion bits.
//!
//! On the wire it is little-endian: [`to_bytes`](u32::to_le_bytes). Wireshark shows it as if big-endian, and
//! checks nothing. [`tables`] makes the ICRC of a frame from that of another one that differs in a few known
//! bytes.

pub mod tables;

use super::bth::Bth;

/// Its length in bytes.
pub const LEN: usize = 4;

/// The ICRC of a datagram: IP header to pad, without the ICRC's own bytes.
///
/// `None` unless it starts with an IPv4 or IPv6 header, followed at once by UDP and BTH.
#[must_use]
pub fn icrc(datagram: &[u8]) -> Option<u32> {
    icrc_of(datagram, &[])
}

/// The ICRC of a datagram whose payload stands elsewhere: `front` reaches from the IP header at least to the
/// end of BTH, `rest` is what follows it, piece by piece.
#[must_use]
pub fn icrc_of(front: &[u8], rest: &[&[u8]]) -> Option<u32> {
    let ip = ip_header_length(front)?;
    let headers = ip + UDP + Bth::LEN;
    let mut masked = [0_u8; MAX_IP + UDP + Bth::LEN];
    let masked = masked.get_mut(..headers)?;
    masked.copy_from_slice(front.get(..headers)?);
    mask(masked, ip);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[0xff; 8]);
    crc.update(masked);
    crc.update(&front[headers..]);
    for piece in rest {
        crc.update(piece);
    }
    Some(crc.finalize())
}

fn ip_header_length(datagram: &[u8]) -> Option<usize> {
    match datagram.first()? >> 4 {
        4 => Some(usize::from(datagram[0] & 0x0f) * 4).filter(|&length| length >= IPV4),
        6 => Some(IPV6),
        _ => None,
    }
}

/// Sets to ones what may change on the way. `headers` are whole: IP of `ip` bytes, UDP, BTH.
fn mask(headers: &mut [u8], ip: usize) {
    if headers[0] >> 4 == 4 {
        headers[1] = 0xff;
        headers[8] = 0xff;
        headers[10..12].fill(0xff);
    } else {
        headers[0] |= 0x0f;
        headers[1..4].fill(0xff);
        headers[7] = 0xff;
    }
    headers[ip + 6..ip + 8].fill(0xff);
    headers[ip + UDP + 4] = 0xff;
}

const IPV4: usize = 20;
const IPV6: usize = 40;
const MAX_IP: usize = 60;
const UDP: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// The congestion notification of a ConnectX-4 Lx (scapy, test/contrib/roce.uts): from the IP header on,
    /// and its ICRC.
    const CNP: [u8; 56] = [
        0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11, 0x01, 0x0a,
        0x00, 0x12, 0x01, //
        0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00, //
        0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00, //
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    const CNP_ICRC: [u8; 4] = [0x82, 0xfd, 0x00, 0x2a];

    #[test]
    fn a_captured_notification_has_the_icrc_of_its_nic() {
        assert_eq!(icrc(&CNP).unwrap().to_le_bytes(), CNP_ICRC);
    }

    #[test]
    fn what_routers_change_changes_nothing() {
        for at in [1, 8, 10, 11, 26, 27, 32] {
            let mut changed = CNP;
            changed[at] ^= 0x5a;
            assert_eq!(icrc(&changed), icrc(&CNP), "byte {at}");
        }
        for at in [2, 4, 5, 12, 16, 20, 28, 33, 39, 55] {
            let mut changed = CNP;
            changed[at] ^= 0x01;
            assert_ne!(icrc(&changed), icrc(&CNP), "byte {at}");
        }
    }

    #[test]
    fn ipv6_masks_class_label_and_hop_limit() {
        let mut datagram = [0_u8; 40 + 8 + 12];
        datagram[0] = 0x60;
        let plain = icrc(&datagram).unwrap();
        for at in [1, 2, 3, 7, 46, 47, 52] {
            let mut changed = datagram;
            changed[at] ^= 0xff;
            assert_eq!(icrc(&changed), Some(plain), "byte {at}");
        }
        datagram[0] = 0x6f;
        assert_eq!(icrc(&datagram), Some(plain));
        datagram[24] = 1;
        assert_ne!(icrc(&datagram), Some(plain));
    }

    #[test]
    fn what_is_no_datagram_has_none() {
        assert_eq!(icrc(&[]), None);
        assert_eq!(icrc(&[0x50; 60]), None);
        assert_eq!(icrc(&[0x44; 60]), None, "a header of 16 bytes");
        assert_eq!(icrc(&CNP[..39]), None);
        assert_eq!(icrc(&[0x60; 59]), None);
    }
}
