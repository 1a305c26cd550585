//! Terms of index entries: values as bytes that order as the values do.
//!
//! | kind | value | bytes behind the kind |
//! |--:|---|---|
//! | 1 | integer of a tag (`_int`) | sign (0 or 1), number of digits (2, big-endian), digits |
//! | 2 | text of a tag (`_bin`) | escaped, `00 00` |
//! | 3 | declared `int` | 8, big-endian, sign flipped |
//! | 4 | declared `float` | 8, big-endian, in IEEE's total order |
//! | 5, 6 | declared `string`, `bytes` | escaped, `00 00`; or the front, `00 01`, and a digest |
//! | 7 | declared `bool` | 0 or 1 |
//!
//! The sign of a tag's integer is 0 if it is negative; then each byte behind it is complemented.
//! Zero has no digits. A declared string above [`DECLARED_TERM_BYTES_MAX`] is cut: equality stays
//! exact by its digest, and the order among strings with the same front is that of their digests.
//! One value has one form; the end of a term follows from its own bytes.

use crate::escape::{self, Ending};
use crate::limits::{
    CUT_DIGEST_BYTES, CUT_FRONT_BYTES, DECLARED_TERM_BYTES_MAX, INDEX_DIGITS_MAX,
    INDEX_TERM_BYTES_MAX,
};
use base::codec::Malformed;
use base::{Error, Reason, Result};
use bytes::Bytes;
use std::fmt;

const SIGN_BIT: u64 = 1 << 63;
const NEGATIVE: u8 = 0;
const NOT_NEGATIVE: u8 = 1;

/// Kind of a term: all terms of one field have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TermKind {
    /// Integer of a tag.
    TagInteger = 1,
    /// Text of a tag, any bytes.
    TagBytes = 2,
    /// Declared integer of 64 bits.
    Int = 3,
    /// Declared floating-point number.
    Float = 4,
    /// Declared string.
    String = 5,
    /// Declared byte string.
    Bytes = 6,
    /// Declared truth value.
    Bool = 7,
}

impl TermKind {
    /// All kinds, in the order of their terms.
    pub const ALL: [TermKind; 7] = [
        TermKind::TagInteger,
        TermKind::TagBytes,
        TermKind::Int,
        TermKind::Float,
        TermKind::String,
        TermKind::Bytes,
        TermKind::Bool,
    ];

    /// Returns the first byte of the kind's terms.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// Value that a term stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum TermValue {
    /// Integer of a tag as decimal text: no leading zeros, no `+`, no `-0`.
    TagInteger(String),
    /// Text of a tag.
    TagBytes(Bytes),
    /// Declared integer.
    Int(i64),
    /// Declared number; neither NaN nor -0.
    Float(f64),
    /// Declared string.
    String(String),
    /// Front of a declared string, and the front of its BLAKE3 digest.
    CutString(Bytes, [u8; CUT_DIGEST_BYTES]),
    /// Declared byte string.
    Bytes(Bytes),
    /// Front of a declared byte string, and the front of its BLAKE3 digest.
    CutBytes(Bytes, [u8; CUT_DIGEST_BYTES]),
    /// Declared truth value.
    Bool(bool),
}

/// Term of an index entry, encoded. Terms of one kind order as their values.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term(Bytes);

