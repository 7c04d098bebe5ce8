//! Single values of a plan: quantities, choices, ranges and networks, each refused with what would be right.

use std::net::IpAddr;
use std::str::FromStr;

use traces::unit::UnitError;

use super::Prefix;
use super::error::{Wrong, did_you_mean};

pub(super) fn prefix(text: &str) -> Result<Prefix, Wrong> {
    let refuse = |what: String| {
        wrong(&["cluster", "addresses"], what, "a network such as 198.18.0.0/15 or 2001:2::/48".to_owned())
    };
    let parsed = text.split_once('/').and_then(|(network, length)| {
        Some(Prefix { network: network.parse().ok()?, length: length.parse().ok()? })
    });
    let prefix = parsed.ok_or_else(|| refuse(format!("`{text}` is not a network")))?;
    let (bits, width) = match prefix.network {
        IpAddr::V4(network) => (u128::from(network.to_bits()) << 96, 32),
        IpAddr::V6(network) => (network.to_bits(), 128),
    };
    let host_part = bits.checked_shl(prefix.length.into()).unwrap_or(0);
    match prefix.length {
        length if length > width => Err(refuse(format!("/{length} is longer than an address"))),
        length if host_part != 0 => {
            Err(refuse(format!("{} is not the first address of a /{length}", prefix.network)))
        }
        _ => Ok(prefix),
    }
}

pub(super) fn quantity<T: FromStr<Err = UnitError>>(
    keys: &[&'static str],
    text: Option<&str>,
    default: &str,
) -> Result<T, Wrong> {
    text.unwrap_or(default).parse().map_err(|error: UnitError| Wrong {
        keys: keys.to_vec(),
        entry: None,
        what: format!("{}: {error}", keys.join(".")),
        help: None,
    })
}

/// The place of a value among those that are known; the first is the default.
pub(super) fn choice(keys: &[&'static str], text: Option<&str>, known: &[&str]) -> Result<usize, Wrong> {
    let text = text.unwrap_or(known[0]);
    known.iter().position(|known| *known == text).ok_or_else(|| {
        let what = format!("{} `{text}` is not available in this version", keys.join("."));
        wrong(keys, what, did_you_mean(text, known.iter().copied()))
    })
}

pub(super) fn positive(keys: &[&'static str], value: u64) -> Result<(), Wrong> {
    within(keys, value, u64::MAX)
}

pub(super) fn within(keys: &[&'static str], value: u64, most: u64) -> Result<(), Wrong> {
    between(keys, value, 1, most)
}

pub(super) fn between(keys: &[&'static str], value: u64, least: u64, most: u64) -> Result<(), Wrong> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let help =
        if most == u64::MAX { format!("at least {least}") } else { format!("between {least} and {most}") };
    Err(wrong(keys, format!("{} is out of range", keys.join(".")), help))
}

pub(super) fn wrong(keys: &[&'static str], what: String, help: String) -> Wrong {
    Wrong { keys: keys.to_vec(), entry: None, what, help: Some(help) }
}
