//! Percent-encoding and decoding of any bytes.

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};
use std::borrow::Cow;

/// Bytes that are encoded: all but the unreserved ones of RFC 3986, section 2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Meaning of `+` in encoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlusMeaning {
    /// Itself (in a path).
    Plus,
    /// A blank (in a query, as forms send it).
    Blank,
}

/// Decodes `text`. Returns `None` if a `%` is not followed by two hexadecimal digits.
pub fn decode(text: &str, plus: PlusMeaning) -> Option<Bytes> {
    let begins_with_two_digits = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    // The decoder would leave such a `%` unchanged.
    if !text.split('%').skip(1).all(begins_with_two_digits) {
        return None;
    }
    let text = match plus {
        PlusMeaning::Blank if text.contains('+') => Cow::from(text.replace('+', " ")),
        _ => Cow::from(text),
    };
    Some(match percent_decode(text.as_bytes()).into() {
        Cow::Borrowed(plain) => Bytes::copy_from_slice(plain),
        Cow::Owned(decoded) => Bytes::from(decoded),
    })
}

/// Appends `bytes` encoded as in forms: a blank becomes `+` (Python's `quote_plus`, Erlang's
/// `mochiweb_util:quote_plus`).
pub fn append_plus_encoded(text: &mut String, bytes: &[u8]) {
    for (number, part) in bytes.split(|byte| *byte == b' ').enumerate() {
        if number > 0 {
            text.push('+');
        }
        append_encoded(text, part);
    }
}

/// Appends `bytes` encoded as one segment of a path, or one value of a query.
pub fn append_encoded(text: &mut String, bytes: &[u8]) {
    text.extend(percent_encode(bytes, RESERVED));
}
