//! Parser of the head of a request. Strict: it refuses what two parsers could read differently.

use super::answer::StatusCode;
use base::limits::{HTTP_HEADER_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_LINE_BYTES_MAX, KEY_BYTES_MAX};
use bytes::Bytes;

// A range request may name three keys of maximum size with every byte percent-encoded.
const _: () = assert!(HTTP_LINE_BYTES_MAX == 3 * 3 * KEY_BYTES_MAX + 4 * 1024);

/// Method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Method {
    Get,
    Head,
    Put,
    Post,
    Patch,
    Delete,
    Other,
}

impl Method {
    /// Returns the method as a request writes it.
    pub fn word(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Put => "PUT",
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Other => "?",
        }
    }

    fn read(word: &str) -> Method {
        let known =
            [Method::Get, Method::Head, Method::Put, Method::Post, Method::Patch, Method::Delete];
        known.into_iter().find(|method| method.word() == word).unwrap_or(Method::Other)
    }
}

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
}

/// Result of parsing a head.
#[derive(Debug)]
pub enum Parsed<'a> {
    /// The head is not complete.
    More,
    /// A head, and its length in bytes.
    Head(Head<'a>, usize),
}

/// Refusal of bytes that are not an acceptable request. The connection ends after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Status of the answer.
    pub status: StatusCode,
    /// Reason, as a sentence.
    pub detail: &'static str,
}

fn refused<T>(status: StatusCode, detail: &'static str) -> Result<T, Refused> {
    Err(Refused { status, detail })
}

/// Parses one head at the beginning of `bytes`.
pub fn parse(bytes: &[u8]) -> Result<Parsed<'_>, Refused> {
    let mut headers = [httparse::EMPTY_HEADER; HTTP_HEADERS_MAX];
    read(bytes, &mut headers, |slots, name, value| slots.take(name, value))
}

/// Most headers of a client that sends one for each link of a value.
const OPEN_HEADERS_MAX: usize = 512;

/// Parses a head like [`parse`], for clients whose headers belong to the value that they store.
/// Keeps all headers in `kept`; interprets only those that frame the request.
pub fn parse_open<'a>(
    bytes: &'a [u8],
    kept: &mut Vec<(String, Bytes)>,
) -> Result<Parsed<'a>, Refused> {
    const FRAMING: [&str; 6] =
        ["host", "connection", "expect", "origin", "content-length", "transfer-encoding"];
    let mut headers = [httparse::EMPTY_HEADER; OPEN_HEADERS_MAX];
    read(bytes, &mut headers, |slots, name, value| {
        kept.push((name.to_string(), Bytes::copy_from_slice(value)));
        let framing = FRAMING.iter().any(|known| name.eq_ignore_ascii_case(known));
        if framing { slots.take(name, value) } else { Ok(()) }
    })
}

fn read<'a>(
    bytes: &'a [u8],
    headers: &mut [httparse::Header<'a>],
    mut take: impl FnMut(&mut Slots<'a>, &'a str, &'a [u8]) -> Result<(), Refused>,
) -> Result<Parsed<'a>, Refused> {
    // Refuse a bare line feed at once. Otherwise a client that sends nothing but these would make
    // the parser search all of them again each time.
    if bytes.first() == Some(&b'\n') {
        return refused(StatusCode::BadRequest, BARE_LINE_END);
    }
    let mut request = httparse::Request::new(headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return partial(bytes),
        Err(error) => return Err(unreadable(error)),
    };
    check_sizes(&bytes[..length])?;
    if has_bare_line_end(&bytes[..length]) {
        return refused(StatusCode::BadRequest, BARE_LINE_END);
    }
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return refused(StatusCode::BadRequest, "the request line is not complete");
    };
    let mut slots = Slots::default();
    for header in request.headers.iter() {
        take(&mut slots, header.name, header.value)?;
    }
    let head = words(Method::read(method), target, version == 0, &slots)?;
    Ok(Parsed::Head(head, length))
}

const BARE_LINE_END: &str = "a line ends without carriage return";
const HEAD_TOO_LARGE: &str = "the headers are larger than 64 KiB, or there are more than 64";
const LINE_TOO_LONG: &str = "the request line is larger than 292 KiB";

fn partial(bytes: &[u8]) -> Result<Parsed<'_>, Refused> {
    check_sizes(bytes)?;
    Ok(Parsed::More)
}

/// Checks the limits of the request line and of the headers. They hold whether the head arrives at
/// once or in pieces.
fn check_sizes(head: &[u8]) -> Result<(), Refused> {
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

fn unreadable(error: httparse::Error) -> Refused {
    use httparse::Error;
    let (status, detail) = match error {
        Error::HeaderName => (StatusCode::BadRequest, "a header's name holds a forbidden byte"),
        Error::HeaderValue => (StatusCode::BadRequest, "a header's value holds a forbidden byte"),
        Error::NewLine => (StatusCode::BadRequest, "a line ends in a way that is no line end"),
        Error::Status => (StatusCode::BadRequest, "this is no request"),
        Error::Token => (StatusCode::BadRequest, "the request line holds a forbidden byte"),
        Error::TooManyHeaders => (StatusCode::HeadersTooLarge, HEAD_TOO_LARGE),
        Error::Version => {
            (StatusCode::VersionNotSupported, "only HTTP/1.1 and HTTP/1.0 are spoken")
        }
    };
    Refused { status, detail }
}

/// `httparse` accepts a bare `\n` as a line end and other parsers don't; two parsers must agree.
fn has_bare_line_end(head: &[u8]) -> bool {
    let mut before = 0;
    for &byte in head {
        if byte == b'\n' && before != b'\r' {
            return true;
        }
        before = byte;
    }
    false
}

/// Headers that have a meaning here. Each may occur once.
#[derive(Default)]
struct Slots<'a> {
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
}

