//! A request passed on, as bytes: which kind of call it is (1), how far the asking node has applied
//! the directory (8), then the request as `base` writes it. The answer is `base`'s; that to an
//! update of one key has the version of the row in front (8; 0: none).

use base::codec::{Malformed, Reader};
use base::limits::{PEER_CALL_BYTES_MAX, PEER_HEAD_BYTES_MAX};
use base::wire::read_answer;
use base::{Call, Error, LogIndex, Reason, Reply, Request, Result, Update, Version};
use bytes::{Buf, Bytes};
use transport::CallKind;

const HEAD_BYTES: usize = 9;
/// Bytes of the version in front of an answer.
const VERSION_BYTES: usize = 8;
/// Longest request, with its head, and longest answer.
pub(super) const BYTES_MAX: usize = PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX;

/// Encodes a request as a message. `TooLarge` if it does not fit one, or could not be decoded
/// again.
pub(super) fn write(directory: LogIndex, request: &Request) -> Result<Bytes> {
    let length = HEAD_BYTES + request.wire_bytes();
    if length > BYTES_MAX {
        return Err(Error::new(
            Reason::TooLarge,
            format!(
                "a request of {length} bytes exceeds {BYTES_MAX}, the limit for forwarding \
                 (peer_call_bytes_max): ask for less, or ask the master"
            ),
        ));
    }
    let mut bytes = Vec::with_capacity(length);
    bytes.push(match &request.call {
        Call::Update(Update::Set { .. } | Update::SetIf { .. }) => {
            CallKind::RequestForVersion.byte()
        }
        _ => CallKind::Request.byte(),
    });
    bytes.extend_from_slice(&directory.0.to_le_bytes());
    request.write(&mut bytes);
    let bytes = Bytes::from(bytes);
    // Reads and updates were checked against the limits. The rest is small, and was not checked
    // yet.
    if matches!(request.call, Call::Directory(_) | Call::Session(_) | Call::Available(_)) {
        read(&bytes).map_err(|Malformed(field)| {
            Error::new(Reason::TooLarge, format!("`{field}` exceeds its limit"))
        })?;
    }
    Ok(bytes)
}

/// Decodes a message: the directory index that is needed, and the request.
pub(super) fn read(bytes: &Bytes) -> std::result::Result<(LogIndex, Request), Malformed> {
    let mut reader = Reader::new(bytes);
    let kind = CallKind::from_payload(bytes);
    if !matches!(kind, Some(CallKind::Request | CallKind::RequestForVersion)) {
        return Err(Malformed("kind of call"));
    }
    reader.u8("kind of call")?;
    let directory = LogIndex(reader.u64("directory")?);
    Ok((directory, Request::read(&bytes.slice(HEAD_BYTES..))?))
}

/// Returns true if the answer to this message begins with a row version.
pub(super) fn is_for_version(payload: &[u8]) -> bool {
    CallKind::from_payload(payload) == Some(CallKind::RequestForVersion)
}

/// Returns the message without the request for a row version, for older nodes.
pub(super) fn without_version(payload: &[u8]) -> Bytes {
    let mut plain = payload.to_vec();
    plain[..1].fill(CallKind::Request.byte());
    plain.into()
}

/// Appends the version that the answer to this message begins with, if any.
pub(super) fn put_version(payload: &[u8], answer: &Result<Reply>, out: &mut Vec<u8>) {
    if is_for_version(payload) {
        let version = answer.as_ref().ok().and_then(|reply| reply.version);
        out.extend_from_slice(&version.map_or(0, |version| version.0).to_le_bytes());
    }
}

/// Decodes the answer to a message.
pub(super) fn read_answer_to(
    payload: &[u8],
    mut answer: Bytes,
) -> std::result::Result<Result<Reply>, Malformed> {
    let mut version = None;
    if is_for_version(payload) {
        let number = Reader::new(&answer).u64("row version")?;
        version = Some(Version(number)).filter(|version| version.0 != 0);
        answer.advance(VERSION_BYTES);
    }
    let answer = read_answer(&answer)?;
    Ok(answer.map(|reply| Reply { version, ..reply }))
}
