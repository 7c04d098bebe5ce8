//! Words to tokens, by GPT-2's own vocabulary (r50k: 50,257 byte pairs), which the feature `tokens` brings in.

/// A text and its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokenized {
    /// Bytes of the text.
    pub bytes: u64,
    /// Words: runs of anything but white space.
    pub words: u64,
    /// The ids of its tokens.
    pub ids: Vec<u32>,
    /// The bytes of each token as text; a token may hold a part of a character, which is shown as U+FFFD.
    pub pieces: Vec<String>,
}

/// The tokens of a text; `None` when this build has no vocabulary.
#[must_use]
pub fn tokenize(text: &str) -> Option<Tokenized> {
    let (ids, pieces) = encode(text)?;
    let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
    Some(Tokenized { bytes: count(text.len()), words: count(text.split_whitespace().count()), ids, pieces })
}

#[cfg(feature = "tokens")]
fn encode(text: &str) -> Option<(Vec<u32>, Vec<String>)> {
    let vocabulary = tiktoken::get_encoding("r50k_base")?;
    let ids = vocabulary.encode(text);
    let piece = |id: &u32| String::from_utf8_lossy(&vocabulary.decode(&[*id])).into_owned();
    let pieces = ids.iter().map(piece).collect();
    Some((ids, pieces))
}

#[cfg(not(feature = "tokens"))]
fn encode(_: &str) -> Option<(Vec<u32>, Vec<String>)> {
    None
}

#[cfg(all(test, feature = "tokens"))]
mod tests {
    use super::*;

    #[test]
    fn dantes_first_verse_is_twelve_tokens() {
        let tokenized = tokenize("Nel mezzo del cammin di nostra vita").unwrap();
        assert_eq!(tokenized.ids, [45, 417, 502, 47802, 1619, 12172, 1084, 2566, 18216, 430, 410, 5350]);
        assert_eq!(tokenized.pieces.concat(), "Nel mezzo del cammin di nostra vita");
        assert_eq!((tokenized.bytes, tokenized.words), (35, 7));
    }

    #[test]
    fn the_first_three_tercets_are_151_tokens() {
        let tokenized = tokenize(include_str!("../plans/dante.txt")).unwrap();
        assert_eq!((tokenized.bytes, tokenized.ids.len()), (347, 151));
    }
}
