//! What a rule sees of a frame, and what a rule is.

use super::check::{Check, Tally};
use super::flow::Placed;
use crate::unit::{BitRate, Nanos};
use crate::wire::{Mac, NotRoce, ParseError, ParsedFrame};

/// A frame in its capture.
pub(super) struct Sight<'a> {
    /// The file's index, which stands for its name in [`Rule::finish`].
    pub(super) file: usize,
    /// The port that the file shows, from 0: what a rule remembers, it remembers by port (or by flow, or by
    /// host). Several files may show one port, one after the other.
    pub(super) port: usize,
    /// The file's name.
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
pub(super) enum Content<'a> {
    /// RoCEv2, and where it belongs.
    Roce(&'a ParsedFrame<'a>, Placed),
    /// Something else.
    Other(NotRoce),
    /// Bytes that cannot be taken apart.
    Broken(ParseError),
}

/// One check.
pub(super) trait Rule: Default {
    /// Its name, in results.
    fn name(&self) -> &'static str;

    /// Looks at a frame.
    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally);

    /// Looks back when all frames were seen; `names` are those of the captures.
    fn finish(&mut self, _names: &[String], _tally: &mut Tally) {}
}

/// Rules of one kind, called one after the other.
pub(super) trait Family: Default {
    /// Shows a frame to each.
    fn frame(&mut self, sight: &Sight<'_>);

    /// Lets each look back, and gives the results.
    fn finish(self, names: &[String], checks: &mut Vec<Check>);
}

/// Makes the `Rules` of a module: a family by its name, and what belongs to it in the order of results. Each rule is called
/// directly, not through a table of functions, so that the compiler sees all of them together: what they ask
/// of a frame is asked once, and a rule that has nothing to say costs nothing.
macro_rules! family {
    ($family:literal: $($rule:ident),* $(,)?) => {
        #[derive(Default)]
        #[expect(non_snake_case, reason = "a field is named as the rule that it holds")]
        pub(super) struct Rules {
            $($rule: ($rule, Tally),)*
        }

        impl super::sight::Family for Rules {
            #[inline]
            fn frame(&mut self, sight: &Sight<'_>) {
                $(self.$rule.0.frame(sight, &mut self.$rule.1);)*
            }

            fn finish(self, names: &[String], checks: &mut Vec<super::check::Check>) {
                $({
                    let (mut rule, mut tally) = self.$rule;
                    rule.finish(names, &mut tally);
                    checks.push(tally.check($family, rule.name()));
                })*
            }
        }
    };
}
pub(super) use family;

impl<'a> Sight<'a> {
    /// The frame and its place, if it is RoCEv2.
    #[inline]
    pub(super) fn roce(&self) -> Option<(&ParsedFrame<'a>, &Placed)> {
        match &self.content {
            Content::Roce(frame, placed) => Some((*frame, placed)),
            Content::Other(_) | Content::Broken(_) => None,
        }
    }

    /// Counts it as examined, and as a violation if it is not `right`: `what` is asked only then, and only
    /// for the first examples.
    #[inline]
    pub(super) fn expect(&self, tally: &mut Tally, right: bool, what: impl FnOnce() -> String) {
        tally.examine();
        if !right {
            tally.violate(self.name, self.number, what);
        }
    }

    /// Counts it as examined, and as a violation if `wrong` says what.
    #[inline]
    pub(super) fn judge(&self, tally: &mut Tally, wrong: Option<String>) {
        tally.examine();
        if let Some(what) = wrong {
            tally.violate(self.name, self.number, || what);
        }
    }
}
