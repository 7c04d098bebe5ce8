//! Why a plan is refused: what, where in the file, and what would be right.

use std::ops::Range;

use miette::{Diagnostic, NamedSource, SourceSpan};
use thiserror::Error;
use toml::de::DeTable;

/// A plan that is refused, with its place in the file.
#[derive(Debug, Error, Diagnostic)]
#[error("{source_name}:{line}: {what}")]
pub struct PlanError {
    /// The file's name.
    source_name: String,
    /// The line, from one.
    line: usize,
    /// What is wrong.
    what: String,
    #[source_code]
    text: NamedSource<String>,
    #[label("{label}")]
    span: SourceSpan,
    label: String,
    #[help]
    help: Option<String>,
}

/// What is wrong, before its place is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// The keys from the root to the value: the most specific that is written is shown.
    pub(super) keys: Vec<&'static str>,
    /// The place in the array of tables that the keys pass through, if they pass through one.
    pub(super) entry: Option<usize>,
    pub(super) what: String,
    pub(super) help: Option<String>,
}

impl Wrong {
    /// What is wrong with one table of an array.
    pub(super) fn of_entry(self, entry: usize) -> Self {
        Self { entry: Some(entry), ..self }
    }
}

impl PlanError {
    /// The line of the file, from one.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.line
    }

    fn at(
        source_name: &str,
        text: &str,
        span: Range<usize>,
        what: String,
        help: Option<String>,
    ) -> Box<Self> {
        let start = span.start.min(text.len());
        let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
        Box::new(Self {
            source_name: source_name.to_owned(),
            line,
            label: "here".to_owned(),
            what,
            text: NamedSource::new(source_name, text.to_owned()),
            span: (start, span.end.min(text.len()).saturating_sub(start)).into(),
            help,
        })
    }

    /// What serde or the TOML parser says, with the nearest known name where a key or a value is unknown.
    pub(super) fn from_toml(source_name: &str, text: &str, error: &toml::de::Error) -> Box<Self> {
        let message = error.message();
        let mut quoted = message.split('`').skip(1).step_by(2);
        let unknown = message.starts_with("unknown field").then(|| quoted.next()).flatten();
        let what = unknown.map_or_else(
            || message.to_owned(),
            |key| match LATER.contains(&key) {
                true => format!("`{key}` is not available in this version"),
                false => format!("unknown key `{key}`"),
            },
        );
        let help = unknown
            .map(|key| match LATER.contains(&key) {
                true => format!("known: {}", quoted.collect::<Vec<_>>().join(", ")),
                false => did_you_mean(key, quoted),
            })
            .or_else(|| expected(message));
        Self::at(source_name, text, error.span().unwrap_or(0..0), what, help)
    }

    /// Looks the place of what is wrong up in the document.
    pub(super) fn wrong(source_name: &str, text: &str, wrong: Wrong) -> Box<Self> {
        let span = DeTable::parse(text).ok().map_or(0..0, |document| {
            let mut table = Some(document.get_ref());
            let mut span = 0..0;
            for key in wrong.keys {
                let Some((name, value)) =
                    table.and_then(|table| table.iter().find(|(name, _)| name.get_ref() == key))
                else {
                    break;
                };
                let array = value.get_ref().as_array();
                let value = wrong.entry.and_then(|entry| array?.get(entry)).unwrap_or(value);
                table = value.get_ref().as_table();
                span = if table.is_some() && array.is_none() { name.span() } else { value.span() };
            }
            span
        });
        Self::at(source_name, text, span, wrong.what, wrong.help)
    }
}

/// What would be right where serde found another type, or nothing.
fn expected(message: &str) -> Option<String> {
    let help = if message.starts_with("missing field") {
        "this key has no default"
    } else if message.ends_with("expected a string") {
        "a text in quotes; a quantity carries its unit: \"400Gbit\", \"4MiB\", \"12us\""
    } else if message.contains("expected u") {
        "a whole number, zero or greater, without quotes"
    } else {
        return None;
    };
    Some(help.to_owned())
}

/// Keys of the plan format that later versions of the program read.
const LATER: [&str; 24] = [
    "hf_config",
    "kv_heads",
    "head_dim",
    "tied_embeddings",
    "experts",
    "top_k",
    "recompute",
    "context",
    "expert",
    "expert_tensor",
    "sequence_parallel",
    "zero",
    "hsdp_shard",
    "reshard_after_forward",
    "virtual_stages",
    "context_style",
    "vocab_padding",
    "rails",
    "pxn",
    "granularity",
    "source_port",
    "jitter",
    "stragglers",
    "all_reduce",
];

/// The nearest of the known names, and all of them.
pub(super) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<_> = known.into_iter().collect();
    let nearest =
        known.iter().min_by_key(|known| distance(name, known)).filter(|known| distance(name, known) <= 3);
    let all = known.join(", ");
    nearest
        .map_or_else(|| format!("known: {all}"), |nearest| format!("did you mean `{nearest}`? known: {all}"))
}

/// Levenshtein's distance: insertions, deletions and replacements of a character.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.chars().count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_when_it_is_near() {
        assert_eq!(
            did_you_mean("layres", ["layers", "heads"]),
            "did you mean `layers`? known: layers, heads"
        );
        assert_eq!(did_you_mean("nonsense", ["layers", "heads"]), "known: layers, heads");
    }
}
