//! A key or value in JSON: a string, or `{"base64": ".."}`.

use crate::schema::BASE64_PATTERN;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::borrow::Cow;
use std::fmt;

/// Bytes: a JSON string if they are UTF-8, otherwise an object with `base64`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blob(pub Bytes);

impl From<&[u8]> for Blob {
    fn from(bytes: &[u8]) -> Blob {
        Blob(Bytes::copy_from_slice(bytes))
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut object = serializer.serialize_map(Some(1))?;
                object.serialize_entry("base64", &STANDARD.encode(&self.0))?;
                object.end()
            }
        }
    }
}

impl JsonSchema for Blob {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [
            { "type": "string" },
            { "type": "object", "required": ["base64"],
              "properties": { "base64": { "type": "string", "pattern": BASE64_PATTERN } } },
        ] })
    }
}

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
        let invalid = || {
            A::Error::custom("bytes must be a string, or an object with only the field `base64`")
        };
        if map.next_key::<BlobName>()? != Some(BlobName) {
            return Err(invalid());
        }
        let bytes = map.next_value::<Encoded>()?.0;
        if map.next_key::<BlobName>()?.is_some() {
            return Err(invalid());
        }
        Ok(Blob(bytes))
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Blob, D::Error> {
        deserializer.deserialize_any(BlobVisitor)
    }
}

/// Name of the only field of the object.
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
                    Err(E::custom("the only allowed field is `base64`"))
                }
            }
        }
        deserializer.deserialize_identifier(NameVisitor)
    }
}

/// Bytes decoded from a base64 string.
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
                let bytes = STANDARD
                    .decode(text)
                    .map_err(|_| E::custom("`base64` is not standard base64 with padding"))?;
                Ok(Encoded(bytes.into()))
            }
        }
        deserializer.deserialize_str(EncodedVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blob_json_round_trips(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let blob = Blob(bytes.into());
            let json = serde_json::to_string(&blob).expect("it has a form");
            prop_assert_eq!(serde_json::from_str::<Blob>(&json).ok(), Some(blob), "{}", json);
        }
    }

    #[test]
    fn malformed_blob_json_is_rejected() {
        for bad in
            ["7", "null", "{}", r#"{"base64":"/w"}"#, r#"{"base64":"","x":1}"#, r#"{"a":""}"#]
        {
            assert!(serde_json::from_str::<Blob>(bad).is_err(), "{bad}");
        }
    }
}
