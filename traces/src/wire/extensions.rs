//! The headers between the base transport header and the payload, as the opcode's shape orders them.

use thiserror::Error;

use super::aeth::Aeth;
use super::atomic::{AtomicAckEth, AtomicEth};
use super::datagram::Deth;
use super::immediate::Immediate;
use super::opcode::{Opcode, Shape};
use super::reth::{RemoteKey, Reth};

/// The extension headers of one frame: those that its opcode has are `Some`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extensions {
    /// Who sends a datagram.
    pub deth: Option<Deth>,
    /// Which memory.
    pub reth: Option<Reth>,
    /// What to do atomically.
    pub atomic: Option<AtomicEth>,
    /// What is acknowledged.
    pub aeth: Option<Aeth>,
    /// What an atomic operation found.
    pub atomic_ack: Option<AtomicAckEth>,
    /// Immediate data.
    pub immediate: Option<Immediate>,
    /// A key of the receiver that ends with this message.
    pub invalidate: Option<RemoteKey>,
}

/// The headers given are not those of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{opcode} {} header {header}", if *.given { "has no" } else { "needs the" })]
pub struct ExtensionsError {
    /// The opcode.
    pub opcode: Opcode,
    /// The header that is too many or missing.
    pub header: &'static str,
    /// Whether it was given.
    pub given: bool,
}

impl Extensions {
    /// The longest that an opcode has: an atomic request's.
    pub const MAX_LEN: usize = AtomicEth::LEN;

    /// Reads the headers of `shape` from the front of `bytes`, and gives the rest; `None` if they do not fit.
    #[must_use]
    #[inline]
    pub fn parse<'a>(shape: &Shape, bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut rest = bytes;
        let mut extensions = Self::default();
        // Most frames are in the middle of a message and have none.
        if shape.extension_length() == 0 {
            return Some((extensions, rest));
        }
        if shape.deth {
            extensions.deth = Some(Deth::parse(take(&mut rest)?));
        }
        if shape.reth {
            extensions.reth = Some(Reth::parse(take(&mut rest)?));
        }
        if shape.atomic {
            extensions.atomic = Some(AtomicEth::parse(take(&mut rest)?));
        }
        if shape.aeth {
            extensions.aeth = Some(Aeth::parse(take(&mut rest)?));
        }
        if shape.atomic_ack {
            extensions.atomic_ack = Some(AtomicAckEth::parse(take(&mut rest)?));
        }
        if shape.immediate {
            extensions.immediate = Some(Immediate(*take(&mut rest)?));
        }
        if shape.invalidate {
            extensions.invalidate = Some(RemoteKey(u32::from_be_bytes(*take(&mut rest)?)));
        }
        Some((extensions, rest))
    }

    /// Appends the headers in their order.
    ///
    /// # Errors
    /// [`ExtensionsError`] if they are not exactly those of the opcode.
    pub fn emit(&self, opcode: Opcode, into: &mut Vec<u8>) -> Result<(), ExtensionsError> {
        let (bytes, length) = self.to_bytes(opcode)?;
        into.extend(&bytes[..length]);
        Ok(())
    }

    /// The headers in their order, and how many of the bytes they are.
    ///
    /// # Errors
    /// [`ExtensionsError`] if they are not exactly those of the opcode.
    pub fn to_bytes(&self, opcode: Opcode) -> Result<([u8; Self::MAX_LEN], usize), ExtensionsError> {
        self.check(opcode)?;
        let mut bytes = [0; Self::MAX_LEN];
        let mut length = 0;
        // What an opcode has fits: `MAX_LEN` is the most of the table.
        let mut put = |header: &[u8]| {
            bytes[length..length + header.len()].copy_from_slice(header);
            length += header.len();
        };
        if let Some(deth) = self.deth {
            put(&deth.to_bytes());
        }
        if let Some(reth) = self.reth {
            put(&reth.to_bytes());
        }
        if let Some(atomic) = self.atomic {
            put(&atomic.to_bytes());
        }
        if let Some(aeth) = self.aeth {
            put(&aeth.to_bytes());
        }
        if let Some(atomic_ack) = self.atomic_ack {
            put(&atomic_ack.to_bytes());
        }
        if let Some(immediate) = self.immediate {
            put(&immediate.0);
        }
        if let Some(key) = self.invalidate {
            put(&key.0.to_be_bytes());
        }
        Ok((bytes, length))
    }

    fn check(&self, opcode: Opcode) -> Result<(), ExtensionsError> {
        let shape = opcode.shape();
        [
            ("DETH", shape.deth, self.deth.is_some()),
            ("RETH", shape.reth, self.reth.is_some()),
            ("AtomicETH", shape.atomic, self.atomic.is_some()),
            ("AETH", shape.aeth, self.aeth.is_some()),
            ("AtomicAckETH", shape.atomic_ack, self.atomic_ack.is_some()),
            ("ImmDt", shape.immediate, self.immediate.is_some()),
            ("IETH", shape.invalidate, self.invalidate.is_some()),
        ]
        .into_iter()
        .find(|(_, needed, given)| needed != given)
        .map_or(Ok(()), |(header, _, given)| Err(ExtensionsError { opcode, header, given }))
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_write_only_with_immediate_has_the_address_first() {
        let extensions = Extensions {
            reth: Some(Reth { virtual_address: 1, remote_key: RemoteKey(2), length: 3 }),
            immediate: Some(Immediate::from_u32(4)),
            ..Extensions::default()
        };
        let mut bytes = Vec::new();
        extensions.emit(Opcode::WriteOnlyImmediate, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]);
    }

    #[test]
    fn a_header_too_many_or_too_few_is_named() {
        let none = Extensions::default();
        let error = none.emit(Opcode::Acknowledge, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "RC Acknowledge needs the header AETH");
        let immediate = Extensions { immediate: Some(Immediate::default()), ..none };
        let error = immediate.emit(Opcode::SendOnly, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "RC SEND Only has no header ImmDt");
    }

    proptest! {
        #[test]
        fn any_bytes_come_back_for_every_opcode(bytes: [u8; Extensions::MAX_LEN]) {
            for &opcode in Opcode::ALL {
                let shape = opcode.shape();
                let (extensions, rest) = Extensions::parse(&shape, &bytes).unwrap();
                let mut emitted = Vec::new();
                extensions.emit(opcode, &mut emitted).unwrap();
                prop_assert_eq!(emitted.len(), shape.extension_length());
                prop_assert_eq!([&emitted[..], rest].concat(), &bytes[..]);
            }
        }

        #[test]
        fn too_few_bytes_are_refused(length in 0..Extensions::MAX_LEN) {
            for &opcode in Opcode::ALL {
                let shape = opcode.shape();
                prop_assert_eq!(
                    Extensions::parse(&shape, &[0; Extensions::MAX_LEN][..length]).is_some(),
                    shape.extension_length() <= length
                );
            }
        }
    }
}
