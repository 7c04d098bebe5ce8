//! What a rule sees of a frame, and what a rule is.

use super::Vantage;
use super::check::{Check, Tally};
use super::flow::Placed;
use super::repeat::{Repeats, Seen};
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
    /// What is known of the capture's port.
    pub(super) vantage: &'a Vantage,
    /// What was captured of it.
    pub(super) bytes: &'a [u8],
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

/// Which frames a rule looks at. It matters for plain ones alone, see [`super::repeat`]: those in the middle of a message that
/// follow the one before and ask nothing. Every other frame is shown to all rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// All.
    Every,
    /// All, but at nothing that differs in frames of one flow whose headers are equal: not at sequence number, identification,
    /// IPv4 checksum, time, payload or ICRC, and at no state that a frame of another kind changes.
    Constant,
    /// Not the plain ones.
    Outside,
}

/// What rules know of the captures when all frames were seen.
pub(super) struct Captures {
    /// Their names.
    pub(super) names: Vec<String>,
    /// Whether they were not read to their end: what would have come is not known.
    pub(super) cut: bool,
}

impl Captures {
    /// The name of one.
    pub(super) fn get(&self, file: usize) -> Option<&String> {
        self.names.get(file)
    }
}

/// One check.
pub(super) trait Rule: Default {
    /// Which frames it looks at.
    const LOOK: Look = Look::Every;

    /// Its name, in results.
    fn name(&self) -> &'static str;

    /// Looks at a frame.
    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally);

    /// Looks back when all frames were seen; `names` are those of the captures.
    fn finish(&mut self, _names: &Captures, _tally: &mut Tally) {}
}

/// Rules of one kind, called one after the other.
pub(super) trait Family: Default {
    /// Shows a frame to those that look at all.
    fn every(&mut self, sight: &Sight<'_>);

    /// Shows it to those that look at what is constant.
    fn constant(&mut self, sight: &Sight<'_>, seen: &mut Seen);

    /// Shows it to those that look at no plain frame.
    fn outside(&mut self, sight: &Sight<'_>);

    /// Lets each look back, and gives the results. `constant` counts the rules that look at what is constant.
    fn finish(self, names: &Captures, repeats: &Repeats, constant: &mut u32, checks: &mut Vec<Check>);
}

/// Makes the `Rules` of a module: a family by its name, and what belongs to it in the order of results. Each rule is called
/// directly, not through a table of functions, and those of one [`Look`] together, so that which rules a frame is shown to is
/// asked once a frame and not once a rule.
macro_rules! family {
    ($family:literal: $($rule:ident),* $(,)?) => {
        #[derive(Default)]
        #[expect(non_snake_case, reason = "a field is named as the rule that it holds")]
        pub(super) struct Rules {
            $($rule: ($rule, Tally),)*
        }

        impl super::sight::Family for Rules {
            #[inline]
            fn every(&mut self, sight: &Sight<'_>) {
                $(if <$rule as Rule>::LOOK == super::sight::Look::Every {
                    self.$rule.0.frame(sight, &mut self.$rule.1);
                })*
            }

            #[inline]
            fn constant(&mut self, sight: &Sight<'_>, seen: &mut super::repeat::Seen) {
                $(if <$rule as Rule>::LOOK == super::sight::Look::Constant {
                    let (rule, tally) = &mut self.$rule;
                    let before = tally.counts();
                    rule.frame(sight, tally);
                    seen.add(before, tally.counts());
                })*
            }

            #[inline]
            fn outside(&mut self, sight: &Sight<'_>) {
                $(if <$rule as Rule>::LOOK == super::sight::Look::Outside {
                    self.$rule.0.frame(sight, &mut self.$rule.1);
                })*
            }

            fn finish(
                self,
                names: &super::sight::Captures,
                repeats: &super::repeat::Repeats,
                constant: &mut u32,
                checks: &mut Vec<super::check::Check>,
            ) {
                $({
                    let (mut rule, mut tally) = self.$rule;
                    if <$rule as Rule>::LOOK == super::sight::Look::Constant {
                        tally.examine_many(repeats.of(*constant));
                        *constant += 1;
                    }
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
