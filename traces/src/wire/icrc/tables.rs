//! The ICRC of a frame from that of another that differs in a few bytes, without reading the payload again.
//!
//! CRC-32 is affine over GF(2): `crc(a ^ d) = crc(a) ^ L(d)` for equal lengths. L of a single byte depends
//! only on the byte and on how many bytes follow it, so 256 words per place answer every change there
//! ([`Place`]); L of a few bytes is their CRC from a register of zeros, moved over what follows by a linear
//! map of 32 bits ([`Advance`]). All frames with as many bytes behind BTH share one set, whatever their
//! addresses, queue pairs and payload.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::super::bth::Bth;
use super::{IPV4, UDP};

/// What a change of one byte, by exclusive or, does to the CRC, for one distance from the end of the covered
/// bytes.
#[derive(Clone)]
pub struct Place([u32; 256]);

/// What a change of several bytes does to the CRC, by the number of covered bytes that follow them.
#[derive(Clone)]
pub struct Advance([[u32; 256]; 4]);

/// The tables of a frame for the fields that change from frame to frame.
///
/// BTH and what follows stand at fixed distances from the end, so they serve both versions of IP; the
/// identification is IPv4's.
#[derive(Clone)]
pub struct Tables {
    identification: [Place; 2],
    psn: [Place; 3],
    ack_request: u32,
    extensions: Arc<Advance>,
}

/// The tables of all lengths that were asked for, each made once.
#[derive(Clone, Debug, Default)]
pub struct TableSet {
    tables: BTreeMap<(usize, usize), Arc<Tables>>,
    advances: BTreeMap<usize, Arc<Advance>>,
}

impl Place {
    /// The table of a byte that `following` covered bytes follow.
    #[must_use]
    pub fn new(following: usize) -> Self {
        Self(linear(|byte| shifted(change_of(&[byte]), following)))
    }

    /// What exclusive or with `difference` at this place adds to the CRC, by exclusive or.
    #[inline]
    #[must_use]
    pub fn change(&self, difference: u8) -> u32 {
        self.0[usize::from(difference)]
    }
}

impl Advance {
    /// The map for bytes that `following` covered bytes follow.
    #[must_use]
    pub fn new(following: usize) -> Self {
        Self([0, 8, 16, 24].map(|place| linear(|byte| shifted(u32::from(byte) << place, following))))
    }

    /// What exclusive or with `difference` in front of the following bytes adds to the CRC, by exclusive or.
    #[inline]
    #[must_use]
    pub fn change(&self, difference: &[u8]) -> u32 {
        let [a, b, c, d] = change_of(difference).to_le_bytes().map(usize::from);
        self.0[0][a] ^ self.0[1][b] ^ self.0[2][c] ^ self.0[3][d]
    }
}

impl Tables {
    fn new(extensions: usize, payload: usize, advance: Arc<Advance>) -> Self {
        let behind = extensions + payload;
        // From the end: what is behind, BTH, UDP, and IPv4 from its byte 6 on.
        let identification_low = behind + Bth::LEN + UDP + IPV4 - 6;
        Self {
            identification: [Place::new(identification_low + 1), Place::new(identification_low)],
            psn: [Place::new(behind + 2), Place::new(behind + 1), Place::new(behind)],
            ack_request: Place::new(behind + 3).change(0x80),
            extensions: advance,
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

    /// The change for extension headers that differ by exclusive or in `difference`: all their bytes.
    #[inline]
    #[must_use]
    pub fn extensions(&self, difference: &[u8]) -> u32 {
        self.extensions.change(difference)
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
        let advance = self.advance(payload);
        let made = || Arc::new(Tables::new(extensions, payload, advance));
        Arc::clone(self.tables.entry((extensions, payload)).or_insert_with(made))
    }

    /// The map for bytes that so many covered bytes follow.
    pub fn advance(&mut self, following: usize) -> Arc<Advance> {
        Arc::clone(self.advances.entry(following).or_insert_with(|| Arc::new(Advance::new(following))))
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

impl fmt::Debug for Advance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Advance").finish_non_exhaustive()
    }
}

/// The table of a linear function of a byte, from its values at the eight bits.
fn linear(function: impl Fn(u8) -> u32) -> [u32; 256] {
    let mut table = [0_u32; 256];
    for bit in 0..8 {
        let (known, value) = (1_usize << bit, function(1 << bit));
        for index in 0..known {
            table[known + index] = table[index] ^ value;
        }
    }
    table
}

/// The register of a CRC that starts with zeros instead of ones, behind `bytes`: what they change.
fn change_of(bytes: &[u8]) -> u32 {
    // The hasher names registers by their complement.
    let mut crc = crc32fast::Hasher::new_with_initial(u32::MAX);
    crc.update(bytes);
    !crc.finalize()
}

/// The register of a CRC behind `following` zero bytes more.
fn shifted(register: u32, following: usize) -> u32 {
    let zeros = [0_u8; 256];
    let mut crc = crc32fast::Hasher::new_with_initial(!register);
    for _ in 0..following / zeros.len() {
        crc.update(&zeros);
    }
    crc.update(&zeros[..following % zeros.len()]);
    !crc.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::icrc;
    use super::*;

    /// Exclusive or from `at` on.
    fn change(bytes: &mut [u8], at: usize, difference: &[u8]) {
        for (byte, difference) in bytes[at..].iter_mut().zip(difference) {
            *byte ^= difference;
        }
    }

    proptest! {
        #[test]
        fn changed_bytes_change_the_crc_as_the_tables_say(
            mut bytes in prop::collection::vec(any::<u8>(), 1..600), at: prop::sample::Index,
            difference in prop::collection::vec(any::<u8>(), 1..40),
        ) {
            let at = at.index(bytes.len());
            let difference = &difference[..difference.len().min(bytes.len() - at)];
            let before = crc32fast::hash(&bytes);
            let following = bytes.len() - at - difference.len();
            change(&mut bytes, at, difference);
            prop_assert_eq!(crc32fast::hash(&bytes), before ^ Advance::new(following).change(difference));
            change(&mut bytes, at, difference);
            change(&mut bytes, at, &difference[..1]);
            let place = Place::new(bytes.len() - at - 1);
            prop_assert_eq!(crc32fast::hash(&bytes), before ^ place.change(difference[0]));
        }

        #[test]
        fn fields_change_the_icrc_as_the_tables_say(
            mut bytes in prop::collection::vec(any::<u8>(), 40..400), psn: u32, identification: u16,
            extensions in prop::collection::vec(any::<u8>(), 0..28),
        ) {
            bytes[0] = 0x45;
            let before = icrc(&bytes).unwrap();
            let extensions = &extensions[..extensions.len().min(bytes.len() - 40)];
            let tables = TableSet::default().get(extensions.len(), bytes.len() - 40 - extensions.len());
            let psn = psn & 0x00ff_ffff;
            change(&mut bytes, 4, &identification.to_be_bytes());
            change(&mut bytes, 36, &(psn | 0x8000_0000).to_be_bytes());
            change(&mut bytes, 40, extensions);
            let changes = tables.psn(psn)
                ^ tables.identification(identification)
                ^ tables.extensions(extensions)
                ^ tables.ack_request();
            prop_assert_eq!(icrc(&bytes).unwrap(), before ^ changes);
        }
    }
}
