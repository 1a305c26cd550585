//! Requests, replies and errors as bytes, so that a node can hand a client's request to its group's
//! master, and the answer back.
//!
//! Fields stand in the order in which they are declared, each as in `codec.rs`: numbers have 8
//! bytes, a yes or no one (0 or 1); keys, values and texts have their length in front (4), lists
//! how many there are (4); what may be absent has a yes or no in front; a choice has the number of
//! its variant (1), which is never given to another. Which version of all this is spoken is agreed
//! upon when two nodes greet each other.
//!
//! Every reply can travel: none is streamed, a long range is asked for in pages. What is too large
//! for a message between nodes is told by [`write_answer`].
//!
//! Promises: what reads back was written so and not otherwise; whatever the bytes, reading does not
//! panic, and sets nothing aside that is not there; keys and values are slices, never copies.
//! Never: judges a request. Sizes above the house's limits are [`Malformed`] here, so whoever
//! passes a request on asks its limits first, to refuse it in words.
//! Read next: `request.rs`, `update.rs`, `reply.rs`, `types.rs`.

mod available;
mod cluster;
mod digest;
mod error;
mod fields;
mod reply;
mod request;
mod ring;
mod types;
mod update;

#[cfg(test)]
mod tests;

use crate::codec::Malformed;
use crate::reply::{Body, Outcome, Reply};
use crate::{AvailableCall, Call, Error, Reason, Request, Result};
use bytes::Bytes;
pub use digest::UpdateDigest;
use fields::{Fields, Size, Source};

type WireResult<T> = std::result::Result<T, Malformed>;

impl Request {
    /// Appends the request.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.wire_bytes());
        request::put(self, out);
    }

    /// How many bytes [`Request::write`] appends.
    pub fn wire_bytes(&self) -> usize {
        Size::of(|size| request::put(self, size))
    }

    /// Reads a request that fills these bytes; its keys and values are slices of them.
    pub fn read(bytes: &Bytes) -> WireResult<Request> {
        let mut from = Source::new(bytes);
        let request = request::take(&mut from)?;
        from.end("request")?;
        Ok(request)
    }
}

impl Reply {
    /// Appends the reply.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.wire_bytes());
        reply::put(self, out);
    }

    /// How many bytes [`Reply::write`] appends.
    pub fn wire_bytes(&self) -> usize {
        Size::of(|size| reply::put(self, size))
    }

    /// Reads a reply that fills these bytes; its keys and values are slices of them.
    pub fn read(bytes: &Bytes) -> WireResult<Reply> {
        let mut from = Source::new(bytes);
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
        let mut from = Source::new(bytes);
        let error = error::take(&mut from)?;
        from.end("error")?;
        Ok(error)
    }
}

/// Appends the answer to a request that was passed on: 0 and a reply, or 1 and an error.
///
/// An answer of more than `bytes_max` is replaced by a short one that is as true: what an update
/// did becomes [`Outcome::AppliedAt`], since it is done; anything else `too_large`.
pub fn write_answer(answer: &Result<Reply>, bytes_max: usize, out: &mut Vec<u8>) {
    write_or(answer, bytes_max, out, Reason::TooLarge);
}

/// The same for the answer to a call: where that changes something, an answer that is too long says
/// that it may have happened. `too_large` would say that nothing did.
pub fn write_answer_to(call: &Call, answer: &Result<Reply>, bytes_max: usize, out: &mut Vec<u8>) {
    let reason = if changes(call) { Reason::InDoubt } else { Reason::TooLarge };
    write_or(answer, bytes_max, out, reason);
}

/// Whether a call may change rows or sessions. Changes of the directory have short answers.
pub fn changes(call: &Call) -> bool {
    match call {
        Call::Read(..) | Call::Directory(_) => false,
        Call::Update(_) | Call::Session(_) => true,
        Call::Available(call) => matches!(
            call,
            AvailableCall::Store(_) | AvailableCall::Remove { .. } | AvailableCall::Change(_)
        ),
    }
}

fn write_or(answer: &Result<Reply>, bytes_max: usize, out: &mut Vec<u8>, reason: Reason) {
    let bytes = answer_bytes(answer);
    if bytes <= bytes_max {
        out.reserve(bytes);
        return put_answer(answer, out);
    }
    put_answer(&shortened(answer, bytes, bytes_max, reason), out);
}

/// How many bytes an answer takes.
pub fn answer_bytes(answer: &Result<Reply>) -> usize {
    Size::of(|size| put_answer(answer, size))
}

/// Reads an answer that fills these bytes.
pub fn read_answer(bytes: &Bytes) -> WireResult<Result<Reply>> {
    let mut from = Source::new(bytes);
    let answer = match from.byte("which answer")? {
        0 => Ok(reply::take(&mut from)?),
        1 => Err(error::take(&mut from)?),
        _ => return Err(Malformed("which answer")),
    };
    from.end("answer")?;
    Ok(answer)
}

fn put_answer<W: Fields>(answer: &Result<Reply>, out: &mut W) {
    match answer {
        Ok(reply) => reply::put(reply, out.byte(0)),
        Err(error) => error::put(error, out.byte(1)),
    }
}

fn shortened(
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
                "an answer of {bytes} bytes; at most {bytes_max} go from node to node \
                 (peer_call_bytes_max): ask for less, or ask the master"
            ),
        )),
    }
}
