//! Parser of the head of a request. Strict: it refuses input that two parsers could read
//! differently.

use super::answer::StatusCode;
use super::method::Method;
use base::limits::{HTTP_HEADER_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_LINE_BYTES_MAX, KEY_BYTES_MAX};
use bytes::Bytes;

// A range request may name three keys of maximum size with every byte percent-encoded.
const _: () = assert!(HTTP_LINE_BYTES_MAX == 3 * 3 * KEY_BYTES_MAX + 4 * 1024);

/// Framing of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// No body, and no length was given.
    None,
    /// Body of this many bytes.
    Length(u64),
    /// Chunked body.
    Chunked,
}

/// Head of a request, borrowed from the bytes it was parsed from.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The method.
    pub method: Method,
    /// The path, still percent-encoded; begins with `/`.
    pub path: &'a str,
    /// Part of the target behind `?`, still percent-encoded. Empty if there is none.
    pub query: &'a str,
    /// Framing of the body.
    pub body: BodyFraming,
    /// True if the client wants the connection to stay open.
    pub keep_alive: bool,
    /// True if the client speaks HTTP/1.0, and so can't read chunks.
    pub is_http_10: bool,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// Value of `Host`: the name that the client used for the server.
    pub host: &'a [u8],
    /// Value of `Authorization`.
    pub authorization: Option<&'a [u8]>,
    /// Value of `Origin`: the web page that sent the request.
    pub origin: Option<&'a [u8]>,
    /// Media type of the body.
    pub content_type: Option<&'a [u8]>,
    /// Value of `If-Match`.
    pub if_match: Option<&'a [u8]>,
    /// Value of `If-None-Match`.
    pub if_none_match: Option<&'a [u8]>,
    /// Session of a retry (`X-Credenza-Session`).
    pub session: Option<&'a [u8]>,
    /// Request number of a retry (`X-Credenza-Request`).
    pub request: Option<&'a [u8]>,
    /// Id of the last server-sent event that the client got (`Last-Event-ID`), empty if there is
    /// none. `None`: no `Accept` names `text/event-stream`.
    pub last_event: Option<&'a [u8]>,
}

/// Result of parsing a head.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would cost each request an allocation")]
pub enum Parsed<'a> {
    /// The head is not complete.
    More,
    /// A head, and its length in bytes.
    Head(Head<'a>, usize),
}

/// Refusal of bytes that are not an acceptable request. The connection ends after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRefusal {
    /// Status of the answer.
    pub status: StatusCode,
    /// Reason, as a sentence.
    pub detail: &'static str,
}

fn refused<T>(status: StatusCode, detail: &'static str) -> Result<T, RequestRefusal> {
    Err(RequestRefusal { status, detail })
}

/// Parses one head at the beginning of `bytes`.
pub fn parse(bytes: &[u8]) -> Result<Parsed<'_>, RequestRefusal> {
    let mut headers = [httparse::EMPTY_HEADER; HTTP_HEADERS_MAX];
    parse_with(bytes, &mut headers, |known_headers, name, value| known_headers.set(name, value))
}

/// Most headers of a client that sends one for each link of a value.
const OPEN_HEADERS_MAX: usize = 512;

/// Parses a head like [`parse`], for clients whose headers belong to the value that they store.
/// Appends all headers to `all_headers`; interprets only those that frame the request or log in.
pub fn parse_with_all_headers<'a>(
    bytes: &'a [u8],
    all_headers: &mut Vec<(String, Bytes)>,
) -> Result<Parsed<'a>, RequestRefusal> {
    // Most requests have few headers: the large table costs more to clear than they to parse.
    let mut few = [httparse::EMPTY_HEADER; HTTP_HEADERS_MAX];
    match parse_headers_into(bytes, &mut few, all_headers) {
        Err(refusal) if refusal.detail == HEAD_TOO_LARGE => {
            all_headers.clear();
            let mut many = [httparse::EMPTY_HEADER; OPEN_HEADERS_MAX];
            parse_headers_into(bytes, &mut many, all_headers)
        }
        parsed => parsed,
    }
}

fn parse_headers_into<'a>(
    bytes: &'a [u8],
    headers: &mut [httparse::Header<'a>],
    all_headers: &mut Vec<(String, Bytes)>,
) -> Result<Parsed<'a>, RequestRefusal> {
    const ONCE: &str =
        "host connection expect origin content-length transfer-encoding authorization";
    parse_with(bytes, headers, |known_headers, name, value| {
        all_headers.push((name.to_string(), Bytes::copy_from_slice(value)));
        let is_once = ONCE.split(' ').any(|known| name.eq_ignore_ascii_case(known));
        if is_once { known_headers.set(name, value) } else { Ok(()) }
    })
}

