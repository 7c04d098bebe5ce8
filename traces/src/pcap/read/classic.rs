//! Records of pcap files.

use std::io::Read;

use super::Found;
use super::error::{PcapError, Start};
use super::order::{Order, size};
use super::window::Window;
use crate::pcap::{ETHERNET, HEADER, Interface, LONGEST, RECORD_HEADER};
use crate::unit::Nanos;

/// What the header of a pcap file says of its records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classic {
    order: Order,
    resolution: Resolution,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    Micros,
    Nanos,
}

impl Classic {
    /// Reads the header of a file.
    pub(super) fn open<R: Read>(window: &mut Window<R>) -> Result<(Self, Interface), PcapError> {
        let whole = window.fill(HEADER)?;
        let bytes = window.bytes();
        let Some(classic) = bytes.first_chunk().and_then(Self::of) else {
            return Err(PcapError::Magic { found: Start::of(bytes) });
        };
        if !whole {
            return Err(PcapError::Header(bytes.len()));
        }
        // The upper half may say how long the FCS is.
        let link = classic.order.word(bytes, LINK_TYPE_AT);
        let [high, low] = [link >> 16, link & 0xffff];
        if low != u32::from(ETHERNET) || high & 0x03ff != 0 {
            return Err(PcapError::LinkType { link_type: link, offset: 20 });
        }
        window.take(HEADER);
        Ok((classic, Interface { link_type: ETHERNET, ..Interface::default() }))
    }

    fn of(magic: &[u8; 4]) -> Option<Self> {
        let (order, magic) = match magic {
            [0xa1, ..] => (Order::Big, u32::from_be_bytes(*magic)),
            _ => (Order::Little, u32::from_le_bytes(*magic)),
        };
        let resolution = match magic {
            0xa1b2_c3d4 => Resolution::Micros,
            0xa1b2_3c4d => Resolution::Nanos,
            _ => return None,
        };
        Some(Self { order, resolution })
    }

    /// The next record.
    #[inline]
    pub(super) fn next<R: Read>(self, window: &mut Window<R>) -> Result<Option<Found>, PcapError> {
        if !window.fill(RECORD_HEADER)? {
            return match window.bytes().len() {
                0 => Ok(None),
                left => Err(truncated(window, "its header", 16, left)),
            };
        }
        let (number, offset) = (window.frames + 1, window.offset());
        let header = &window.bytes()[..RECORD_HEADER];
        let [seconds, fraction, captured, original] = [0, 4, 8, 12].map(|at| self.order.word(header, at));
        let length = size(captured);
        if captured > original || length > LONGEST {
            return Err(PcapError::Length { number, offset, captured, original });
        }
        if !window.fill(RECORD_HEADER + length)? {
            return Err(truncated(window, "the frame", captured, window.bytes().len() - RECORD_HEADER));
        }
        let (limit, scale, unit) = match self.resolution {
            Resolution::Micros => (1_000_000, 1_000, "us"),
            Resolution::Nanos => (1_000_000_000, 1, "ns"),
        };
        if fraction >= limit {
            return Err(PcapError::Time { number, offset, fraction, unit });
        }
        let time = Nanos(u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * scale);
        let start = window.take(RECORD_HEADER + length) + RECORD_HEADER;
        window.frames = number;
        let bytes = start..start + length;
        Ok(Some(Found {
            offset,
            time,
            original,
            interface: 0,
            options: bytes.end..bytes.end,
            bytes,
            order: self.order,
        }))
    }
}

fn truncated<R: Read>(window: &Window<R>, part: &'static str, needs: u32, left: usize) -> PcapError {
    PcapError::Truncated { number: window.frames + 1, offset: window.offset(), part, needs, left }
}

const LINK_TYPE_AT: usize = 20;
