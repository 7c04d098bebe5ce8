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

/// A text cut into its tokens, each with its exact bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spelling {
    bytes: Vec<u8>,
    /// Of each token: its id, and where it ends in the bytes.
    tokens: Vec<(u32, usize)>,
}

/// The tokens of a text; `None` when this build has no vocabulary.
#[must_use]
pub fn tokenize(text: &str) -> Option<Tokenized> {
    let (ids, pieces) = encode(text)?;
    let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
    Some(Tokenized { bytes: count(text.len()), words: count(text.split_whitespace().count()), ids, pieces })
}

impl Spelling {
    /// The first tokens of a text, at most `most` of them; `None` when this build has no vocabulary.
    #[must_use]
    pub fn new(text: &str, most: u64) -> Option<Self> {
        let mut spelling = Self::default();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        for (id, bytes) in spelled(text)?.take(most) {
            spelling.bytes.extend(bytes);
            spelling.tokens.push((id, spelling.bytes.len()));
        }
        Some(spelling)
    }

    /// How many tokens it has.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        u64::try_from(self.tokens.len()).unwrap_or(u64::MAX)
    }

    /// A token's id and bytes, by its place in the text.
    #[must_use]
    pub fn token(&self, place: u64) -> Option<(u32, &[u8])> {
        let place = usize::try_from(place).ok()?;
        let &(id, end) = self.tokens.get(place)?;
        let start = place.checked_sub(1).map_or(0, |before| self.tokens[before].1);
        Some((id, &self.bytes[start..end]))
    }
}

#[cfg(feature = "tokens")]
fn spelled(text: &str) -> Option<impl Iterator<Item = (u32, Vec<u8>)>> {
    let vocabulary = tiktoken::get_encoding("r50k_base")?;
    Some(vocabulary.encode(text).into_iter().map(|id| (id, vocabulary.decode(&[id]))))
}

#[cfg(not(feature = "tokens"))]
fn spelled(_: &str) -> Option<std::iter::Empty<(u32, Vec<u8>)>> {
    None
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
    fn a_spelling_has_the_bytes_of_each_token_even_of_half_a_character() {
        // The flag is two characters of four bytes, and none of its tokens is whole.
        let text = "oscura \u{1f1ee}\u{1f1f9}";
        let spelling = Spelling::new(text, u64::MAX).unwrap();
        let tokens: Vec<_> = (0..).map_while(|place| spelling.token(place)).collect();
        assert_eq!(tokens.len(), tokenize(text).unwrap().ids.len());
        assert_eq!(tokens[0].1, b"osc");
        assert!(tokens.iter().any(|(_, bytes)| std::str::from_utf8(bytes).is_err()));
        assert_eq!(tokens.iter().flat_map(|(_, bytes)| *bytes).copied().collect::<Vec<_>>(), text.as_bytes());
        assert_eq!(Spelling::new(text, 2).unwrap().tokens(), 2);
    }

    #[test]
    fn the_first_three_tercets_are_151_tokens() {
        let tokenized = tokenize(include_str!("../plans/dante.txt")).unwrap();
        assert_eq!((tokenized.bytes, tokenized.ids.len()), (347, 151));
    }
}
