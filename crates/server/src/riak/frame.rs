//! Parsing of requests, and framing of answers. Pure.

use super::answer::{NO_RIGHTS, POLICY, RiakResponse};
use super::request::RiakRequest;
use crate::access_control::AccessControl;
use crate::counters::{OperationKind, Verdict};
use crate::http::date;
use crate::http::{BodyFraming, Method, Parsed, RequestRefusal, head as http_head};
use crate::wiping::move_to_wiped;
use base::{AvailableCall, Call, Kind, Read};
use bytes::Bytes;
use std::mem;

/// Head of a request, with the framing of its body.
pub(super) struct RequestFrame {
    pub(super) request: RiakRequest,
    pub(super) body: BodyFraming,
    pub(super) keep_alive: bool,
    pub(super) expects_continue: bool,
    host: Bytes,
    origin: Option<Bytes>,
}

/// Parses a head at the beginning of `bytes`. Returns `None` if it is incomplete.
pub(super) fn head(bytes: &[u8]) -> Result<Option<(RequestFrame, usize)>, RiakResponse> {
    let mut headers = Vec::new();
    let parsed = http_head::parse_with_all_headers(bytes, &mut headers).map_err(refused)?;
    let Parsed::Head(head, used) = parsed else { return Ok(None) };
    wipe_credentials_when_dropped(&mut headers);
    let request = RiakRequest {
        method: head.method,
        path: head.path.into(),
        query: head.query.into(),
        headers,
        body: Bytes::new(),
        random_key: 0,
    };
    let framed = RequestFrame {
        request,
        body: head.body,
        // Streams are chunked, which HTTP/1.0 clients can't read, so those connections end.
        keep_alive: head.keep_alive && !head.is_http_10,
        expects_continue: head.expects_continue,
        host: Bytes::copy_from_slice(head.host),
        origin: head.origin.map(Bytes::copy_from_slice),
    };
    Ok(Some((framed, used)))
}

/// Lets the copies of credentials in headers be wiped when the request is dropped.
fn wipe_credentials_when_dropped(headers: &mut [(String, Bytes)]) {
    for (_, value) in headers.iter_mut().filter(|(name, _)| is_authorization(name)) {
        *value = match mem::take(value).try_into_mut() {
            Ok(mut own) => move_to_wiped(&mut own),
            Err(shared) => shared,
        };
    }
}

fn is_authorization(name: &str) -> bool {
    name.eq_ignore_ascii_case("authorization")
}

/// Checks that the request names this server, and that it is no write of a web page of another
/// origin.
pub(super) fn check(
    framed: &RequestFrame,
    access_control: &AccessControl,
) -> Result<(), RiakResponse> {
    if !access_control.allows_host(&framed.host) {
        let text = "the name in `host` is not allowed: add it to the setting `allowed_hosts`\n";
        return Err(RiakResponse::text(403, text));
    }
    let is_safe = matches!(framed.request.method, Method::Get | Method::Head);
    let is_cross_origin = framed
        .origin
        .as_ref()
        .is_some_and(|origin| !access_control.allows_origin(origin, &framed.host));
    let referer_origin = framed.request.header("referer").map(|referer| page_origin(referer));
    let has_foreign_referer = referer_origin
        .is_some_and(|referer_origin| !access_control.allows_origin(referer_origin, &framed.host));
    if !is_safe && (is_cross_origin || has_foreign_referer) {
        return Err(RiakResponse::text(403, "cross-origin writes are not allowed\n"));
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
pub(super) fn refused(refused: RequestRefusal) -> RiakResponse {
    RiakResponse::text(refused.status.code(), format!("{}\n", refused.detail))
}

pub(super) fn too_large() -> RiakResponse {
    RiakResponse::text(413, "a value has at most 8 MiB\n")
}

pub(super) fn overloaded() -> RiakResponse {
    RiakResponse::text(503, "too many large requests are in progress; nothing was changed\n")
}

/// Returns the head of an answer of this media type, whose documents follow in chunks.
pub(super) fn streaming(media_type: &str, keep_alive: bool, now_ms: u64) -> Vec<u8> {
    let date = date::format(now_ms);
    let mut out = format!(
        "HTTP/1.1 200 OK\r\nServer: Credenza\r\nDate: {date}\r\n\
         X-Content-Type-Options: nosniff\r\n{POLICY}: {NO_RIGHTS}\r\n\
         Content-Type: {media_type}\r\nTransfer-Encoding: chunked\r\n"
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

/// Last document of a stream that fails.
pub(super) const FAILED_STREAM_DOCUMENT: &[u8] = b"{\"error\":\"timeout\"}";

/// Returns the verdict on an answer with this status, for the counters.
pub(super) fn verdict(status: u16) -> Verdict {
    match status {
        0..400 => Verdict::Success,
        401 | 403 => Verdict::Failed(Kind::Denied),
        404 | 409 | 412 => Verdict::Failed(Kind::Conflict),
        429 => Verdict::Failed(Kind::Unavailable),
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
        Call::Read(Read::Index(_), _) => OperationKind::Range,
        Call::Directory(_) => OperationKind::Directory,
        _ => OperationKind::Other,
    }
}
