//! Enums of `base` in JSON: each by its word.

use base::{Membership, Part};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;
use std::borrow::Cow;

/// An enum whose values have words.
pub trait Word: Copy + 'static {
    /// All of its values.
    const ALL: &'static [Self];
    /// The word of a value.
    fn word(self) -> &'static str;
}

impl Word for Part {
    const ALL: &'static [Part] = &Part::ALL;
    fn word(self) -> &'static str {
        Part::word(self)
    }
}

impl Word for Membership {
    const ALL: &'static [Membership] =
        &[Membership::Member, Membership::Leaving, Membership::Replaceable];
    fn word(self) -> &'static str {
        Membership::word(self)
    }
}

/// Writes the word.
pub fn serialize<T: Word, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.word())
}

/// Reads the word.
pub fn deserialize<'de, T: Word, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let word = Cow::<str>::deserialize(deserializer)?;
    let found = T::ALL.iter().copied().find(|value| value.word() == word);
    found.ok_or_else(|| {
        let words: Vec<_> = T::ALL.iter().map(|value| value.word()).collect();
        D::Error::custom(format!("one of the words {} is expected", words.join(", ")))
    })
}
