//! Definitions of declared indexes, and their bytes.
//!
//! Version (1 byte), number (4), type (1), format (1), flags (1: unique 1, strict 2), name and path
//! (each a length of 4 and bytes). Numbers are little-endian. One definition has one form: the path
//! stands in the form in which it displays.

use crate::field::{IndexField, IndexNumber};
use crate::limits::PATH_BYTES_MAX;
use crate::path::JsonPath;
use crate::value_type::{ValueFormat, ValueType};
use base::codec::{Malformed, Reader, Writer};
use base::limits::NAME_BYTES_MAX;
use base::{Consistency, Error, Reason, Result};
use std::fmt;

const VERSION: u8 = 1;
const UNIQUE: u8 = 1;
const STRICT: u8 = 2;

/// Name of a declared index within its bucket: 1 to 63 of `a-z 0-9 _ -`, the first one a letter or
/// digit. It does not end in `_bin` or `_int`: such names are those of tags.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexName(String);

impl IndexName {
    /// Parses a name. Errors: `malformed`.
    pub fn parse(name: &str) -> Result<IndexName> {
        let is_first = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_valid = (1..=NAME_BYTES_MAX).contains(&name.len())
            && name.as_bytes().first().is_some_and(is_first)
            && name.bytes().all(|byte| is_first(&byte) || byte == b'_' || byte == b'-')
            && !name.ends_with("_bin")
            && !name.ends_with("_int");
        if is_valid {
            return Ok(IndexName(name.into()));
        }
        let text = "the name of an index is 1 to 63 of a-z 0-9 _ -, begins with a letter or digit, \
                    and does not end in _bin or _int, which are names of tags";
        Err(Error::new(Reason::Malformed, text))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IndexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Definition of a declared index. It is never altered: a changed one has a new number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDefinition {
    /// Number of the index in its entries.
    pub number: IndexNumber,
    /// Name by which queries ask for it.
    pub name: IndexName,
    /// Path to the indexed nodes of a value.
    pub path: JsonPath,
    /// Type of the indexed nodes.
    pub value_type: ValueType,
    /// Format of the values.
    pub format: ValueFormat,
    /// True if no two keys may have the same term.
    pub is_unique: bool,
    /// True if a value without a term is refused. A path that may select several nodes may select
    /// none.
    pub is_strict: bool,
}

impl IndexDefinition {
    /// Returns the field of its entries.
    pub fn field(&self) -> IndexField {
        IndexField::Declared(self.number)
    }

    /// Checks the definition for a bucket of this consistency. Errors: `malformed` if its parts do
    /// not fit each other; `not_supported` if such a bucket can't have it.
    pub fn check(&self, consistency: Consistency) -> Result<()> {
        if !self.is_possible() {
            let text = format!("index `{}`: JSON has no bytes: use the type string", self.name);
            return Err(Error::new(Reason::Malformed, text));
        }
        if self.is_unique && consistency == Consistency::Available {
            let text = format!(
                "index `{}` is unique; an available bucket can't refuse a second key: use a \
                 consistent bucket",
                self.name
            );
            return Err(Error::new(Reason::NotSupported, text));
        }
        Ok(())
    }

    /// Returns true if values of the format can have the type.
    fn is_possible(&self) -> bool {
        self.value_type != ValueType::Bytes || self.format != ValueFormat::Json
    }

    /// Returns the encoded definition.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u8(VERSION);
        out.put_u32(self.number.0);
        out.put_u8(self.value_type as u8);
        out.put_u8(self.format as u8);
        let unique = if self.is_unique { UNIQUE } else { 0 };
        let strict = if self.is_strict { STRICT } else { 0 };
        out.put_u8(unique | strict);
        out.put_string(self.name.as_str().as_bytes());
        out.put_string(self.path.to_string().as_bytes());
        out
    }

    /// Decodes a definition that fills these bytes.
    pub fn decode(bytes: &[u8]) -> std::result::Result<IndexDefinition, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("the index's version")? != VERSION {
            return Err(Malformed("the index's version"));
        }
        let number = IndexNumber(reader.u32("the index's number")?);
        let code = reader.u8("the index's type")?;
        let value_type = ValueType::ALL.into_iter().find(|each| *each as u8 == code);
        let value_type = value_type.ok_or(Malformed("the index's type"))?;
        let code = reader.u8("the index's format")?;
        let format = ValueFormat::ALL.into_iter().find(|each| *each as u8 == code);
        let format = format.ok_or(Malformed("the index's format"))?;
        let flags = reader.u8("the index's flags")?;
        if flags & !(UNIQUE | STRICT) != 0 {
            return Err(Malformed("the index's flags"));
        }
        let name = text(reader.string(NAME_BYTES_MAX, "the index's name")?);
        let name = name.and_then(|name| IndexName::parse(name).ok());
        let path_text = text(reader.string(PATH_BYTES_MAX, "the index's path")?);
        let path = path_text.and_then(|text| JsonPath::parse(text).ok());
        let path = path.filter(|path| Some(path.to_string().as_str()) == path_text);
        reader.end("the index's end")?;
        let definition = IndexDefinition {
            number,
            name: name.ok_or(Malformed("the index's name"))?,
            path: path.ok_or(Malformed("the index's path"))?,
            value_type,
            format,
            is_unique: flags & UNIQUE != 0,
            is_strict: flags & STRICT != 0,
        };
        if definition.is_possible() { Ok(definition) } else { Err(Malformed("the index's type")) }
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