impl Term {
    /// Returns the term of a tag's integer: decimal digits behind an optional sign. Errors:
    /// `not_a_number`; `too_large` above [`INDEX_DIGITS_MAX`] digits.
    pub fn tag_integer(text: &[u8]) -> Result<Term> {
        let (sign, digits) = match text.split_first() {
            Some((b'-', digits)) => (NEGATIVE, digits),
            Some((b'+', digits)) => (NOT_NEGATIVE, digits),
            _ => (NOT_NEGATIVE, text),
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            let text = "an integer index takes decimal digits behind an optional sign";
            return Err(Error::new(Reason::NotANumber, text));
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        let digits = &digits[zeros..];
        if digits.len() > INDEX_DIGITS_MAX {
            let text = format!("an integer of an index has at most {INDEX_DIGITS_MAX} digits");
            return Err(Error::new(Reason::TooLarge, text));
        }
        let sign = if digits.is_empty() { NOT_NEGATIVE } else { sign };
        let mut out = vec![TermKind::TagInteger.code(), sign];
        out.extend_from_slice(&(digits.len() as u16).to_be_bytes());
        out.extend_from_slice(digits);
        if sign == NEGATIVE {
            complement(&mut out[2..]);
        }
        Ok(Term(out.into()))
    }

    /// Returns the term of a tag's text. Errors: `too_large` above [`INDEX_TERM_BYTES_MAX`].
    pub fn tag_bytes(text: &[u8]) -> Result<Term> {
        if text.len() > INDEX_TERM_BYTES_MAX {
            let text = format!(
                "an index entry has {} bytes, at most {INDEX_TERM_BYTES_MAX} are allowed \
                 (INDEX_TERM_BYTES_MAX): shorten it",
                text.len()
            );
            return Err(Error::new(Reason::TooLarge, text));
        }
        Ok(Term::escaped(TermKind::TagBytes, text, Ending::Whole))
    }

    /// Returns the term of a declared integer.
    pub fn int(number: i64) -> Term {
        Term::word(TermKind::Int, number as u64 ^ SIGN_BIT)
    }

    /// Returns the term of a declared number; -0 is 0. `None`: it is NaN, which has no order.
    pub fn float(number: f64) -> Option<Term> {
        let bits = if number == 0.0 { 0 } else { number.to_bits() };
        let ordered = if bits & SIGN_BIT == 0 { bits ^ SIGN_BIT } else { !bits };
        (!number.is_nan()).then(|| Term::word(TermKind::Float, ordered))
    }

    /// Returns the term of a declared string, cut if it is long.
    pub fn string(text: &str) -> Term {
        Term::declared(TermKind::String, text.as_bytes())
    }

    /// Returns the term of a declared byte string, cut if it is long.
    pub fn bytes(bytes: &[u8]) -> Term {
        Term::declared(TermKind::Bytes, bytes)
    }

    /// Returns the term of a declared truth value.
    pub fn bool(value: bool) -> Term {
        Term(vec![TermKind::Bool.code(), value.into()].into())
    }

    fn word(kind: TermKind, word: u64) -> Term {
        let mut out = vec![kind.code()];
        out.extend_from_slice(&word.to_be_bytes());
        Term(out.into())
    }

    fn declared(kind: TermKind, bytes: &[u8]) -> Term {
        if bytes.len() <= DECLARED_TERM_BYTES_MAX {
            return Term::escaped(kind, bytes, Ending::Whole);
        }
        let mut digest = [0; CUT_DIGEST_BYTES];
        digest.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CUT_DIGEST_BYTES]);
        Term::escaped(kind, &bytes[..CUT_FRONT_BYTES], Ending::Digest(digest))
    }

    fn escaped(kind: TermKind, bytes: &[u8], ending: Ending) -> Term {
        let mut out = Vec::with_capacity(bytes.len() + 3);
        out.push(kind.code());
        escape::put(bytes, ending, &mut out);
        Term(out.into())
    }

    /// Returns the kind of the term.
    pub fn kind(&self) -> TermKind {
        let kind = TermKind::ALL.into_iter().find(|kind| Some(&kind.code()) == self.0.first());
        kind.expect("only this file makes terms")
    }

    /// Returns the value of the term.
    pub fn value(&self) -> TermValue {
        let (value, _) = take_value(&self.0).expect("only this file makes terms");
        value
    }

    /// Returns the encoded term.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Decodes a term that fills these bytes.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Term, Malformed> {
        match Term::take(bytes)? {
            (term, []) => Ok(term),
            _ => Err(Malformed("the end of an index term")),
        }
    }

    /// Decodes the term at the beginning of these bytes, and returns the bytes behind it.
    pub fn take(bytes: &[u8]) -> std::result::Result<(Term, &[u8]), Malformed> {
        let (_, rest) = take_value(bytes)?;
        let term = &bytes[..bytes.len() - rest.len()];
        Ok((Term(Bytes::copy_from_slice(term)), rest))
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

fn complement(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

/// Reads the value of the term at the beginning of these bytes. Refuses every form but the one that
/// [`Term`] writes.
fn take_value(bytes: &[u8]) -> std::result::Result<(TermValue, &[u8]), Malformed> {
    let (code, rest) = bytes.split_first().ok_or(Malformed("the kind of an index term"))?;
    let kind = TermKind::ALL.into_iter().find(|kind| kind.code() == *code);
    match kind.ok_or(Malformed("the kind of an index term"))? {
        TermKind::TagInteger => take_tag_integer(rest),
        TermKind::Int => {
            let (word, rest) = take_word(rest)?;
            Ok((TermValue::Int((word ^ SIGN_BIT) as i64), rest))
        }
        TermKind::Float => {
            let (word, rest) = take_word(rest)?;
            let bits = if word & SIGN_BIT == 0 { !word } else { word ^ SIGN_BIT };
            let number = f64::from_bits(bits);
            if number.is_nan() || bits == SIGN_BIT {
                return Err(Malformed("the number of an index term"));
            }
            Ok((TermValue::Float(number), rest))
        }
        TermKind::Bool => match rest.split_first() {
            Some((value @ (0 | 1), rest)) => Ok((TermValue::Bool(*value == 1), rest)),
            _ => Err(Malformed("the truth value of an index term")),
        },
        kind => take_escaped(kind, rest),
    }
}

fn take_word(bytes: &[u8]) -> std::result::Result<(u64, &[u8]), Malformed> {
    let (word, rest) = bytes.split_first_chunk().ok_or(Malformed("a number of an index term"))?;
    Ok((u64::from_be_bytes(*word), rest))
}

fn take_tag_integer(bytes: &[u8]) -> std::result::Result<(TermValue, &[u8]), Malformed> {
    const FIELD: Malformed = Malformed("the integer of an index term");
    let ([sign, count @ ..], rest) = bytes.split_first_chunk::<3>().ok_or(FIELD)?;
    let count = match *sign {
        NOT_NEGATIVE => u16::from_be_bytes(*count),
        NEGATIVE => !u16::from_be_bytes(*count),
        _ => return Err(FIELD),
    };
    let (digits, rest) = rest.split_at_checked(count.into()).ok_or(FIELD)?;
    let mut digits = digits.to_vec();
    if *sign == NEGATIVE {
        complement(&mut digits);
    }
    let is_canonical = digits.len() <= INDEX_DIGITS_MAX
        && digits.iter().all(u8::is_ascii_digit)
        && digits.first() != Some(&b'0')
        && (*sign == NOT_NEGATIVE || !digits.is_empty());
    if !is_canonical {
        return Err(FIELD);
    }
    let mut text = String::with_capacity(digits.len() + 1);
    if *sign == NEGATIVE {
        text.push('-');
    }
    text.extend(digits.iter().map(|digit| char::from(*digit)));
    if digits.is_empty() {
        text.push('0');
    }
    Ok((TermValue::TagInteger(text), rest))
}

fn take_escaped(
    kind: TermKind,
    bytes: &[u8],
) -> std::result::Result<(TermValue, &[u8]), Malformed> {
    const FIELD: Malformed = Malformed("the string of an index term");
    let (string, ending, rest) = escape::take(bytes)?;
    let is_tag = kind == TermKind::TagBytes;
    let bytes_max = if is_tag { INDEX_TERM_BYTES_MAX } else { DECLARED_TERM_BYTES_MAX };
    let value = match ending {
        Ending::Whole if string.len() > bytes_max => return Err(FIELD),
        Ending::Whole if is_tag => TermValue::TagBytes(string.into()),
        Ending::Whole if kind == TermKind::String => {
            TermValue::String(String::from_utf8(string).map_err(|_| FIELD)?)
        }
        Ending::Whole => TermValue::Bytes(string.into()),
        Ending::Digest(_) if is_tag || string.len() != CUT_FRONT_BYTES => return Err(FIELD),
        Ending::Digest(digest) if kind == TermKind::String => {
            TermValue::CutString(string.into(), digest)
        }
        Ending::Digest(digest) => TermValue::CutBytes(string.into(), digest),
    };
    Ok((value, rest))
}
