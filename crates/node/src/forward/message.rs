//! A request passed on, as bytes: which kind of call it is (1), how far the asking node has applied
//! the directory (8), then the request as `base` writes it. The answer is `base`'s; that to an
//! update of one key has the version of the row in front (8; 0: none). While access is on, the
//! request follows whether that version is wanted (1), and the principal that it is made for.

use base::codec::{Malformed, Reader};
use base::limits::{NAME_BYTES_MAX, PEER_CALL_BYTES_MAX, PEER_HEAD_BYTES_MAX};
use base::wire::read_answer;
use base::{
    Call, Error, LogIndex, Principal, Reason, Reply, Request, Result, TokenDigest, Update, Version,
};
use bytes::{Buf, Bytes};
use transport::CallKind;

const HEAD_BYTES: usize = 9;
/// Bytes of the version in front of an answer.
const VERSION_BYTES: usize = 8;
/// Longest request, with its head, and longest answer.
pub(super) const BYTES_MAX: usize = PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX;

/// Longest principal: kind, user, version of its login, token.
const PRINCIPAL_BYTES_MAX: usize = 1 + 4 + NAME_BYTES_MAX + 8 + 1 + 4 + TokenDigest::BYTES;

/// Encodes a request as a message, made for this principal (`None`: as nodes of earlier versions
/// read it). `TooLarge` if it does not fit one, or could not be decoded again.
pub(super) fn write(
    directory: LogIndex,
    principal: Option<&Principal>,
    request: &Request,
) -> Result<Bytes> {
    let of_principal = principal.map_or(0, |_| 1 + PRINCIPAL_BYTES_MAX);
    let length = HEAD_BYTES + of_principal + request.wire_bytes();
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
    let wants_version =
        matches!(request.call, Call::Update(Update::Set { .. } | Update::SetIf { .. }));
    let kind = match principal {
        Some(_) => CallKind::RequestOfPrincipal,
        None if wants_version => CallKind::RequestForVersion,
        None => CallKind::Request,
    };
    bytes.push(kind.byte());
    bytes.extend_from_slice(&directory.0.to_le_bytes());
    if let Some(principal) = principal {
        bytes.push(wants_version.into());
        principal.write(&mut bytes);
    }
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

/// Decodes a message: the directory index that is needed, the principal, and the request.
pub(super) fn read(
    bytes: &Bytes,
) -> std::result::Result<(LogIndex, Option<Principal>, Request), Malformed> {
    let mut reader = Reader::new(bytes);
    let kind = CallKind::from_payload(bytes);
    reader.u8("kind of call")?;
    let directory = LogIndex(reader.u64("directory")?);
    match kind {
        Some(CallKind::Request | CallKind::RequestForVersion) => {
            Ok((directory, None, Request::read(&bytes.slice(HEAD_BYTES..))?))
        }
        Some(CallKind::RequestOfPrincipal) => {
            if reader.u8("version or not")? > 1 {
                return Err(Malformed("version or not"));
            }
            let (principal, rest) = Principal::read(&bytes.slice(HEAD_BYTES + 1..))?;
            Ok((directory, Some(principal), Request::read(&rest)?))
        }
        _ => Err(Malformed("kind of call")),
    }
}

/// Returns true if the answer to this message begins with a row version.
pub(super) fn is_for_version(payload: &[u8]) -> bool {
    match CallKind::from_payload(payload) {
        Some(CallKind::RequestForVersion) => true,
        Some(CallKind::RequestOfPrincipal) => payload.get(HEAD_BYTES) == Some(&1),
        _ => false,
    }
}

/// Returns true if a node that declines this message may be of a version that knows no row
/// versions.
pub(super) fn is_of_later_version(payload: &[u8]) -> bool {
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
