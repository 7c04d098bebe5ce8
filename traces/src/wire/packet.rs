//! What UDP carries: the base transport header, extension headers, payload, pad and ICRC, taken apart without
//! copying.
//!
//! A socket gives just this; a capture gives it within a frame ([`super::parsed`]), perhaps cut short.

use thiserror::Error;

use super::bth::Bth;
use super::extensions::Extensions;
use super::icrc;

/// What UDP carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The base transport header.
    pub bth: Bth,
    /// The extension headers; none if the opcode is not known.
    pub extensions: Extensions,
    /// The payload as far as it was captured.
    pub payload: &'a [u8],
    /// The bytes of the payload as the lengths have it.
    pub payload_length: usize,
    /// The pad as far as it was captured.
    pub pad: &'a [u8],
    /// The ICRC that it carries; `None` if it was not captured.
    pub icrc: Option<u32>,
}

/// Why bytes cannot be taken apart. Places are counted from the start of the frame, or of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end within a header.
    #[error("byte {at}: {header} needs {needs} bytes, {left} are left{}", cut_words(*.cut))]
    Short {
        /// The header.
        header: &'static str,
        /// Where it starts.
        at: usize,
        /// Its bytes.
        needs: usize,
        /// What is there.
        left: usize,
        /// Whether the frame was longer than what was captured of it.
        cut: bool,
    },
    /// The first byte of the IP header does not fit its Ethernet type.
    #[error("byte {at}: an {expected} header does not start with 0x{byte:02x}")]
    IpHeader {
        /// Where it is.
        at: usize,
        /// What the Ethernet type promises.
        expected: &'static str,
        /// What is there.
        byte: u8,
    },
    /// UDP carries less than headers, pad and ICRC need.
    #[error("byte {at}: UDP carries {length} bytes, but headers, pad and ICRC need {needs}")]
    Content {
        /// Where it starts.
        at: usize,
        /// What UDP carries.
        length: usize,
        /// The least that it can be.
        needs: usize,
    },
    /// The UDP length is more than the frame has.
    #[error("byte {at}: UDP length {length} reaches beyond the frame, {left} bytes are left")]
    Beyond {
        /// Where UDP starts.
        at: usize,
        /// What its length says.
        length: u16,
        /// What the frame had on the wire.
        left: usize,
    },
}

impl<'a> Packet<'a> {
    /// Takes apart what a UDP datagram to port 4791 carries.
    ///
    /// # Errors
    /// [`ParseError`] says at which byte what is missing.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        Body { captured: body, at: 0, length: body.len() }.parse()
    }
}

/// The content of a UDP datagram within a frame: `captured` of its `length` bytes, from byte `at` of the
/// frame on.
pub(super) struct Body<'a> {
    pub(super) captured: &'a [u8],
    pub(super) at: usize,
    pub(super) length: usize,
}

impl<'a> Body<'a> {
    // Always: what it gives is 200 bytes that a caller takes apart at once.
    #[inline(always)]
    pub(super) fn parse(&self) -> Result<Packet<'a>, ParseError> {
        let Self { captured, at, length } = *self;
        let mut needs = Bth::LEN + icrc::LEN;
        let check =
            |needs| if length < needs { Err(ParseError::Content { at, length, needs }) } else { Ok(()) };
        check(needs)?;
        let mut cursor = Cursor { bytes: captured, at: 0, base: at, cut: captured.len() < length };
        let bth = Bth::parse(cursor.take("base transport header")?);
        let mut extensions = Extensions::default();
        let mut payload_at = Bth::LEN;
        if let Some(opcode) = bth.opcode() {
            let shape = opcode.shape();
            needs += shape.extension_length();
            check(needs)?;
            (extensions, _) = Extensions::parse(&shape, cursor.rest())
                .ok_or_else(|| cursor.short("extension headers together", shape.extension_length()))?;
            payload_at += shape.extension_length();
        }
        needs += usize::from(bth.pad);
        check(needs)?;
        let payload_end = payload_at + length - needs;
        let icrc_at = length - icrc::LEN;
        let between = |from: usize, to: usize| {
            let from = from.min(captured.len());
            &captured[from..to.clamp(from, captured.len())]
        };
        Ok(Packet {
            bth,
            extensions,
            payload: between(payload_at, payload_end),
            payload_length: payload_end - payload_at,
            pad: between(payload_end, icrc_at),
            icrc: between(icrc_at, length).first_chunk().map(|bytes| u32::from_le_bytes(*bytes)),
        })
    }
}

/// Takes headers from the front of bytes.
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    /// How far it is.
    pub(super) at: usize,
    /// Where in the frame the bytes start.
    pub(super) base: usize,
    /// Whether there was more than the bytes.
    pub(super) cut: bool,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(super) fn take<const N: usize>(&mut self, header: &'static str) -> Result<&'a [u8; N], ParseError> {
        let chunk = self.rest().first_chunk().ok_or_else(|| self.short(header, N))?;
        self.at += N;
        Ok(chunk)
    }

    #[cold]
    pub(super) fn short(&self, header: &'static str, needs: usize) -> ParseError {
        ParseError::Short { header, at: self.base + self.at, needs, left: self.rest().len(), cut: self.cut }
    }
}

const fn cut_words(cut: bool) -> &'static str {
    if cut { "; the capture cut the frame" } else { "" }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::{bytes, nccl};
    use super::super::{Extensions, Opcode};
    use super::*;

    #[test]
    fn a_packet_is_what_stands_behind_udp() {
        let frame = nccl(Opcode::WriteMiddle, 9, Extensions::default(), b"token");
        let bytes = bytes(&frame);
        let packet = Packet::parse(&bytes[frame.body_at()..]).unwrap();
        assert_eq!((packet.bth, packet.payload, packet.pad), (frame.bth, &b"token"[..], &[0; 3][..]));
        assert_eq!(packet.icrc.unwrap().to_le_bytes(), bytes[bytes.len() - 4..]);
    }

    #[test]
    fn what_is_too_short_is_said() {
        let error = Packet::parse(&[0x0a; 15]).unwrap_err();
        assert_eq!(error.to_string(), "byte 0: UDP carries 15 bytes, but headers, pad and ICRC need 16");
        let error = Packet::parse(&[0x0a; 31]).unwrap_err();
        assert_eq!(error.to_string(), "byte 0: UDP carries 31 bytes, but headers, pad and ICRC need 32");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(packet) = Packet::parse(&body) {
                prop_assert_eq!(packet.payload.len(), packet.payload_length);
                prop_assert_eq!(packet.pad.len(), usize::from(packet.bth.pad));
            }
        }
    }
}
