//! Checks of memory: addresses that a host can have, and one key for each place.

use super::check::Tally;
use super::flow::{Part, state_of};
use super::sight::{Look, Rule, Sight, family};
use crate::wire::opcode::Operation;
use crate::wire::{RemoteKey, Reth};

family! {
    "memory":
    Canonical,
    KeyConstant,
}

/// Addresses are those of a 64-bit host: 48 bits, the rest all 0 or (in the kernel) all 1, and the message ends
/// in them too.
#[derive(Default)]
struct Canonical;

impl Rule for Canonical {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "address_canonical"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, _)) = sight.roce() else { return };
        let Some(Reth { virtual_address: first, length, .. }) = frame.extensions.reth else { return };
        let last = first.wrapping_add(u64::from(length.max(1) - 1));
        let high = first >> 48;
        sight.expect(tally, (high == 0 || high == 0xffff) && last >> 48 == high, || {
            format!("{length} bytes at 0x{first:x}, which is no address of 48 bits")
        });
    }
}

/// A place in memory has one key. Not examined where SENDs say that memory is given out anew for each request,
/// as storage does.
#[derive(Default)]
struct KeyConstant(Vec<Regions>);

#[derive(Default)]
struct Regions {
    sends: bool,
    /// What was seen of each region: its key, first address and the one behind the last.
    seen: Vec<(RemoteKey, u64, u64)>,
}

impl Rule for KeyConstant {
    const LOOK: Look = Look::Outside;

    fn name(&self) -> &'static str {
        "key_constant"
    }

    fn frame(&mut self, sight: &Sight<'_>, tally: &mut Tally) {
        let Some((frame, placed)) = sight.roce() else { return };
        let Part::Request(opcode, _) = placed.part else { return };
        let Some(Reth { virtual_address: first, remote_key, length }) = frame.extensions.reth else {
            if opcode.shape().operation == Operation::Send {
                state_of(&mut self.0, placed.flow).sends = true;
            }
            return;
        };
        let regions = state_of(&mut self.0, placed.flow);
        if regions.sends || length == 0 {
            return;
        }
        let end = first.saturating_add(u64::from(length));
        let seen = &mut regions.seen;
        let other = seen.iter().find(|&&(key, from, to)| key != remote_key && from < end && first < to);
        let other = other.map(|&(key, ..)| key);
        sight.expect(tally, other.is_none(), || {
            let other = other.unwrap_or_default();
            format!("{length} bytes at 0x{first:x} with key {remote_key}; there the key was {other}")
        });
        if other.is_some() {
            return;
        }
        if let Some((_, from, to)) = seen.iter_mut().find(|(key, ..)| *key == remote_key) {
            (*from, *to) = ((*from).min(first), (*to).max(end));
        } else if seen.len() < MOST {
            seen.push((remote_key, first, end));
        }
    }
}

/// Regions of a queue pair that are remembered; NCCL has a handful.
const MOST: usize = 16;
