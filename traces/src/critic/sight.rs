//! What a rule sees of a frame, and what a rule is.

use super::check::Tally;
use super::flow::Placed;
use crate::unit::{BitRate, Nanos};
use crate::wire::{Mac, NotRoce, ParseError, ParsedFrame};

/// A frame in its capture.
pub(super) struct Sight<'a> {
    /// The capture's index.
    pub(super) file: usize,
    /// The capture's name.
    pub(super) name: &'a str,
    /// The frame's number in it, from 1.
    pub(super) number: u64,
    /// When it was seen.
    pub(super) time: Nanos,
    /// Its bytes on the wire, without FCS.
    pub(super) length: u32,
    /// The line rate of the capture's port, if known.
    pub(super) rate: Option<BitRate>,
    /// Who sent it on this link.
    pub(super) source: Mac,
    /// Whether the capture's port sent it (or received it), if known.
    pub(super) sent: Option<bool>,
    /// What it is.
    pub(super) content: Content<'a>,
}

/// What a frame is.
#[expect(clippy::large_enum_variant, reason = "one of them at a time, on the stack")]
pub(super) enum Content<'a> {
    /// RoCEv2, and where it belongs.
    Roce(ParsedFrame<'a>, Placed),
    /// Something else.
    Other(NotRoce),
    /// Bytes that cannot be taken apart.
    Broken(ParseError),
}

/// One check.
pub(super) trait Rule {
    /// Its name, in results.
    fn name(&self) -> &'static str;

    /// Looks at a frame.
    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally);

    /// Looks back when all frames were seen; `names` are those of the captures.
    fn finish(&mut self, _names: &[String], _tally: &mut Tally) {}
}

impl<'a> Sight<'a> {
    /// The frame and its place, if it is RoCEv2.
    pub(super) fn roce(&self) -> Option<(&ParsedFrame<'a>, &Placed)> {
        match &self.content {
            Content::Roce(frame, placed) => Some((frame, placed)),
            Content::Other(_) | Content::Broken(_) => None,
        }
    }

    /// Counts it as examined, and as a violation if `wrong` says what.
    pub(super) fn judge(&self, tally: &mut Tally, wrong: Option<String>) {
        tally.examine();
        if let Some(what) = wrong {
            tally.violate(self.name, self.number, || what);
        }
    }
}
