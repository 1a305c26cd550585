//! Parsing of requests, and framing of answers. Pure.

use super::answer::RiakResponse;
use super::request::RiakRequest;
use crate::access_control::AccessControl;
use crate::counters::{OperationKind, Verdict};
use crate::http::date;
use crate::http::{BodyFraming, Method, Parsed, Refused, head as http_head};
use base::{AvailableCall, Call, Kind};
use bytes::Bytes;

/// Head of a request, with the framing of its body.
pub(super) struct Framed {
    pub(super) asked: RiakRequest,
    pub(super) body: BodyFraming,
    pub(super) keep_alive: bool,
    pub(super) expects_continue: bool,
    host: Bytes,
    origin: Option<Bytes>,
}

/// Parses a head at the beginning of `bytes`. Returns `None` if it is incomplete.
pub(super) fn head(bytes: &[u8]) -> Result<Option<(Framed, usize)>, RiakResponse> {
    let mut headers = Vec::new();
    let parsed = http_head::parse_open(bytes, &mut headers).map_err(refused)?;
    let Parsed::Head(head, used) = parsed else { return Ok(None) };
    let asked = RiakRequest {
        method: head.method,
        path: head.path.into(),
        query: head.query.into(),
        headers,
        body: Bytes::new(),
        chance: 0,
    };
    let framed = Framed {
        asked,
        body: head.body,
        // Streams are chunked, which HTTP/1.0 clients can't read: those connections end.
        keep_alive: head.keep_alive && !head.is_http_10,
        expects_continue: head.expects_continue,
        host: Bytes::copy_from_slice(head.host),
        origin: head.origin.map(Bytes::copy_from_slice),
    };
    Ok(Some((framed, used)))
}

/// Checks that the request names this server, and that no web page of another origin writes.
pub(super) fn check(framed: &Framed, guard: &AccessControl) -> Result<(), RiakResponse> {
    if !guard.knows_host(&framed.host) {
        let words = "this server is not known under the name in `host`; the setting \
                     `allowed_hosts` lists its names\n";
        return Err(RiakResponse::text(403, words));
    }
    let is_safe = matches!(framed.asked.method, Method::Get | Method::Head);
    let foreign =
        framed.origin.as_ref().is_some_and(|origin| !guard.trusts_origin(origin, &framed.host));
    let from = framed.asked.header("referer").map(|referer| page_origin(referer));
    let led = from.is_some_and(|from| !guard.trusts_origin(from, &framed.host));
    if !is_safe && (foreign || led) {
        return Err(RiakResponse::text(403, "pages of other origins may not write here\n"));
    }
    Ok(())
}

/// Returns scheme, host and port of a web page's address.
fn page_origin(address: &[u8]) -> &[u8] {
    let authority = memchr::memmem::find(address, b"://").map_or(0, |at| at + 3);
    let path = address[authority..].iter().position(|byte| b"/?#".contains(byte));
    &address[..path.map_or(address.len(), |at| authority + at)]
}

/// Returns the answer to bytes that are not a request. The connection ends after it.
pub(super) fn refused(refused: Refused) -> RiakResponse {
    RiakResponse::text(refused.status.code(), format!("{}\n", refused.detail))
}

pub(super) fn too_large() -> RiakResponse {
    RiakResponse::text(413, "a value has at most 8 MiB\n")
}

pub(super) fn overloaded() -> RiakResponse {
    RiakResponse::text(503, "too many large requests are on their way; nothing was changed\n")
}

/// Returns the head of an answer whose documents follow in chunks.
pub(super) fn streaming(keep_alive: bool, now_ms: u64) -> Vec<u8> {
    let date = date::text(now_ms);
    let mut out = format!(
        "HTTP/1.1 200 OK\r\nServer: Credenza\r\nDate: {date}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    )
    .into_bytes();
    if !keep_alive {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// Returns the bytes of one chunk.
pub(super) fn chunk(document: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", document.len()).into_bytes();
    out.extend_from_slice(document);
    out.extend_from_slice(b"\r\n");
    out
}

/// Last document of a stream that breaks off.
pub(super) const BROKEN: &[u8] = b"{\"error\":\"timeout\"}";

/// Returns the verdict on an answer with this status, for the counters.
pub(super) fn verdict(status: u16) -> Verdict {
    match status {
        0..400 => Verdict::Fine,
        403 => Verdict::Failed(Kind::Denied),
        404 | 409 | 412 => Verdict::Failed(Kind::Conflict),
        400..500 | 501 => Verdict::Failed(Kind::Invalid),
        500 => Verdict::Failed(Kind::Corrupt),
        504 => Verdict::Failed(Kind::Unknown),
        _ => Verdict::Failed(Kind::Unavailable),
    }
}

/// Returns the kind of operation that a call is counted as.
pub(super) fn operation(call: &Call) -> OperationKind {
    match call {
        Call::Available(AvailableCall::Fetch { .. } | AvailableCall::FetchType { .. }) => {
            OperationKind::Get
        }
        Call::Available(AvailableCall::Store(_)) => OperationKind::Put,
        Call::Available(AvailableCall::Change(_)) => OperationKind::Update,
        Call::Available(AvailableCall::Remove { .. }) => OperationKind::Delete,
        Call::Available(AvailableCall::Keys { .. } | AvailableCall::Buckets { .. }) => {
            OperationKind::Range
        }
        Call::Directory(_) => OperationKind::Directory,
        _ => OperationKind::Other,
    }
}
