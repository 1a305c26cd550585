//! Byte strings inside keys: escaped so that what follows them keeps their order.
//!
//! A zero byte is written as `00 FF`. A whole string ends with `00 00`, a string that was cut with
//! `00 01` and a digest. So no string's bytes begin another's, a string comes before its
//! extensions, and a cut one between both.

use crate::limits::CUT_DIGEST_BYTES;
use base::codec::Malformed;

const ZERO: u8 = 0xFF;
const END: u8 = 0;
const CUT: u8 = 1;

/// End of an escaped string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The string is whole.
    Whole,
    /// The string is longer; this is the front of its digest.
    Digest([u8; CUT_DIGEST_BYTES]),
}

/// Appends the bytes without an end: the common front of all strings that begin with them.
pub(crate) fn put_front(bytes: &[u8], out: &mut Vec<u8>) {
    for run in bytes.split_inclusive(|byte| *byte == 0) {
        out.extend_from_slice(run);
        if run.last() == Some(&0) {
            out.push(ZERO);
        }
    }
}

/// Appends a string and its end.
pub(crate) fn put(bytes: &[u8], ending: Ending, out: &mut Vec<u8>) {
    put_front(bytes, out);
    match ending {
        Ending::Whole => out.extend_from_slice(&[0, END]),
        Ending::Digest(digest) => {
            out.extend_from_slice(&[0, CUT]);
            out.extend_from_slice(&digest);
        }
    }
}

/// Reads a string: its bytes, its end, and the bytes behind it.
pub(crate) fn take(mut from: &[u8]) -> Result<(Vec<u8>, Ending, &[u8]), Malformed> {
    const FIELD: Malformed = Malformed("a string of an index term");
    let mut bytes = Vec::new();
    loop {
        let zero = from.iter().position(|byte| *byte == 0).ok_or(FIELD)?;
        bytes.extend_from_slice(&from[..zero]);
        let (mark, rest) = from[zero + 1..].split_first().ok_or(FIELD)?;
        match *mark {
            ZERO => bytes.push(0),
            END => return Ok((bytes, Ending::Whole, rest)),
            CUT => {
                let (digest, rest) = rest.split_first_chunk().ok_or(FIELD)?;
                return Ok((bytes, Ending::Digest(*digest), rest));
            }
            _ => return Err(FIELD),
        }
        from = rest;
    }
}
