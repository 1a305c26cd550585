//! Texts of terms: as parameters of queries name them, and as answers show them.

use crate::term::{Term, TermKind, TermValue};
use base::{Error, Reason, Result};
use bytes::Bytes;

impl Term {
    /// Parses the term of a query's parameter. An integer or number is decimal text, a truth value
    /// `true` or `false`; strings and bytes stand as they are. Errors: `not_a_number`, `malformed`,
    /// and `too_large` for a tag.
    pub fn parse(kind: TermKind, text: &[u8]) -> Result<Term> {
        match kind {
            TermKind::TagInteger => Term::tag_integer(text),
            TermKind::TagBytes => Term::tag_bytes(text),
            TermKind::Int => {
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                let refusal = "the term of an `int` index is an integer of 64 bits";
                number.map(Term::int).ok_or_else(|| Error::new(Reason::NotANumber, refusal))
            }
            TermKind::Float => {
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                let refusal = "the term of a `float` index is a number, not NaN";
                let term = number.and_then(Term::float);
                term.ok_or_else(|| Error::new(Reason::NotANumber, refusal))
            }
            TermKind::String => {
                let refusal = "the term of a `string` index is UTF-8";
                let text = std::str::from_utf8(text);
                text.map(Term::string).map_err(|_| Error::new(Reason::Malformed, refusal))
            }
            TermKind::Bytes => Ok(Term::bytes(text)),
            TermKind::Bool => match text {
                b"true" => Ok(Term::bool(true)),
                b"false" => Ok(Term::bool(false)),
                _ => {
                    let refusal = "the term of a `bool` index is `true` or `false`";
                    Err(Error::new(Reason::Malformed, refusal))
                }
            },
        }
    }

    /// Returns the term as text that [`Term::parse`] reads. Of a string that was cut it is the
    /// front alone.
    pub fn text(&self) -> Bytes {
        match self.value() {
            TermValue::TagInteger(text) | TermValue::String(text) => text.into(),
            TermValue::TagBytes(bytes)
            | TermValue::Bytes(bytes)
            | TermValue::CutString(bytes, _)
            | TermValue::CutBytes(bytes, _) => bytes,
            TermValue::Int(number) => number.to_string().into(),
            TermValue::Float(number) => number.to_string().into(),
            TermValue::Bool(value) => value.to_string().into(),
        }
    }
}
