//! The names of a step's fields.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;

/// The fields that a step may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Field {
    Op,
    Key,
    Value,
    Ttl,
    When,
    Version,
    Missing,
    Expected,
    Wanted,
    Prefix,
    Keys,
    Delta,
    Offset,
    From,
    To,
    OnlyWhen,
    Steps,
    Mode,
    RequireAll,
    FromExclusive,
    ToInclusive,
    Reverse,
    Limit,
    After,
    Want,
}

impl Field {
    /// All fields with their names in JSON.
    pub const ALL: [(Field, &'static str); 25] = [
        (Field::Op, "op"),
        (Field::Key, "key"),
        (Field::Value, "value"),
        (Field::Ttl, "ttl_ms"),
        (Field::When, "when"),
        (Field::Version, "version"),
        (Field::Missing, "missing"),
        (Field::Expected, "expected"),
        (Field::Wanted, "wanted"),
        (Field::Prefix, "prefix"),
        (Field::Keys, "keys"),
        (Field::Delta, "delta"),
        (Field::Offset, "offset"),
        (Field::From, "from"),
        (Field::To, "to"),
        (Field::OnlyWhen, "only_when"),
        (Field::Steps, "steps"),
        (Field::Mode, "mode"),
        (Field::RequireAll, "require_all"),
        (Field::FromExclusive, "from_exclusive"),
        (Field::ToInclusive, "to_inclusive"),
        (Field::Reverse, "reverse"),
        (Field::Limit, "limit"),
        (Field::After, "after"),
        (Field::Want, "want"),
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        Field::ALL[self as usize].1
    }

    /// Its place in a set of fields.
    pub fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Field, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = Field;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field of a step")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Field, E> {
                let known = Field::ALL.iter().find(|(_, name)| *name == text);
                known.map(|(field, _)| *field).ok_or_else(|| {
                    E::custom("a field is not known; docs/use/http.md lists them by operation")
                })
            }
        }
        deserializer.deserialize_identifier(NameVisitor)
    }
}
