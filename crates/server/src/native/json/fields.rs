//! Fields of a step: their names in JSON, and their sets.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;

/// Field of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum StepField {
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

impl StepField {
    /// All fields, with their names in JSON.
    pub const ALL: [(StepField, &'static str); 25] = [
        (StepField::Op, "op"),
        (StepField::Key, "key"),
        (StepField::Value, "value"),
        (StepField::Ttl, "ttl_ms"),
        (StepField::When, "when"),
        (StepField::Version, "version"),
        (StepField::Missing, "missing"),
        (StepField::Expected, "expected"),
        (StepField::Wanted, "wanted"),
        (StepField::Prefix, "prefix"),
        (StepField::Keys, "keys"),
        (StepField::Delta, "delta"),
        (StepField::Offset, "offset"),
        (StepField::From, "from"),
        (StepField::To, "to"),
        (StepField::OnlyWhen, "only_when"),
        (StepField::Steps, "steps"),
        (StepField::Mode, "mode"),
        (StepField::RequireAll, "require_all"),
        (StepField::FromExclusive, "from_exclusive"),
        (StepField::ToInclusive, "to_inclusive"),
        (StepField::Reverse, "reverse"),
        (StepField::Limit, "limit"),
        (StepField::After, "after"),
        (StepField::Want, "want"),
    ];

    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        StepField::ALL[self as usize].1
    }

    /// Returns its bit in a set of fields.
    pub fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl<'de> Deserialize<'de> for StepField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StepField, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = StepField;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field of a step")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<StepField, E> {
                let found = StepField::ALL.iter().find(|(_, name)| *name == text);
                found.map(|(field, _)| *field).ok_or_else(|| {
                    E::custom("unknown field; docs/use/http.md lists the fields of each operation")
                })
            }
        }
        deserializer.deserialize_identifier(NameVisitor)
    }
}
