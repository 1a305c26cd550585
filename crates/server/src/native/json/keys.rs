//! Parsing of lists of keys in JSON, with a limit on their number.

use api::Blob;
use base::Key;
use base::limits::KEYS_PER_READ_MAX;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use std::cell::Cell;
use std::fmt;

/// Parser of a list of keys. It counts the keys of the whole body.
pub struct KeysSeed<'a>(pub &'a Cell<usize>);

/// Beginning of an error that is `too_large` and not `malformed`.
pub const TOO_MANY_KEYS: &str = "a body lists more than 131072 keys";

impl<'de> DeserializeSeed<'de> for KeysSeed<'_> {
    type Value = Vec<Key>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Key>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for KeysSeed<'_> {
    type Value = Vec<Key>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of keys")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Key>, A::Error> {
        let mut keys = Vec::new();
        while let Some(key) = list.next_element::<Blob>()? {
            self.0.set(self.0.get() + 1);
            if self.0.get() > KEYS_PER_READ_MAX {
                return Err(A::Error::custom(TOO_MANY_KEYS));
            }
            keys.push(key.0);
        }
        Ok(keys)
    }
}
