//! Parser of RESP2 and RESP3 replies, as far as the load tool must understand them.

/// A reply at the front of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reply<'a> {
    /// `+OK`, and other replies that only report success.
    Simple(&'a [u8]),
    /// `-ERR ...`
    Error(&'a [u8]),
    /// `:7`
    Integer(i64),
    /// `$3`
    Bulk(&'a [u8]),
    /// `$-1`, `*-1`, `_`
    Nil,
    /// An array, a map, a set or a push.
    Array {
        /// Number of elements that are not nil.
        present: usize,
        /// Number of elements that are not nil in the last element, if that is an array.
        inner: usize,
        /// The first element that is an error.
        error: Option<&'a [u8]>,
    },
}

/// Malformed input: not RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedReply;

/// Deepest nesting of arrays; deeper input is treated as malformed.
const DEPTH_MAX: usize = 16;

/// Returns the first reply and its length in bytes. `None`: it is incomplete.
#[inline]
pub fn parse_reply(input: &[u8]) -> Option<Result<(Reply<'_>, usize), MalformedReply>> {
    parse_nested(input, DEPTH_MAX)
}

/// Returns the first bulk string of a whole array; of an array that ends with an array, the first
/// of that. This is both the first key of a page and the first member of a list.
pub fn first_bulk(input: &[u8]) -> Option<&[u8]> {
    let (line, mut at) = line(input)?;
    let count = number(line.strip_prefix(b"*")?)?;
    let mut first = None;
    for index in 0..count {
        let rest = &input[at..];
        if rest.starts_with(b"*") && index + 1 == count {
            return first_bulk(rest);
        }
        let (reply, bytes) = parse_nested(rest, DEPTH_MAX)?.ok()?;
        if let (0, Reply::Bulk(value)) = (index, reply) {
            first = Some(value);
        }
        at += bytes;
    }
    first
}

/// Returns the elements of a whole array, each as it is encoded. `None`: it is no array.
pub fn elements(input: &[u8]) -> Option<Vec<&[u8]>> {
    let (line, mut at) = line(input)?;
    let count = number(line.strip_prefix(b"*")?)?;
    let mut elements = Vec::new();
    for _ in 0..count {
        let (_, bytes) = parse_nested(&input[at..], DEPTH_MAX)?.ok()?;
        elements.push(&input[at..at + bytes]);
        at += bytes;
    }
    Some(elements)
}

/// Returns the bytes of a bulk string. `None`: it is none.
pub fn bulk_of(input: &[u8]) -> Option<&[u8]> {
    match parse_reply(input)?.ok()? {
        (Reply::Bulk(bytes), _) => Some(bytes),
        _ => None,
    }
}

fn parse_nested(input: &[u8], depth: usize) -> Option<Result<(Reply<'_>, usize), MalformedReply>> {
    let (line, end) = line(input)?;
    let Some((&mark, text)) = line.split_first() else { return Some(Err(MalformedReply)) };
    let reply = match mark {
        b'+' | b'#' | b',' | b'(' => Reply::Simple(text),
        b'-' => Reply::Error(text),
        b'_' => Reply::Nil,
        b':' => match number(text) {
            Some(value) => Reply::Integer(value),
            None => return Some(Err(MalformedReply)),
        },
        b'$' | b'=' | b'!' => match number(text) {
            Some(-1) => Reply::Nil,
            Some(length) if length >= 0 => return bulk(input, mark, end, length as usize),
            _ => return Some(Err(MalformedReply)),
        },
        b'*' | b'~' | b'>' | b'%' => match number(text) {
            Some(-1) => Reply::Nil,
            Some(count) if count >= 0 && depth > 0 => {
                let count = if mark == b'%' { 2 * count } else { count };
                return array(input, end, count, depth - 1);
            }
            _ => return Some(Err(MalformedReply)),
        },
        _ => return Some(Err(MalformedReply)),
    };
    Some(Ok((reply, end)))
}

#[inline]
fn bulk(
    input: &[u8],
    mark: u8,
    from: usize,
    length: usize,
) -> Option<Result<(Reply<'_>, usize), MalformedReply>> {
    if length > base::limits::FRAME_BYTES_MAX {
        return Some(Err(MalformedReply));
    }
    let end = from + length + 2;
    let bytes = input.get(from..end)?;
    if &bytes[length..] != b"\r\n" {
        return Some(Err(MalformedReply));
    }
    let bytes = &bytes[..length];
    Some(Ok((if mark == b'!' { Reply::Error(bytes) } else { Reply::Bulk(bytes) }, end)))
}

fn array(
    input: &[u8],
    from: usize,
    count: i64,
    depth: usize,
) -> Option<Result<(Reply<'_>, usize), MalformedReply>> {
    let (mut at, mut present, mut inner, mut first_error) = (from, 0, 0, None);
    for _ in 0..count {
        match parse_nested(&input[at..], depth)? {
            Ok((reply, bytes)) => {
                at += bytes;
                present += usize::from(reply != Reply::Nil);
                inner = if let Reply::Array { present, .. } = reply { present } else { 0 };
                if let Reply::Error(error) = reply {
                    first_error.get_or_insert(error);
                }
            }
            Err(MalformedReply) => return Some(Err(MalformedReply)),
        }
    }
    Some(Ok((Reply::Array { present, inner, error: first_error }, at)))
}

// Returns the line without its end, and the offset of the next line.
#[inline]
fn line(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    let line = &input[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

#[inline]
fn number(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(digit - b'0');
    }
    Some(if is_negative { -value } else { value })
}
