//! JSON documents whose objects hold no name twice.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Parses a document. An object that holds a name twice is refused as [`serde_json::Error`] of the
/// category `Data`: parsers differ in which of the two counts, so that a check in front of this
/// server may have seen another value.
pub(crate) fn parse(json: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Document.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reader of one value of any type.
struct Document;

impl<'de> DeserializeSeed<'de> for Document {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Document)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if object.contains_key(&name) {
                let name = base::codec::printable(name.as_bytes());
                return Err(A::Error::custom(format!("the name `{name}` stands twice")));
            }
            let value = fields.next_value_seed(Document)?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_equal_those_of_the_lenient_parser() {
        for text in [
            "null",
            "[true, -1, 18446744073709551615, 1.5e3, \"a\\u0041\\n\"]",
            "{\"b\": {\"x\": [], \"y\": {}}, \"a\": \"\", \"x\": 0}",
        ] {
            let lenient: Value = serde_json::from_str(text).expect("valid");
            assert_eq!(parse(text.as_bytes()).expect("valid"), lenient, "{text}");
        }
        for text in ["", "{", "{} {}", "[1,]", "\"\u{1}\"", "{\"a\":1,\"a\"}"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(parse(deep.as_bytes()).is_err(), "the depth is bounded");
    }

    #[test]
    fn name_that_stands_twice_is_refused_at_every_depth() {
        for text in ["{\"a\":1,\"b\":2,\"a\":1}", "[{\"x\":{\"a\":[],\"\\u0061\":[]}}]"] {
            let refused = parse(text.as_bytes()).expect_err("twice");
            assert!(refused.is_data() && refused.to_string().contains("`a` stands twice"));
        }
    }
}