fn parse_with<'a>(
    bytes: &'a [u8],
    headers: &mut [httparse::Header<'a>],
    mut set: impl FnMut(&mut KnownHeaders<'a>, &'a str, &'a [u8]) -> Result<(), RequestRefusal>,
) -> Result<Parsed<'a>, RequestRefusal> {
    // Refuse a bare line feed at once. Otherwise a client that sends nothing but these would make
    // the parser search all of them again each time.
    if bytes.first() == Some(&b'\n') {
        return refused(StatusCode::BadRequest, BARE_LINE_END);
    }
    let mut request = httparse::Request::new(headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return partial(bytes),
        Err(error) => return Err(refusal_of(error)),
    };
    check_sizes(&bytes[..length])?;
    if has_bare_line_end(&bytes[..length]) {
        return refused(StatusCode::BadRequest, BARE_LINE_END);
    }
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return refused(StatusCode::BadRequest, "the request line is incomplete");
    };
    let mut known_headers = KnownHeaders::default();
    for header in request.headers.iter() {
        set(&mut known_headers, header.name, header.value)?;
    }
    let head = build_head(Method::parse(method), target, version == 0, &known_headers)?;
    Ok(Parsed::Head(head, length))
}

const BARE_LINE_END: &str = "a line ends without a carriage return";
const HEAD_TOO_LARGE: &str = "the request has more than 64 headers, or more than 64 KiB of headers";
const LINE_TOO_LONG: &str = "the request line is larger than 292 KiB";

fn partial(bytes: &[u8]) -> Result<Parsed<'_>, RequestRefusal> {
    check_sizes(bytes)?;
    Ok(Parsed::More)
}

/// Checks the limits of the request line and of the headers. The limits are the same for a head
/// that arrives at once and one that arrives in pieces.
fn check_sizes(head: &[u8]) -> Result<(), RequestRefusal> {
    // Blank lines before a request are skipped, and count as part of its line.
    let blank = head.iter().take_while(|&&byte| byte == b'\r' || byte == b'\n').count();
    let end = head[blank..].iter().position(|&byte| byte == b'\n');
    let line = end.map_or(head.len(), |end| blank + end + 1);
    if line > HTTP_LINE_BYTES_MAX {
        return refused(StatusCode::UriTooLong, LINE_TOO_LONG);
    }
    if head.len() - line > HTTP_HEADER_BYTES_MAX {
        return refused(StatusCode::HeadersTooLarge, HEAD_TOO_LARGE);
    }
    Ok(())
}

fn refusal_of(error: httparse::Error) -> RequestRefusal {
    use httparse::Error;
    let (status, detail) = match error {
        Error::HeaderName => (StatusCode::BadRequest, "a header name contains a forbidden byte"),
        Error::HeaderValue => (StatusCode::BadRequest, "a header value contains a forbidden byte"),
        Error::NewLine => (StatusCode::BadRequest, "a line has an invalid line ending"),
        Error::Status => (StatusCode::BadRequest, "this is not an HTTP request"),
        Error::Token => (StatusCode::BadRequest, "the request line contains a forbidden byte"),
        Error::TooManyHeaders => (StatusCode::HeadersTooLarge, HEAD_TOO_LARGE),
        Error::Version => {
            (StatusCode::VersionNotSupported, "only HTTP/1.1 and HTTP/1.0 are supported")
        }
    };
    RequestRefusal { status, detail }
}

/// `httparse` accepts a bare `\n` as a line end and other parsers don't; two parsers must agree.
fn has_bare_line_end(head: &[u8]) -> bool {
    let mut previous = 0;
    for &byte in head {
        if byte == b'\n' && previous != b'\r' {
            return true;
        }
        previous = byte;
    }
    false
}

/// Headers that have a meaning here. Each may occur once.
#[derive(Default)]
struct KnownHeaders<'a> {
    host: Option<&'a [u8]>,
    content_length: Option<&'a [u8]>,
    transfer_encoding: Option<&'a [u8]>,
    connection: Option<&'a [u8]>,
    expect: Option<&'a [u8]>,
    origin: Option<&'a [u8]>,
    authorization: Option<&'a [u8]>,
    content_type: Option<&'a [u8]>,
    if_match: Option<&'a [u8]>,
    if_none_match: Option<&'a [u8]>,
    session: Option<&'a [u8]>,
    request: Option<&'a [u8]>,
    accepts_events: bool,
    last_event_id: Option<&'a [u8]>,
}

const OWN_HEADER_PREFIX: &str = "x-credenza-";

