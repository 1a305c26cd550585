//! Format `jsonl`: a record is a JSON object on one line.
//!
//! A key or value is a string, or `{"base64": "..."}` if the bytes are not UTF-8. Any other JSON
//! value (a number, an object) is taken as its own text.

use super::RecordBatch;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserializer;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

/// Names of the fields or columns that hold key and value.
#[derive(Clone, Debug)]
pub struct FieldNames {
    /// Name of the key's field.
    pub key: String,
    /// Name of the value's field. `.`: the whole line, or the whole row as a JSON object.
    pub value: String,
    /// Delimiter between the columns of a row.
    pub delimiter: u8,
}

impl Default for FieldNames {
    fn default() -> FieldNames {
        FieldNames { key: "key".into(), value: "value".into(), delimiter: b',' }
    }
}

/// Parses a line.
pub fn read(line: &[u8], fields: &FieldNames, batch: &mut RecordBatch) -> Result<(), String> {
    let mut json = serde_json::Deserializer::from_slice(line);
    let found = json.deserialize_map(Find(fields)).map_err(said)?;
    json.end().map_err(said)?;
    let key = found.key.ok_or_else(|| format!("there is no field `{}`", fields.key))?;
    take(key, batch.buffer())?;
    batch.end_key();
    if fields.value == "." {
        batch.buffer().extend_from_slice(line.trim_ascii());
        return Ok(());
    }
    let value = found.value.ok_or_else(|| format!("there is no field `{}`", fields.value))?;
    take(value, batch.buffer())
}

/// Writes a line.
pub fn write(to: &mut impl Write, fields: &FieldNames, key: &[u8], value: &[u8]) -> io::Result<()> {
    to.write_all(b"{")?;
    serde_json::to_writer(&mut *to, &fields.key)?;
    to.write_all(b":")?;
    put(to, key)?;
    to.write_all(b",")?;
    serde_json::to_writer(&mut *to, &fields.value)?;
    to.write_all(b":")?;
    put(to, value)?;
    to.write_all(b"}\n")
}

fn put(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(serde_json::to_writer(to, text)?),
        Err(_) => write!(to, "{{\"base64\":\"{}\"}}", STANDARD.encode(bytes)),
    }
}

/// Appends the bytes of a JSON value.
fn take(json: &RawValue, to: &mut Vec<u8>) -> Result<(), String> {
    let text = json.get();
    if text.starts_with('"') {
        let plain: Cow<'_, str> = match serde_json::from_str(text) {
            Ok(borrowed) => Cow::Borrowed(borrowed),
            Err(_) => Cow::Owned(serde_json::from_str(text).map_err(said)?),
        };
        to.extend_from_slice(plain.as_bytes());
        return Ok(());
    }
    if text.starts_with('{')
        && let Ok(Base64 { base64 }) = serde_json::from_str(text)
    {
        return STANDARD
            .decode_vec(&*base64, to)
            .map_err(|_| "the text behind `base64` is none".into());
    }
    to.extend_from_slice(text.as_bytes());
    Ok(())
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64<'a> {
    #[serde(borrow)]
    base64: Cow<'a, str>,
}

/// Returns the error text. The library also counts lines, inside this one, so only its column is
/// useful.
fn said(error: serde_json::Error) -> String {
    let text = error.to_string();
    let text = match text.split_once(" at line ") {
        Some((what, _)) if error.column() > 0 => format!("{what} at column {}", error.column()),
        _ => text,
    };
    format!("no JSON object as expected: {text}")
}

#[derive(Default)]
struct KeyAndValue<'a> {
    key: Option<&'a RawValue>,
    value: Option<&'a RawValue>,
}

struct Find<'f>(&'f FieldNames);

impl<'a> Visitor<'a> for Find<'_> {
    type Value = KeyAndValue<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<KeyAndValue<'a>, M::Error> {
        let mut found = KeyAndValue::default();
        while let Some(name) = map.next_key::<Cow<'a, str>>()? {
            let place = if name == self.0.key.as_str() {
                &mut found.key
            } else if name == self.0.value.as_str() {
                &mut found.value
            } else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if place.is_some() {
                return Err(M::Error::custom(format!("the field `{name}` stands there twice")));
            }
            *place = Some(map.next_value()?);
        }
        Ok(found)
    }
}
