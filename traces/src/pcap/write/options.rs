//! Blocks of pcapng files with their options, little-endian.

use std::io;

use super::invalid;

/// A block in the making.
pub(super) struct Block(Vec<u8>);

impl Block {
    /// A block of this type.
    pub(super) fn new(code: u32) -> Self {
        let mut bytes = code.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        Self(bytes)
    }

    /// The same with these bytes behind it.
    pub(super) fn with(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// The same with an option, or a record of a name resolution block, behind it.
    pub(super) fn option(mut self, code: u16, value: &[u8]) -> io::Result<Self> {
        let length = u16::try_from(value.len())
            .map_err(|_| invalid(format!("an option of {} bytes; at most 65535 can be", value.len())))?;
        self.0.extend(code.to_le_bytes());
        self.0.extend(length.to_le_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        Ok(self)
    }

    /// The same with an option if there is a text.
    pub(super) fn text(self, code: u16, text: Option<&str>) -> io::Result<Self> {
        match text {
            Some(text) => self.option(code, text.as_bytes()),
            None => Ok(self),
        }
    }

    /// The bytes of the block, its length at both ends.
    pub(super) fn bytes(mut self) -> io::Result<Vec<u8>> {
        let length = u32::try_from(self.0.len() + 4).map_err(io::Error::other)?.to_le_bytes();
        self.0[4..8].copy_from_slice(&length);
        self.0.extend(length);
        Ok(self.0)
    }
}