const OURS: &str = "x-credenza-";

impl<'a> Slots<'a> {
    fn take(&mut self, name: &str, value: &'a [u8]) -> Result<(), Refused> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let slot = match name.len() {
            4 if is("host") => &mut self.host,
            6 if is("expect") => &mut self.expect,
            6 if is("origin") => &mut self.origin,
            8 if is("if-match") => &mut self.if_match,
            10 if is("connection") => &mut self.connection,
            12 if is("content-type") => &mut self.content_type,
            13 if is("authorization") => &mut self.authorization,
            13 if is("if-none-match") => &mut self.if_none_match,
            14 if is("content-length") => &mut self.content_length,
            17 if is("transfer-encoding") => &mut self.transfer_encoding,
            18 if is("x-credenza-session") => &mut self.session,
            18 if is("x-credenza-request") => &mut self.request,
            16 if is("content-encoding") => {
                return refused(StatusCode::UnsupportedMediaType, "compressed bodies are not read");
            }
            // A misspelt session header would silently lose the guarantee it was sent for.
            11.. if name.get(..11).is_some_and(|begin| begin.eq_ignore_ascii_case(OURS)) => {
                return refused(StatusCode::BadRequest, "a header x-credenza-... is not known");
            }
            _ => return Ok(()),
        };
        if slot.replace(value).is_some() {
            return refused(StatusCode::BadRequest, "a header stands twice");
        }
        Ok(())
    }

    fn body(&self, is_http_10: bool) -> Result<BodyFraming, Refused> {
        match (self.transfer_encoding, self.content_length) {
            (None, None) => Ok(BodyFraming::None),
            (None, Some(length)) => match number(length) {
                Some(length) => Ok(BodyFraming::Length(length)),
                None => refused(StatusCode::BadRequest, "content-length is no number"),
            },
            (Some(_), Some(_)) => refused(
                StatusCode::BadRequest,
                "content-length and transfer-encoding stand together: the body's end is uncertain",
            ),
            (Some(_), None) if is_http_10 => {
                refused(StatusCode::BadRequest, "HTTP/1.0 has no transfer-encoding")
            }
            (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") => {
                Ok(BodyFraming::Chunked)
            }
            (Some(_), None) => {
                refused(StatusCode::NotImplemented, "the only transfer-encoding read is chunked")
            }
        }
    }

    fn keep_alive(&self, is_http_10: bool) -> bool {
        let Some(connection) = self.connection else { return !is_http_10 };
        let mut words = connection.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        if is_http_10 {
            words.any(|word| word.eq_ignore_ascii_case(b"keep-alive"))
        } else {
            !words.any(|word| word.eq_ignore_ascii_case(b"close"))
        }
    }
}

/// Parses a decimal number without sign or blanks.
pub fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn words<'a>(
    method: Method,
    target: &'a str,
    is_http_10: bool,
    slots: &Slots<'a>,
) -> Result<Head<'a>, Refused> {
    let mut host = match slots.host {
        Some(host) => host,
        // Load balancers check a server's health without `Host`. No browser omits it, so the
        // request can't come from a page that rebinds a name.
        None if is_http_10 => b"localhost",
        None => return refused(StatusCode::BadRequest, "a request needs a header `host`"),
    };
    let mut origin_form = target;
    // Absolute form, as a client sends it to a proxy: the name in it takes precedence.
    if let Some(rest) = target.strip_prefix("http://") {
        let slash = rest.find('/').unwrap_or(rest.len());
        host = &rest.as_bytes()[..slash];
        origin_form = if slash == rest.len() { "/" } else { &rest[slash..] };
    }
    if !origin_form.starts_with('/') {
        return refused(StatusCode::BadRequest, "the request's target is no path");
    }
    if origin_form.bytes().any(|byte| byte == b'#' || !byte.is_ascii_graphic()) {
        return refused(
            StatusCode::BadRequest,
            "the path holds a byte that must be percent-encoded",
        );
    }
    let (path, query) = origin_form.split_once('?').unwrap_or((origin_form, ""));
    let expects_continue = match slots.expect {
        None => false,
        Some(word) if word.eq_ignore_ascii_case(b"100-continue") => !is_http_10,
        Some(_) => {
            return refused(StatusCode::ExpectationFailed, "only `expect: 100-continue` is known");
        }
    };
    Ok(Head {
        method,
        path,
        query,
        body: slots.body(is_http_10)?,
        keep_alive: slots.keep_alive(is_http_10),
        is_http_10,
        expects_continue,
        host,
        authorization: slots.authorization,
        origin: slots.origin,
        content_type: slots.content_type,
        if_match: slots.if_match,
        if_none_match: slots.if_none_match,
        session: slots.session,
        request: slots.request,
    })
}
