//! Answers of nodes to each other's questions about available buckets (`message.rs`).
//!
//! ```text
//! answer = 0 | fields          or   1 | error, as in `base/wire`
//! ```

use super::message::MessageResult;
use base::codec::{Malformed, Reader, Writer};
use base::limits::KEY_BYTES_MAX;
use base::{Error, Result};
use bytes::Bytes;

/// Builds a successful answer.
pub(super) fn success(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0];
    fill(&mut out);
    out
}

/// Builds the answer to a stored row. `is_complete`: all nodes that must have it by a newer ring
/// than the sender's have it.
pub(super) fn stored(is_complete: bool) -> Bytes {
    Bytes::from_static(if is_complete { &[0] } else { &[0, 1] })
}

/// Returns true if the stored row must be sent to further nodes. An empty answer means false.
pub(super) fn is_incomplete(stored: &[u8]) -> bool {
    stored.first() == Some(&1)
}

/// Builds an answer with an error.
pub(super) fn failure(error: &Error) -> Vec<u8> {
    let mut out = vec![1];
    error.write(&mut out);
    out
}

/// Reads an answer: its fields, or the error that it carries.
pub(super) fn read(bytes: &Bytes) -> MessageResult<Result<Bytes>> {
    match bytes.first() {
        Some(0) => Ok(Ok(bytes.slice(1..))),
        Some(1) => Ok(Err(Error::read(&bytes.slice(1..))?)),
        _ => Err(Malformed("kind of answer")),
    }
}

/// Encodes a page of names: the names in order, and true if more follow.
pub(super) fn put_names(names: &[Bytes], more: bool, out: &mut Vec<u8>) {
    out.put_u8(more.into());
    out.put_u32(names.len() as u32);
    names.iter().for_each(|name| out.put_string(name));
}

/// Decodes a page of names: the names, and true if there are more.
pub(super) fn take_names(bytes: &Bytes) -> MessageResult<(Vec<Bytes>, bool)> {
    let mut from = Reader::new(bytes);
    let more = from.u8("more")? != 0;
    let count = from.u32("names")? as usize;
    if count > from.rest().len() / 4 {
        return Err(Malformed("names"));
    }
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        names.push(bytes.slice_ref(from.string(KEY_BYTES_MAX, "name")?));
    }
    from.end("names")?;
    Ok((names, more))
}
