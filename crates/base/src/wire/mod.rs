//! Codec of requests, replies and errors between nodes: a node forwards a client's request to its
//! group's master, which sends the answer back.
//!
//! Fields are encoded in the order of their declaration, each as in `codec.rs`: numbers take 8
//! bytes, a boolean one (0 or 1); keys, values and texts are preceded by their length (4), lists by
//! their number of elements (4), optional fields by a boolean; an enum begins with the number of
//! its variant (1), which is never reused. Two nodes agree on the version of the format in their
//! handshake.
//!
//! Every reply fits in one message: none is streamed, a long range is read in pages.
//! [`write_answer`] replaces an answer that is too large.
//!
//! Promises: a message decodes to exactly what was encoded; decoding never panics, whatever the
//! bytes, and never allocates for elements that are not there; keys and values are slices, never
//! copies.
//! Never: judges a request. Sizes above the limits are [`Malformed`] here, so a node that forwards
//! a request checks its limits first, to refuse it with a proper error.
//! Read next: `request.rs`, `update.rs`, `reply.rs`, `types.rs`.

mod access;
mod available;
mod buckets;
mod cluster;
mod digest;
mod error;
mod feed;
mod fields;
mod index;
mod reply;
mod request;
mod ring;
mod types;
mod update;

#[cfg(test)]
mod tests;

use crate::codec::Malformed;
use crate::reply::{Body, Outcome, Reply};
use crate::{AvailableCall, Call, Error, Principal, Reason, Request, Result};
use bytes::Bytes;
pub use digest::UpdateDigest;
use fields::{ByteCounter, FieldReader, FieldWriter};

type WireResult<T> = std::result::Result<T, Malformed>;

impl Request {
    /// Appends the request.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.wire_bytes());
        request::put(self, out);
    }

    /// Returns the number of bytes that [`Request::write`] appends.
    pub fn wire_bytes(&self) -> usize {
        ByteCounter::count(|counter| request::put(self, counter))
    }

    /// Reads a request that fills these bytes; its keys and values are slices of them.
    pub fn read(bytes: &Bytes) -> WireResult<Request> {
        let mut from = FieldReader::new(bytes);
        let request = request::take(&mut from)?;
        from.end("request")?;
        Ok(request)
    }
}

impl Principal {
    /// Appends the principal. A listener's rights stay at home: they count only where the caller
    /// is.
    pub fn write(&self, out: &mut Vec<u8>) {
        access::put_principal(self, out);
    }

    /// Reads a principal at the beginning of these bytes. Returns it with the bytes behind it.
    pub fn read(bytes: &Bytes) -> WireResult<(Principal, Bytes)> {
        let mut from = FieldReader::new(bytes);
        let principal = access::take_principal(&mut from)?;
        Ok((principal, from.rest()))
    }
}

impl Reply {
    /// Appends the reply.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.wire_bytes());
        reply::put(self, out);
    }

    /// Returns the number of bytes that [`Reply::write`] appends.
    pub fn wire_bytes(&self) -> usize {
        ByteCounter::count(|counter| reply::put(self, counter))
    }

    /// Reads a reply that fills these bytes; its keys and values are slices of them.
    pub fn read(bytes: &Bytes) -> WireResult<Reply> {
        let mut from = FieldReader::new(bytes);
        let reply = reply::take(&mut from)?;
        from.end("reply")?;
        Ok(reply)
    }
}

impl Error {
    /// Appends the error, its detail cut at [`crate::limits::PEER_DETAIL_BYTES_MAX`].
    pub fn write(&self, out: &mut Vec<u8>) {
        error::put(self, out);
    }

    /// Reads an error that fills these bytes.
    pub fn read(bytes: &Bytes) -> WireResult<Error> {
        let mut from = FieldReader::new(bytes);
        let error = error::take(&mut from)?;
        from.end("error")?;
        Ok(error)
    }
}

/// Appends the answer to a forwarded request: 0 and a reply, or 1 and an error.
///
/// An answer of more than `bytes_max` is replaced by a short one: an update's outcome becomes
/// [`Outcome::AppliedAt`], since it is applied; anything else becomes `too_large`.
pub fn write_answer(answer: &Result<Reply>, bytes_max: usize, out: &mut Vec<u8>) {
    write_bounded(answer, bytes_max, out, Reason::TooLarge);
}

/// Appends the answer to a forwarded call as [`write_answer`] does, except that a too long answer
/// to a call that [`changes`] something becomes `in_doubt`: `too_large` would claim that nothing
/// was changed.
pub fn write_answer_to(call: &Call, answer: &Result<Reply>, bytes_max: usize, out: &mut Vec<u8>) {
    let reason = if may_change(call) { Reason::InDoubt } else { Reason::TooLarge };
    write_bounded(answer, bytes_max, out, reason);
}

/// Returns true if a call may change rows or sessions. Directory calls count as false: their
/// answers are short.
pub fn may_change(call: &Call) -> bool {
    match call {
        Call::Read(..) | Call::Directory(_) => false,
        Call::Update(_) | Call::Session(_) => true,
        Call::Available(call) => matches!(
            call,
            AvailableCall::Store(_) | AvailableCall::Remove { .. } | AvailableCall::Change(_)
        ),
    }
}

fn write_bounded(answer: &Result<Reply>, bytes_max: usize, out: &mut Vec<u8>, reason: Reason) {
    let bytes = answer_bytes(answer);
    if bytes <= bytes_max {
        out.reserve(bytes);
        return put_answer(answer, out);
    }
    put_answer(&short_answer(answer, bytes, bytes_max, reason), out);
}

/// Returns the number of bytes of an encoded answer.
pub fn answer_bytes(answer: &Result<Reply>) -> usize {
    ByteCounter::count(|counter| put_answer(answer, counter))
}

/// Reads an answer that fills these bytes.
pub fn read_answer(bytes: &Bytes) -> WireResult<Result<Reply>> {
    let mut from = FieldReader::new(bytes);
    let answer = match from.u8("kind of answer")? {
        0 => Ok(reply::take(&mut from)?),
        1 => Err(error::take(&mut from)?),
        _ => return Err(Malformed("kind of answer")),
    };
    from.end("answer")?;
    Ok(answer)
}

fn put_answer<W: FieldWriter>(answer: &Result<Reply>, out: &mut W) {
    match answer {
        Ok(reply) => reply::put(reply, out.u8(0)),
        Err(error) => error::put(error, out.u8(1)),
    }
}

fn short_answer(
    answer: &Result<Reply>,
    bytes: usize,
    bytes_max: usize,
    reason: Reason,
) -> Result<Reply> {
    match answer {
        Ok(Reply { index, version, body: Body::Updated(_) }) => {
            let body = Body::Updated(Outcome::AppliedAt(*index));
            Ok(Reply { index: *index, version: *version, body })
        }
        _ => Err(Error::new(
            reason,
            format!(
                "an answer of {bytes} bytes exceeds {bytes_max}, the limit for forwarding \
                 (peer_call_bytes_max): ask for less, or ask the master"
            ),
        )),
    }
}
