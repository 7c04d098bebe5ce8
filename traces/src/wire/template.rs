//! Frames by the million: a template per queue pair, opcode and payload length, from which each frame is
//! written.
//!
//! What changes from frame to frame is a few bytes: IP identification, sequence number, AckReq, and in the
//! first and last frame of a message the extension headers. They are patched into a copy of the headers,
//! checksums follow by difference, and the ICRC by [`icrc::tables`]; the payload is copied and never read.
//! [`Frame::emit`] is the judge: both make the same bytes.

use std::net::Ipv6Addr;
use std::sync::Arc;

use super::bth::Bth;
use super::extensions::Extensions;
use super::frame::{Frame, FrameError};
use super::icrc::tables::{Advance, TableSet, Tables};
use super::icrc::{self, icrc_of};
use super::network::Ip;
use super::opcode::Opcode;
use super::payload::Payload;
use super::psn::Psn;
use super::segment::pad;

/// All frames of one shape: equal but for what [`Varying`] names.
#[derive(Clone, Debug)]
pub struct Template {
    opcode: Opcode,
    /// Ethernet to the extension headers, with identification, sequence number and AckReq zero.
    head: [u8; LONGEST_HEAD],
    head_length: usize,
    network_at: usize,
    bth_at: usize,
    extensions_at: usize,
    payload: Payload,
    payload_length: usize,
    length: usize,
    /// The ICRC of the head above with the payload.
    icrc: u32,
    tables: Arc<Tables>,
    checksum: Checksum,
    /// The bytes of a stamp, and the map over what follows them.
    stamp: Option<(usize, Arc<Advance>)>,
}

