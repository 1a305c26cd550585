//! Format `jsonl`: a record is a JSON object on one line.
//!
//! A key or value is a string, or `{"base64": "..."}` if the bytes are not UTF-8. Of any other JSON
//! value (a number, an object) the text itself is stored.

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
    let found = json.deserialize_map(FieldVisitor(fields)).map_err(describe_error)?;
    json.end().map_err(describe_error)?;
    let key = found.key.ok_or_else(|| format!("there is no field `{}`", fields.key))?;
    append_value(key, batch.buffer())?;
    batch.end_key();
    if fields.value == "." {
        batch.buffer().extend_from_slice(line.trim_ascii());
        return Ok(());
    }
    let value = found.value.ok_or_else(|| format!("there is no field `{}`", fields.value))?;
    append_value(value, batch.buffer())
}

/// Writes a line.
pub fn write(
    sink: &mut impl Write,
    fields: &FieldNames,
    key: &[u8],
    value: &[u8],
) -> io::Result<()> {
    sink.write_all(b"{")?;
    serde_json::to_writer(&mut *sink, &fields.key)?;
    sink.write_all(b":")?;
    write_value(sink, key)?;
    sink.write_all(b",")?;
    serde_json::to_writer(&mut *sink, &fields.value)?;
    sink.write_all(b":")?;
    write_value(sink, value)?;
    sink.write_all(b"}\n")
}

fn write_value(sink: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(serde_json::to_writer(sink, text)?),
        Err(_) => write!(sink, "{{\"base64\":\"{}\"}}", STANDARD.encode(bytes)),
    }
}

/// Appends the bytes that a JSON value stands for.
fn append_value(json: &RawValue, sink: &mut Vec<u8>) -> Result<(), String> {
    let text = json.get();
    if text.starts_with('"') {
        let decoded: Cow<'_, str> = match serde_json::from_str(text) {
            Ok(borrowed) => Cow::Borrowed(borrowed),
            Err(_) => Cow::Owned(serde_json::from_str(text).map_err(describe_error)?),
        };
        sink.extend_from_slice(decoded.as_bytes());
        return Ok(());
    }
    if text.starts_with('{')
        && let Ok(Base64 { base64 }) = serde_json::from_str(text)
    {
        return STANDARD
            .decode_vec(&*base64, sink)
            .map_err(|_| "the text behind `base64` is none".into());
    }
    sink.extend_from_slice(text.as_bytes());
    Ok(())
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64<'a> {
    #[serde(borrow)]
    base64: Cow<'a, str>,
}

/// Returns the error text. The library counts lines from the start of this one, so only its column
/// is useful.
fn describe_error(error: serde_json::Error) -> String {
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

struct FieldVisitor<'f>(&'f FieldNames);

impl<'a> Visitor<'a> for FieldVisitor<'_> {
    type Value = KeyAndValue<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<KeyAndValue<'a>, M::Error> {
        let mut found = KeyAndValue::default();
        while let Some(name) = map.next_key::<Cow<'a, str>>()? {
            let slot = if name == self.0.key.as_str() {
                &mut found.key
            } else if name == self.0.value.as_str() {
                &mut found.value
            } else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if slot.is_some() {
                return Err(M::Error::custom(format!("the field `{name}` stands there twice")));
            }
            *slot = Some(map.next_value()?);
        }
        Ok(found)
    }
}
