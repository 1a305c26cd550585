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
        if map.next_key::<BlobName>()? != Some(BlobName) {
            return Err(wrong());
        }
        let bytes = map.next_value::<Encoded>()?.0;
        if map.next_key::<BlobName>()?.is_some() {
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
struct BlobName;

impl<'de> Deserialize<'de> for BlobName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BlobName, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = BlobName;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`base64`")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<BlobName, E> {
                if text == "base64" {
                    Ok(BlobName)
                } else {
                    Err(E::custom("the one name is `base64`"))
                }
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

/// A whole number from 0 on; `7.0` is one too, as JSON Schema has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole(pub u64);

/// Up to here a floating point number says exactly which whole number it means.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

impl Whole {
    /// The whole number that this is, if it is one.
    pub fn of_float(number: f64) -> Option<Whole> {
        let is_whole = number.fract() == 0.0 && (0.0..=EXACT_FLOAT_MAX).contains(&number);
        is_whole.then_some(Whole(number as u64))
    }

    /// As a size; what no size can hold is larger than any limit all the same.
    pub fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole, D::Error> {
        struct WholeVisitor;
        impl Visitor<'_> for WholeVisitor {
            type Value = Whole;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 to 2^64 - 1")
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Whole, E> {
                Whole::of_float(number).ok_or_else(|| E::custom("a number is not whole"))
            }
        }
        deserializer.deserialize_any(WholeVisitor)
    }
}

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