/// What differs between the frames of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Varying<'a> {
    /// The sequence number.
    pub psn: Psn,
    /// Whether an acknowledgement is asked for.
    pub ack_request: bool,
    /// The IPv4 identification; IPv6 has none.
    pub identification: u16,
    /// The extension headers; `None` for those of the template.
    pub extensions: Option<&'a Extensions>,
    /// The payload.
    pub content: Content<'a>,
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// What the template carries.
    Template,
    /// The same, but its first bytes, as many as [`Template::stamped`] was told: a measurement stamp.
    Stamp(&'a [u8]),
    /// Another payload, as long as the template's. The ICRC costs a reading of all of it.
    Own(&'a [u8]),
}

/// The sums of 16-bit words that checksums need.
#[derive(Clone, Copy, Debug)]
enum Checksum {
    /// The IPv4 header, without identification and checksum. UDP has none.
    V4 { header: u32 },
    /// UDP and its pseudo header, without payload, extension headers, sequence number and ICRC; and the
    /// payload.
    V6 { headers: u32, payload: u32 },
}

impl Template {
    /// The template of frames like `frame` that carry `length` bytes of `payload`; the frame's own payload
    /// does not count.
    ///
    /// # Errors
    /// [`FrameError`] if such a frame cannot be written, or has more payload than the greatest path MTU.
    pub fn new(
        frame: &Frame<'_>,
        payload: Payload,
        length: usize,
        tables: &mut TableSet,
    ) -> Result<Self, FrameError> {
        let opcode = Opcode::from_byte(frame.bth.opcode).ok_or(FrameError::Opcode(frame.bth.opcode))?;
        let mut first = *frame;
        first.payload = payload.bytes(0, length).ok_or(FrameError::Payload(length))?;
        first.bth.psn = Psn::ZERO;
        first.bth.ack_request = false;
        if let Ip::V4 { identification, .. } = &mut first.network.ip {
            *identification = 0;
        }
        let mut bytes = Vec::new();
        first.emit(&mut bytes)?;

        let network_at = frame.link.length();
        let bth_at = network_at + first.network.ip.header_length() + UDP;
        let extensions_at = bth_at + Bth::LEN;
        let extensions = opcode.shape().extension_length();
        let head_length = extensions_at + extensions;
        let padded = length + usize::from(pad(length));
        let mut head = [0; LONGEST_HEAD];
        head[..head_length].copy_from_slice(&bytes[..head_length]);
        let checksum = match first.network.ip {
            Ip::V4 { .. } => {
                head[network_at + 10..network_at + 12].fill(0);
                Checksum::V4 { header: sum(&head[network_at..network_at + 20]) }
            }
            Ip::V6 { source, destination, .. } => {
                let udp_at = bth_at - UDP;
                head[udp_at + 6..udp_at + 8].fill(0);
                let headers = pseudo_header(source, destination, &head[udp_at + 4..udp_at + 6])
                    + sum(&head[udp_at..extensions_at]);
                Checksum::V6 { headers, payload: sum(first.payload) }
            }
        };
        Ok(Self {
            opcode,
            icrc: icrc_of(&head[network_at..head_length], &[first.payload, &[0; 3][..padded - length]])
                .expect("IP, UDP and BTH stand in front"),
            head,
            head_length,
            network_at,
            bth_at,
            extensions_at,
            payload,
            payload_length: length,
            length: bytes.len(),
            tables: tables.get(extensions, padded),
            checksum,
            stamp: None,
        })
    }

    /// The same template for frames whose payload starts with a stamp of `length` bytes, at most
    /// [`LONGEST_STAMP`].
    ///
    /// # Errors
    /// [`FrameError::Stamp`] if the payload is shorter, or the stamp too long.
    pub fn stamped(mut self, length: usize, tables: &mut TableSet) -> Result<Self, FrameError> {
        if length > self.payload_length.min(LONGEST_STAMP) {
            return Err(FrameError::Stamp { stamp: length, payload: self.payload_length });
        }
        let padded = self.payload_length + usize::from(pad(self.payload_length));
        self.stamp = Some((length, tables.advance(padded - length)));
        Ok(self)
    }

    /// Where the base transport header of its frames starts: what stands from there to the ICRC is what UDP
    /// carries.
    #[must_use]
    pub const fn body_at(&self) -> usize {
        self.bth_at
    }

    /// The bytes of each frame.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Writes a frame into `into`, or as much of it as `into` is long; what follows the frame stays.
    ///
    /// # Errors
    /// [`FrameError`] if extension headers are not those of the opcode, or the payload is not as long as the
    /// template's.
    #[inline]
    pub fn write(&self, varying: &Varying<'_>, into: &mut [u8]) -> Result<(), FrameError> {
        let mut head = self.head;
        let extensions = self.extensions_at..self.head_length;
        let mut icrc = self.icrc;
        if let Some(changed) = varying.extensions {
            let (bytes, length) = changed.to_bytes(self.opcode)?;
            let mut difference = bytes;
            for (now, before) in difference.iter_mut().zip(&self.head[extensions.clone()]) {
                *now ^= before;
            }
            icrc ^= self.tables.extensions(&difference[..length]);
            head[extensions].copy_from_slice(&bytes[..length]);
        }
        head[self.bth_at + 9..self.bth_at + 12].copy_from_slice(&varying.psn.to_bytes());
        icrc ^= self.tables.psn(varying.psn.value());
        if varying.ack_request {
            head[self.bth_at + 8] |= 0x80;
            icrc ^= self.tables.ack_request();
        }
        if let Checksum::V4 { header } = self.checksum {
            let at = self.network_at;
            let checksum = !fold(header + u32::from(varying.identification));
            head[at + 4..at + 6].copy_from_slice(&varying.identification.to_be_bytes());
            head[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
            icrc ^= self.tables.identification(varying.identification);
        }
        match varying.content {
            Content::Template => {}
            Content::Stamp(stamp) => icrc ^= self.stamp_change(stamp)?,
            Content::Own(payload) if payload.len() == self.payload_length => {
                icrc = self.icrc_with(&head, payload);
            }
            Content::Own(payload) => return Err(FrameError::Payload(payload.len())),
        }
        if let Checksum::V6 { headers, payload } = self.checksum {
            let payload = match varying.content {
                Content::Template => payload,
                Content::Stamp(stamp) => payload - sum(self.front(stamp.len())) + sum(stamp),
                Content::Own(payload) => sum(payload),
            };
            let changing = sum(&head[self.bth_at + 8..self.head_length]) + sum(&icrc.to_le_bytes());
            let checksum = match !fold(headers + payload + changing) {
                0 => u16::MAX,
                checksum => checksum,
            };
            head[self.bth_at - 2..self.bth_at].copy_from_slice(&checksum.to_be_bytes());
        }
        let payload_end = self.head_length + self.payload_length;
        put(into, 0, &head[..self.head_length]);
        match varying.content {
            Content::Template => self.put_payload(into),
            Content::Stamp(stamp) => {
                self.put_payload(into);
                put(into, self.head_length, stamp);
            }
            Content::Own(payload) => put(into, self.head_length, payload),
        }
        let mut tail = [0; LONGEST_TAIL];
        let pad = usize::from(pad(self.payload_length));
        tail[pad..pad + icrc::LEN].copy_from_slice(&icrc.to_le_bytes());
        put(into, payload_end, &tail[..self.length - payload_end]);
        Ok(())
    }

    #[cold]
    fn icrc_with(&self, head: &[u8], payload: &[u8]) -> u32 {
        let pad = &[0; 3][..usize::from(pad(payload.len()))];
        icrc_of(&head[self.network_at..self.head_length], &[payload, pad])
            .expect("IP, UDP and BTH stand in front")
    }

    fn stamp_change(&self, stamp: &[u8]) -> Result<u32, FrameError> {
        let wrong = || FrameError::Stamp { stamp: stamp.len(), payload: self.payload_length };
        let (length, advance) = self.stamp.as_ref().ok_or_else(wrong)?;
        let mut difference = [0; LONGEST_STAMP];
        let difference =
            difference.get_mut(..stamp.len()).filter(|_| stamp.len() == *length).ok_or_else(wrong)?;
        for ((difference, now), before) in difference.iter_mut().zip(stamp).zip(self.front(*length)) {
            *difference = now ^ before;
        }
        Ok(advance.change(difference))
    }

    /// The first bytes of the template's payload.
    fn front(&self, length: usize) -> &'static [u8] {
        &self.payload.supply()[..length]
    }

    #[inline]
    fn put_payload(&self, into: &mut [u8]) {
        let Some(to) = into.get_mut(self.head_length..) else { return };
        let length = to.len().min(self.payload_length);
        let supply = self.payload.supply();
        // Copies of 2112 bytes and more are 20 times slower on Zen 3 with glibc 2.36 when the target lies 1
        // to 31 bytes behind the source modulo 4096. The pattern is the same a period later.
        let gap = to.as_ptr().addr().wrapping_sub(supply.as_ptr().addr()) % 4096;
        let start = if matches!(gap, 1..32) { 256 } else { 0 };
        to[..length].copy_from_slice(&supply[start..start + length]);
    }
}

impl Varying<'_> {
    /// A frame that differs only in its sequence number, and asks for nothing.
    #[must_use]
    pub const fn new(psn: Psn) -> Self {
        Self { psn, ack_request: false, identification: 0, extensions: None, content: Content::Template }
    }
}

