//! Frames laid out for a socket: base transport header, extension headers, stamp, payload, pad, room for the ICRC.

use traces::wire::aeth::Aeth;
use traces::wire::bth::Bth;
use traces::wire::extensions::Extensions;
use traces::wire::icrc;
use traces::wire::opcode::Opcode;
use traces::wire::payload::Payload;
use traces::wire::segment::{Encapsulation, pad};

use crate::measure::Sizes;
use crate::stamp::Stamp;

/// The bytes that UDP carries for a frame.
pub(super) fn length(opcode: Opcode, payload: usize) -> usize {
    Bth::LEN + opcode.shape().extension_length() + payload + usize::from(pad(payload)) + icrc::LEN
}

/// Writes a data frame into the front of `into`, which has room for it; returns how many bytes it took.
pub(super) fn write_data(
    bth: &Bth,
    opcode: Opcode,
    extensions: &Extensions,
    stamp: Option<&Stamp>,
    content: &[u8],
    into: &mut [u8],
) -> usize {
    let mut at = put(into, 0, &bth.to_bytes());
    // Extension headers come from the same opcode, so they fit it.
    if let Ok((bytes, length)) = extensions.to_bytes(opcode) {
        at = put(into, at, &bytes[..length]);
    }
    let payload_at = at;
    at = put(into, at, content);
    if let Some(stamp) = stamp {
        put(into, payload_at, &stamp.to_bytes());
    }
    let tail = usize::from(pad(content.len())) + icrc::LEN;
    put(into, at, &[0; 3 + icrc::LEN][..tail])
}

/// Writes an acknowledgement; returns how many bytes it took.
pub(super) fn write_answer(bth: &Bth, aeth: &Aeth, into: &mut [u8]) -> usize {
    let at = put(into, 0, &bth.to_bytes());
    let at = put(into, at, &aeth.to_bytes());
    put(into, at, &[0; icrc::LEN])
}

/// What a frame counts, of which UDP carries `udp` bytes.
pub(super) fn sizes(encapsulation: Encapsulation, udp: usize, payload: usize) -> Sizes {
    let frame = (encapsulation.length() + udp).max(traces::wire::segment::ETHERNET_MINIMUM);
    Sizes { frame: u64::try_from(frame).unwrap_or(0), payload: u64::try_from(payload).unwrap_or(0) }
}

/// The content of a frame at `offset` of its message.
pub(super) fn content(payload: Payload, offset: u64, length: u16) -> &'static [u8] {
    payload.bytes(offset, usize::from(length)).unwrap_or_default()
}

fn put(into: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    let end = at + bytes.len();
    into[at..end].copy_from_slice(bytes);
    end
}

/// The most that one UDP send takes: 65535 less IP and UDP headers, with IPv6's.
pub(super) const MOST_BURST: usize = 65_535 - 40 - 8;

#[cfg(test)]
mod tests {
    use traces::wire::packet::Packet;
    use traces::wire::psn::Psn;
    use traces::wire::qpn::Qpn;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut bth = Bth::new(Opcode::WriteMiddle, Qpn::for_data(17).unwrap(), Psn::LAST);
        bth.pad = 3;
        let mut into = [0xee; 100];
        let extensions = Extensions::default();
        let content = content(Payload::Pattern, 256, 41);
        let length = write_data(&bth, Opcode::WriteMiddle, &extensions, None, content, &mut into);
        assert_eq!(length, super::length(Opcode::WriteMiddle, 41));
        let packet = Packet::parse(&into[..length]).unwrap();
        assert_eq!((packet.bth, packet.payload, packet.pad), (bth, content, &[0; 3][..]));
        assert_eq!(into[length], 0xee);
    }
}
