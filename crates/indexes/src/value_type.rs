//! Types and formats of the values that a declared index reads.

use crate::term::TermKind;
use base::{Error, Reason, Result};

/// Type of a declared index: the values of its path that have entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueType {
    /// Integers of 64 bits with a sign; in JSON, numbers without fraction or exponent, not `-0`.
    Int = 1,
    /// Numbers, except NaN; integers count as numbers.
    Float = 2,
    /// UTF-8 strings.
    String = 3,
    /// Byte strings of MessagePack.
    Bytes = 4,
    /// `true` and `false`.
    Bool = 5,
}

impl ValueType {
    /// All types.
    pub const ALL: [ValueType; 5] =
        [ValueType::Int, ValueType::Float, ValueType::String, ValueType::Bytes, ValueType::Bool];

    /// Returns the type's name, one lower-case word; it never changes once released.
    pub fn name(self) -> &'static str {
        match self {
            ValueType::Int => "int",
            ValueType::Float => "float",
            ValueType::String => "string",
            ValueType::Bytes => "bytes",
            ValueType::Bool => "bool",
        }
    }

    /// Parses a type's name. Errors: `malformed`.
    pub fn parse(name: &str) -> Result<ValueType> {
        ValueType::ALL.into_iter().find(|each| each.name() == name).ok_or_else(|| {
            let text = "the type of an index is int, float, string, bytes or bool";
            Error::new(Reason::Malformed, text)
        })
    }

    /// Returns the kind of the type's terms.
    pub fn kind(self) -> TermKind {
        match self {
            ValueType::Int => TermKind::Int,
            ValueType::Float => TermKind::Float,
            ValueType::String => TermKind::String,
            ValueType::Bytes => TermKind::Bytes,
            ValueType::Bool => TermKind::Bool,
        }
    }
}

/// Format of the values of a bucket with declared indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueFormat {
    /// JSON, RFC 8259.
    Json = 1,
    /// MessagePack.
    MessagePack = 2,
}

impl ValueFormat {
    /// All formats.
    pub const ALL: [ValueFormat; 2] = [ValueFormat::Json, ValueFormat::MessagePack];

    /// Returns the format's name, one lower-case word; it never changes once released.
    pub fn name(self) -> &'static str {
        match self {
            ValueFormat::Json => "json",
            ValueFormat::MessagePack => "msgpack",
        }
    }

    /// Parses a format's name. Errors: `malformed`.
    pub fn parse(name: &str) -> Result<ValueFormat> {
        ValueFormat::ALL.into_iter().find(|each| each.name() == name).ok_or_else(|| {
            Error::new(Reason::Malformed, "the format of an index is json or msgpack")
        })
    }
}
