//! The ICRC of a frame from that of another that differs in a few bytes, without reading the payload again.
//!
//! CRC-32 is affine over GF(2): `crc(a ^ d) = crc(a) ^ L(d)` for equal lengths, and L of a single byte
//! depends only on the byte and on how many bytes follow it. So 256 words per place answer every change
//! there, and all frames with as many bytes behind BTH share one set, whatever their addresses, queue pairs
//! and payload.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::super::bth::Bth;
use super::{IPV4, UDP};

/// What a change of one byte, by exclusive or, does to the CRC, for one distance from the end of the covered
/// bytes.
#[derive(Clone)]
pub struct Place([u32; 256]);

/// The tables of a frame for the fields that change from frame to frame.
///
/// BTH and what follows stand at fixed distances from the end, so they serve both versions of IP; the
/// identification is IPv4's.
#[derive(Clone)]
pub struct Tables {
    identification: [Place; 2],
    psn: [Place; 3],
    ack_request: u32,
    extensions: Vec<Place>,
}

/// The tables of all lengths that were asked for, each made once.
#[derive(Clone, Debug, Default)]
pub struct TableSet(BTreeMap<(usize, usize), Arc<Tables>>);

impl Place {
    /// The table of a byte that `following` covered bytes follow.
    #[must_use]
    pub fn new(following: usize) -> Self {
        let zeros = [0_u8; 256];
        let basis: [u32; 8] = std::array::from_fn(|bit| {
            // A register of zeros, as the hasher names it: it complements on the way in and out.
            let mut crc = crc32fast::Hasher::new_with_initial(u32::MAX);
            crc.update(&[1 << bit]);
            let mut left = following;
            while left > 0 {
                let some = left.min(zeros.len());
                crc.update(&zeros[..some]);
                left -= some;
            }
            !crc.finalize()
        });
        let mut table = [0_u32; 256];
        for index in 1..table.len() {
            // All but the lowest bit are there already.
            table[index] =
                table[index & (index - 1)] ^ basis[usize::try_from(index.trailing_zeros()).unwrap_or(0)];
        }
        Self(table)
    }

    /// What exclusive or with `difference` at this place adds to the CRC, by exclusive or.
    #[inline]
    #[must_use]
    pub fn change(&self, difference: u8) -> u32 {
        self.0[usize::from(difference)]
    }
}

impl Tables {
    /// The tables for frames with `extensions` bytes of extension headers and then `payload` bytes of payload
    /// and pad.
    #[must_use]
    pub fn new(extensions: usize, payload: usize) -> Self {
        let behind = extensions + payload;
        // From the end: what is behind, BTH, UDP, and IPv4 from its byte 6 on.
        let identification_low = behind + Bth::LEN + UDP + IPV4 - 6;
        Self {
            identification: [Place::new(identification_low + 1), Place::new(identification_low)],
            psn: [Place::new(behind + 2), Place::new(behind + 1), Place::new(behind)],
            ack_request: Place::new(behind + 3).change(0x80),
            extensions: (payload..behind).rev().map(Place::new).collect(),
        }
    }

    /// The change for sequence numbers that differ by exclusive or in `difference`, of 24 bits.
    #[inline]
    #[must_use]
    pub fn psn(&self, difference: u32) -> u32 {
        let [_, high, middle, low] = difference.to_be_bytes();
        self.psn[0].change(high) ^ self.psn[1].change(middle) ^ self.psn[2].change(low)
    }

    /// The change for IPv4 identifications that differ by exclusive or in `difference`.
    #[inline]
    #[must_use]
    pub fn identification(&self, difference: u16) -> u32 {
        let [high, low] = difference.to_be_bytes();
        self.identification[0].change(high) ^ self.identification[1].change(low)
    }

    /// The change for extension headers that were `before` and are `after`.
    #[inline]
    #[must_use]
    pub fn extensions(&self, before: &[u8], after: &[u8]) -> u32 {
        let changes = self.extensions.iter().zip(before.iter().zip(after));
        changes.fold(0, |all, (place, (before, after))| all ^ place.change(before ^ after))
    }

    /// The change for AckReq turned over.
    #[inline]
    #[must_use]
    pub const fn ack_request(&self) -> u32 {
        self.ack_request
    }
}

impl TableSet {
    /// The tables of frames with so many bytes of extension headers, and of payload and pad.
    pub fn get(&mut self, extensions: usize, payload: usize) -> Arc<Tables> {
        let tables =
            self.0.entry((extensions, payload)).or_insert_with(|| Arc::new(Tables::new(extensions, payload)));
        Arc::clone(tables)
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("extensions", &self.extensions.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::icrc;
    use super::*;

    proptest! {
        #[test]
        fn a_changed_byte_changes_the_crc_as_the_table_says(
            mut bytes in proptest::collection::vec(any::<u8>(), 1..600), at: prop::sample::Index, difference: u8,
        ) {
            let at = at.index(bytes.len());
            let before = crc32fast::hash(&bytes);
            bytes[at] ^= difference;
            let place = Place::new(bytes.len() - at - 1);
            prop_assert_eq!(crc32fast::hash(&bytes), before ^ place.change(difference));
        }

        #[test]
        fn fields_change_the_icrc_as_the_tables_say(
            mut bytes in proptest::collection::vec(any::<u8>(), 40..400), psn: u32, identification: u16,
            extensions in prop::collection::vec(any::<u8>(), 0..28),
        ) {
            bytes[0] = 0x45;
            let length = extensions.len().min(bytes.len() - 40);
            let before = icrc(&bytes).unwrap();
            let tables = Tables::new(length, bytes.len() - 40 - length);
            let change = tables.extensions(&bytes[40..40 + length], &extensions);
            bytes[40..40 + length].copy_from_slice(&extensions[..length]);
            let psn = psn & 0x00ff_ffff;
            for (byte, change) in bytes[36..40].iter_mut().zip(psn.to_be_bytes()) {
                *byte ^= change;
            }
            for (byte, change) in bytes[4..6].iter_mut().zip(identification.to_be_bytes()) {
                *byte ^= change;
            }
            bytes[36] ^= 0x80;
            prop_assert_eq!(
                icrc(&bytes).unwrap(),
                before ^ change ^ tables.psn(psn) ^ tables.identification(identification) ^ tables.ack_request()
            );
        }
    }
}