/// Copies what fits.
#[inline]
fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = into.get_mut(at..) {
        let length = to.len().min(bytes.len());
        to[..length].copy_from_slice(&bytes[..length]);
    }
}

/// The sum of big-endian 16-bit words; an odd byte at the end counts as if a zero followed.
fn sum(bytes: &[u8]) -> u32 {
    let (words, odd) = bytes.as_chunks::<2>();
    let last = odd.first().map_or(0, |&byte| u32::from(byte) << 8);
    // 65535 words of 16 bits stay below 2^32, and no datagram has more.
    words.iter().fold(last, |sum, word| sum + u32::from(u16::from_be_bytes(*word)))
}

/// The sum with carries added back, 16 bits (RFC 1071).
fn fold(sum: u32) -> u16 {
    let once = (sum >> 16) + (sum & 0xffff);
    let [_, _, a, b] = ((once >> 16) + (once & 0xffff)).to_be_bytes();
    u16::from_be_bytes([a, b])
}

fn pseudo_header(source: Ipv6Addr, destination: Ipv6Addr, length: &[u8]) -> u32 {
    sum(&source.octets()) + sum(&destination.octets()) + sum(length) + UDP_PROTOCOL
}

const UDP: usize = 8;
const UDP_PROTOCOL: u32 = 17;

/// Ethernet, VLAN tag, IPv6, UDP, BTH, the longest extension headers.
const LONGEST_HEAD: usize = 14 + 4 + 40 + UDP + Bth::LEN + Extensions::MAX_LEN;

/// The longest stamp, in bytes.
pub const LONGEST_STAMP: usize = 64;

