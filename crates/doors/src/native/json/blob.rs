//! A key or value in JSON: a string, or `{"base64": ".."}`.

use base::Key;
use base::limits::KEYS_PER_READ_MAX;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::cell::Cell;
use std::fmt;

/// Bytes read from JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob(pub Bytes);

struct BlobVisitor;

impl<'de> Visitor<'de> for BlobVisitor {
    type Value = Blob;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or {\"base64\": \"..\"}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Blob, E> {
        Ok(Blob(Bytes::copy_from_slice(text.as_bytes())))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Blob, E> {
        Ok(Blob(text.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Blob, A::Error> {
        let wrong = || A::Error::custom("bytes are a string, or an object with `base64` alone");
        if map.next_key::<Name>()? != Some(Name) {
            return Err(wrong());
        }
        let bytes = map.next_value::<Encoded>()?.0;
        if map.next_key::<Name>()?.is_some() {
            return Err(wrong());
        }
        Ok(Blob(bytes))
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Blob, D::Error> {
        deserializer.deserialize_any(BlobVisitor)
    }
}

/// The one name that the object may hold.
#[derive(PartialEq, Eq)]
struct Name;

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = Name;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`base64`")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Name, E> {
                if text == "base64" { Ok(Name) } else { Err(E::custom("the one name is `base64`")) }
            }
        }
        deserializer.deserialize_identifier(NameVisitor)
    }
}

struct Encoded(Bytes);

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Encoded, D::Error> {
        struct EncodedVisitor;
        impl Visitor<'_> for EncodedVisitor {
            type Value = Encoded;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64 with padding")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Encoded, E> {
                let bytes = STANDARD.decode(text).map_err(|_| {
                    E::custom("`base64` holds what is no base64 (the standard one, with padding)")
                })?;
                Ok(Encoded(bytes.into()))
            }
        }
        deserializer.deserialize_str(EncodedVisitor)
    }
}

/// Reads a list of keys; counts the keys of the whole body.
pub struct KeysSeed<'a>(pub &'a Cell<usize>);

/// How an error begins that is `too_large` and not `malformed`.
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
