//! A value that is too great for its field on the wire.

use thiserror::Error;

/// A value that is too great for its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{field} {value} does not fit; the greatest is {greatest}")]
pub struct FieldError {
    /// The field.
    pub field: &'static str,
    /// What was to be written.
    pub value: u64,
    /// What the field can hold.
    pub greatest: u64,
}

impl FieldError {
    pub(super) fn new(field: &'static str, value: impl Into<u64>, greatest: impl Into<u64>) -> Self {
        Self { field, value: value.into(), greatest: greatest.into() }
    }
}
