//! Frames of plain `GET`s and `SET`s, matched byte by byte.
//!
//! Nearly all requests of a pipeline have one of these two forms. A match costs less than the
//! parser, which must know every form and keep its place in half a request. What does not match
//! here in full goes to the parser (`frame.rs`), so this file decides nothing.

/// Key and value of a `SET`.
pub type KeyAndValue<'a> = (&'a [u8], &'a [u8]);

/// Returns the rest behind the command word, if the input begins with this header (the number of
/// arguments, and the length of the word) and this word in any case.
#[inline]
fn behind_word<'a>(input: &'a [u8], header: &[u8; 8], word: &[u8; 3]) -> Option<&'a [u8]> {
    let (found, rest) = input.strip_prefix(header)?.split_first_chunk::<5>()?;
    (found[..3].eq_ignore_ascii_case(word) && found[3..] == *b"\r\n").then_some(rest)
}

/// Returns a complete argument, and the rest behind it.
#[inline]
fn argument(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = length(input.strip_prefix(b"$")?)?;
    let (argument, rest) = rest.split_at_checked(length)?;
    Some((argument, rest.strip_prefix(b"\r\n")?))
}

/// Returns a length of up to five digits, and the rest behind its line.
#[inline]
fn length(input: &[u8]) -> Option<(usize, &[u8])> {
    const DIGITS_MAX: usize = 5;
    let mut length = 0;
    for (at, byte) in input.iter().enumerate().take(DIGITS_MAX + 1) {
        match byte {
            b'0'..=b'9' if at < DIGITS_MAX => length = length * 10 + usize::from(byte - b'0'),
            // A number with a leading zero is the parser's.
            b'\r' if at > 0 && (at == 1 || input[0] != b'0') => {
                return Some((length, input[at..].strip_prefix(b"\r\n")?));
            }
            _ => return None,
        }
    }
    None
}

/// Returns the key of the plain `GET` that the input begins with, and the length of its frame.
#[inline]
pub fn plain_get(input: &[u8]) -> Option<(&[u8], usize)> {
    let (key, rest) = argument(behind_word(input, b"*2\r\n$3\r\n", b"GET")?)?;
    Some((key, input.len() - rest.len()))
}

/// Returns the key and the value of the `SET` without options that the input begins with, and the
/// length of its frame.
#[inline]
pub fn plain_set(input: &[u8]) -> Option<(KeyAndValue<'_>, usize)> {
    let (key, rest) = argument(behind_word(input, b"*3\r\n$3\r\n", b"SET")?)?;
    let (value, rest) = argument(rest)?;
    Some(((key, value), input.len() - rest.len()))
}
