//! Percent-encoding, both ways, for any bytes.

use bytes::Bytes;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// What `+` stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plus {
    /// Itself (in a path).
    Plus,
    /// A blank (in a query, as forms send it).
    Blank,
}

/// The bytes meant; `None` if a `%` is not followed by two hexadecimal digits.
pub fn decode(text: &str, plus: Plus) -> Option<Bytes> {
    let bytes = text.as_bytes();
    let is_plain = |byte: &u8| *byte != b'%' && (*byte != b'+' || plus == Plus::Plus);
    if bytes.iter().all(is_plain) {
        return Some(Bytes::copy_from_slice(bytes));
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        decoded.push(match byte {
            b'%' => digit(*rest.next()?)? << 4 | digit(*rest.next()?)?,
            b'+' if plus == Plus::Blank => b' ',
            other => other,
        });
    }
    Some(decoded.into())
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Appends `bytes` as forms send them: a blank is `+` (Python's `quote_plus`, Erlang's
/// `mochiweb_util:quote_plus`).
pub fn encode_plus_onto(text: &mut String, bytes: &[u8]) {
    for (number, word) in bytes.split(|byte| *byte == b' ').enumerate() {
        if number > 0 {
            text.push('+');
        }
        encode_onto(text, word);
    }
}

/// Appends `bytes` so that they are one segment of a path, or one value of a query.
pub fn encode_onto(text: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            text.push(byte as char);
        } else {
            text.push('%');
            text.push(HEX[usize::from(byte >> 4)] as char);
            text.push(HEX[usize::from(byte & 15)] as char);
        }
    }
}