/// Pad, ICRC, and what fills an Ethernet frame up to 60 bytes.
const LONGEST_TAIL: usize = 3 + icrc::LEN + 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::{bytes, extensions, frames, nccl};
    use super::*;

    prop_compose! {
        /// A frame, and extension headers of another one of its opcode.
        fn pairs()(frame in frames())(
            other in extensions(frame.bth.opcode().unwrap()), frame in Just(frame),
        ) -> (Frame<'static>, Extensions) {
            (frame, other)
        }
    }

    fn with_identification(mut frame: Frame<'_>, to: u16) -> Frame<'_> {
        if let Ip::V4 { identification, .. } = &mut frame.network.ip {
            *identification = to;
        }
        frame
    }

    #[test]
    fn the_last_sequence_number_and_identification_are_right() {
        let frame = nccl(Opcode::WriteMiddle, 0, Extensions::default(), &[]);
        let template = Template::new(&frame, Payload::Pattern, 1024, &mut TableSet::default()).unwrap();
        let varying = Varying { ack_request: true, identification: 0xffff, ..Varying::new(Psn::LAST) };
        let mut fast = vec![0xaa; template.length()];
        template.write(&varying, &mut fast).unwrap();
        let payload = Payload::Pattern.bytes(0, 1024).unwrap();
        let mut plain = with_identification(Frame { payload, ..frame }, 0xffff);
        plain.bth.psn = Psn::LAST;
        plain.bth.ack_request = true;
        assert_eq!(fast, bytes(&plain));
        assert_eq!(fast.len(), 1082);
    }

    #[test]
    fn another_length_than_the_templates_is_refused() {
        let frame = nccl(Opcode::WriteMiddle, 0, Extensions::default(), &[]);
        let template = Template::new(&frame, Payload::Zero, 64, &mut TableSet::default()).unwrap();
        let mut into = [0; 200];
        let mut write = |template: &Template, content| {
            template.write(&Varying { content, ..Varying::new(Psn::ZERO) }, &mut into)
        };
        assert_eq!(write(&template, Content::Own(&[1; 63])), Err(FrameError::Payload(63)));
        let error = write(&template, Content::Stamp(&[1; 8])).unwrap_err();
        assert_eq!(error.to_string(), "a stamp of 8 bytes is not the template's, whose payload has 64");
        let stamped = template.stamped(64, &mut TableSet::default()).unwrap();
        assert_eq!(write(&stamped, Content::Stamp(&[1; 64])), Ok(()));
        assert!(write(&stamped, Content::Stamp(&[1; 63])).is_err());
        assert!(stamped.stamped(65, &mut TableSet::default()).is_err());
        let too_long = Template::new(&frame, Payload::Zero, 4097, &mut TableSet::default());
        assert!(matches!(too_long, Err(FrameError::Payload(4097))));
    }

    proptest! {
        #[test]
        fn the_template_writes_what_emit_writes(
            (frame, other) in pairs(), psn: u32, ack_request: bool, identification: u16, change: bool,
            payload in prop::sample::select(vec![Payload::Pattern, Payload::Zero]),
            length in prop_oneof![0..10_usize, 0..4097_usize], own: Option<u8>, cut in 0..200_usize,
            stamp in prop::collection::vec(any::<u8>(), 0..65),
        ) {
            let length = if frame.bth.opcode().unwrap().shape().payload { length } else { 0 };
            let own = own.map(|fill| vec![fill; length]);
            let mut tables = TableSet::default();
            let stamp = &stamp[..stamp.len().min(length)];
            let template = Template::new(&frame, payload, length, &mut tables)
                .and_then(|template| template.stamped(stamp.len(), &mut tables))
                .unwrap();
            let mut stamped = payload.bytes(0, length).unwrap().to_vec();
            stamped[..stamp.len()].copy_from_slice(stamp);
            let content = match &own {
                Some(own) => Content::Own(own),
                None if stamp.is_empty() => Content::Template,
                None => Content::Stamp(stamp),
            };
            let varying = Varying {
                psn: Psn::wrapping(psn),
                ack_request,
                identification,
                extensions: change.then_some(&other),
                content,
            };
            let mut plain = with_identification(frame, identification);
            plain.bth.psn = varying.psn;
            plain.bth.ack_request = ack_request;
            plain.payload = own.as_deref().unwrap_or(&stamped);
            if change {
                plain.extensions = other;
            }
            let plain = bytes(&plain);
            prop_assert_eq!(template.length(), plain.len());
            let mut fast = vec![0xaa; plain.len() + 7];
            template.write(&varying, &mut fast).unwrap();
            prop_assert_eq!(&fast[..plain.len()], &plain);
            prop_assert_eq!(&fast[plain.len()..], &[0xaa; 7]);
            let cut = cut.min(plain.len());
            let mut short = vec![0xaa; cut];
            template.write(&varying, &mut short).unwrap();
            prop_assert_eq!(short, &plain[..cut]);
        }
    }
}