impl<'a> KnownHeaders<'a> {
    fn set(&mut self, name: &str, value: &'a [u8]) -> Result<(), RequestRefusal> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let slot = match name.len() {
            4 if is("host") => &mut self.host,
            6 if is("expect") => &mut self.expect,
            6 if is("origin") => &mut self.origin,
            // A list, which may stand in several headers.
            6 if is("accept") => {
                self.accepts_events |= names_event_stream(value);
                return Ok(());
            }
            8 if is("if-match") => &mut self.if_match,
            10 if is("connection") => &mut self.connection,
            12 if is("content-type") => &mut self.content_type,
            13 if is("authorization") => &mut self.authorization,
            13 if is("if-none-match") => &mut self.if_none_match,
            13 if is("last-event-id") => &mut self.last_event_id,
            14 if is("content-length") => &mut self.content_length,
            17 if is("transfer-encoding") => &mut self.transfer_encoding,
            18 if is("x-credenza-session") => &mut self.session,
            18 if is("x-credenza-request") => &mut self.request,
            16 if is("content-encoding") => {
                return refused(
                    StatusCode::UnsupportedMediaType,
                    "compressed bodies are not supported",
                );
            }
            // A misspelt session header would silently lose the guarantee it was sent for.
            11.. if name
                .get(..11)
                .is_some_and(|begin| begin.eq_ignore_ascii_case(OWN_HEADER_PREFIX)) =>
            {
                return refused(StatusCode::BadRequest, "unknown header x-credenza-...");
            }
            _ => return Ok(()),
        };
        if slot.replace(value).is_some() {
            return refused(
                StatusCode::BadRequest,
                "a header is repeated that may occur only once",
            );
        }
        Ok(())
    }

    fn body(&self, is_http_10: bool) -> Result<BodyFraming, RequestRefusal> {
        match (self.transfer_encoding, self.content_length) {
            (None, None) => Ok(BodyFraming::None),
            (None, Some(length)) => match parse_number(length) {
                Some(length) => Ok(BodyFraming::Length(length)),
                None => refused(StatusCode::BadRequest, "content-length is not a number"),
            },
            (Some(_), Some(_)) => refused(
                StatusCode::BadRequest,
                "content-length and transfer-encoding are both present: the body length is \
                 ambiguous",
            ),
            (Some(_), None) if is_http_10 => {
                refused(StatusCode::BadRequest, "transfer-encoding is not allowed in HTTP/1.0")
            }
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => {
                Ok(BodyFraming::Chunked)
            }
            (Some(_), None) => refused(
                StatusCode::NotImplemented,
                "the only supported transfer-encoding is chunked",
            ),
        }
    }

    fn keep_alive(&self, is_http_10: bool) -> bool {
        let Some(connection) = self.connection else { return !is_http_10 };
        let mut options = connection.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        if is_http_10 {
            options.any(|option| option.eq_ignore_ascii_case(b"keep-alive"))
        } else {
            !options.any(|option| option.eq_ignore_ascii_case(b"close"))
        }
    }
}

/// Parses a decimal number without sign or blanks.
pub fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn build_head<'a>(
    method: Method,
    target: &'a str,
    is_http_10: bool,
    known_headers: &KnownHeaders<'a>,
) -> Result<Head<'a>, RequestRefusal> {
    let mut host = match known_headers.host {
        Some(host) => host,
        // Load balancers check a server's health without `Host`. No browser omits it, so the
        // request can't come from a page that rebinds a name.
        None if is_http_10 => b"localhost",
        None => return refused(StatusCode::BadRequest, "the header `host` is required"),
    };
    let mut origin_form = target;
    // Absolute form, as a client sends it to a proxy: the name in it takes precedence.
    if let Some(rest) = target.strip_prefix("http://") {
        let slash = rest.find('/').unwrap_or(rest.len());
        host = &rest.as_bytes()[..slash];
        origin_form = if slash == rest.len() { "/" } else { &rest[slash..] };
    }
    if !origin_form.starts_with('/') {
        return refused(StatusCode::BadRequest, "the request target is not a path");
    }
    if origin_form.bytes().any(|byte| byte == b'#' || !byte.is_ascii_graphic()) {
        return refused(
            StatusCode::BadRequest,
            "the path contains a byte that must be percent-encoded",
        );
    }
    let (path, query) = origin_form.split_once('?').unwrap_or((origin_form, ""));
    let expects_continue = match known_headers.expect {
        None => false,
        Some(expectation) if expectation.eq_ignore_ascii_case(b"100-continue") => !is_http_10,
        Some(_) => {
            return refused(
                StatusCode::ExpectationFailed,
                "only `expect: 100-continue` is supported",
            );
        }
    };
    Ok(Head {
        method,
        path,
        query,
        body: known_headers.body(is_http_10)?,
        keep_alive: known_headers.keep_alive(is_http_10),
        is_http_10,
        expects_continue,
        host,
        authorization: known_headers.authorization,
        origin: known_headers.origin,
        content_type: known_headers.content_type,
        if_match: known_headers.if_match,
        if_none_match: known_headers.if_none_match,
        session: known_headers.session,
        request: known_headers.request,
        last_event: known_headers
            .accepts_events
            .then(|| known_headers.last_event_id.unwrap_or_default()),
    })
}

/// Returns true if a value of `Accept` names the type of server-sent events, with parameters or
/// without. A wildcard does not ask for them.
fn names_event_stream(accept: &[u8]) -> bool {
    accept.split(|&byte| byte == b',').any(|item| {
        let media_type = item.split(|&byte| byte == b';').next().unwrap_or_default();
        media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
    })
}
