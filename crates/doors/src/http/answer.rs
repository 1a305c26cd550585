//! An answer, and its bytes.

use super::date::DATE_BYTES;
use bytes::Bytes;
use std::io::Write;

/// The statuses that are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Status {
    Ok,
    Created,
    NoContent,
    NotModified,
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    Conflict,
    LengthRequired,
    PreconditionFailed,
    TooLarge,
    UriTooLong,
    UnsupportedMediaType,
    ExpectationFailed,
    Misdirected,
    HeadersTooLarge,
    InternalError,
    NotImplemented,
    Unavailable,
    GatewayTimeout,
    VersionNotSupported,
}

impl Status {
    /// The number.
    pub fn code(self) -> u16 {
        self.line().0
    }

    fn line(self) -> (u16, &'static str) {
        match self {
            Status::Ok => (200, "OK"),
            Status::Created => (201, "Created"),
            Status::NoContent => (204, "No Content"),
            Status::NotModified => (304, "Not Modified"),
            Status::BadRequest => (400, "Bad Request"),
            Status::Forbidden => (403, "Forbidden"),
            Status::NotFound => (404, "Not Found"),
            Status::MethodNotAllowed => (405, "Method Not Allowed"),
            Status::RequestTimeout => (408, "Request Timeout"),
            Status::Conflict => (409, "Conflict"),
            Status::LengthRequired => (411, "Length Required"),
            Status::PreconditionFailed => (412, "Precondition Failed"),
            Status::TooLarge => (413, "Content Too Large"),
            Status::UriTooLong => (414, "URI Too Long"),
            Status::UnsupportedMediaType => (415, "Unsupported Media Type"),
            Status::ExpectationFailed => (417, "Expectation Failed"),
            Status::Misdirected => (421, "Misdirected Request"),
            Status::HeadersTooLarge => (431, "Request Header Fields Too Large"),
            Status::InternalError => (500, "Internal Server Error"),
            Status::NotImplemented => (501, "Not Implemented"),
            Status::Unavailable => (503, "Service Unavailable"),
            Status::GatewayTimeout => (504, "Gateway Timeout"),
            Status::VersionNotSupported => (505, "HTTP Version Not Supported"),
        }
    }
}

/// What an answer's body is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// There is none.
    None,
    /// A stored value, which no browser may show or run.
    Value(Bytes),
    /// JSON.
    Json(Bytes),
    /// Text of the named type.
    Text(&'static str, Bytes),
    /// Lines of JSON whose number is not known yet; they follow in chunks.
    JsonLines,
}

impl Content {
    /// The bytes that stand behind the head.
    pub fn bytes(&self) -> Bytes {
        match self {
            Content::None | Content::JsonLines => Bytes::new(),
            Content::Value(bytes) | Content::Json(bytes) | Content::Text(_, bytes) => bytes.clone(),
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: Status,
    /// The body.
    pub content: Content,
    /// The index of the log that the answer reflects.
    pub index: Option<u64>,
    /// The node that gave the answer, where another was asked.
    pub master: Option<String>,
    /// The row's version.
    pub etag: Option<u64>,
    /// Milliseconds until the row expires.
    pub expires_in_ms: Option<u64>,
    /// The methods that are allowed instead.
    pub allow: Option<String>,
}

/// What the connection is like that an answer goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// The connection goes on behind the answer.
    pub keep_alive: bool,
    /// The body is left out (`HEAD`).
    pub head_only: bool,
    /// The client speaks HTTP/1.0.
    pub is_http_10: bool,
}

/// A stored value may be a web page of a stranger: it is given as a file to keep, in no origin,
/// with no rights.
const VALUE_HEADERS: &[u8] = b"content-type: application/octet-stream\r\n\
    content-disposition: attachment\r\n\
    content-security-policy: default-src 'none'; frame-ancestors 'none'; sandbox\r\n\
    x-content-type-options: nosniff\r\n\
    cache-control: no-cache\r\n";
const OTHER_HEADERS: &[u8] =
    b"content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n\
    x-content-type-options: nosniff\r\n\
    cache-control: no-store\r\n";

impl Answer {
    /// Of this status and body.
    pub fn new(status: Status, content: Content) -> Answer {
        Answer {
            status,
            content,
            index: None,
            master: None,
            etag: None,
            expires_in_ms: None,
            allow: None,
        }
    }

    /// Appends the head with this date (RFC 9110, section 6.6.1); the body is [`Content::bytes`],
    /// unless the manner leaves it out.
    pub fn encode_head(&self, out: &mut Vec<u8>, manner: Manner, date: &[u8; DATE_BYTES]) {
        let (code, words) = self.status.line();
        // Writing to a vector can't fail.
        let _ = write!(out, "HTTP/1.1 {code} {words}\r\n");
        out.extend_from_slice(b"date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
        match &self.content {
            Content::None => out.extend_from_slice(OTHER_HEADERS),
            Content::Value(_) => out.extend_from_slice(VALUE_HEADERS),
            Content::Json(_) => {
                out.extend_from_slice(b"content-type: application/json\r\n");
                out.extend_from_slice(OTHER_HEADERS);
            }
            Content::Text(kind, _) => {
                let _ = write!(out, "content-type: {kind}\r\n");
                out.extend_from_slice(OTHER_HEADERS);
            }
            Content::JsonLines => {
                out.extend_from_slice(b"content-type: application/x-ndjson\r\n");
                out.extend_from_slice(OTHER_HEADERS);
            }
        }
        self.encode_length(out, manner);
        if let Some(index) = self.index {
            let _ = write!(out, "x-credenza-index: {index}\r\n");
        }
        if let Some(master) = &self.master {
            let name = base::codec::printable(master.as_bytes());
            let _ = write!(out, "x-credenza-master: {name}\r\n");
        }
        if let Some(version) = self.etag {
            let _ = write!(out, "etag: \"{version}\"\r\n");
        }
        if let Some(expires) = self.expires_in_ms {
            let _ = write!(out, "x-credenza-expires-in-ms: {expires}\r\n");
        }
        if let Some(allow) = &self.allow {
            let _ = write!(out, "allow: {allow}\r\n");
        }
        if self.status == Status::Unavailable {
            out.extend_from_slice(b"retry-after: 1\r\n");
        }
        if !manner.keep_alive {
            out.extend_from_slice(b"connection: close\r\n");
        } else if manner.is_http_10 {
            out.extend_from_slice(b"connection: keep-alive\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    fn encode_length(&self, out: &mut Vec<u8>, manner: Manner) {
        let length = match &self.content {
            Content::JsonLines if manner.is_http_10 => return,
            Content::JsonLines => {
                out.extend_from_slice(b"transfer-encoding: chunked\r\n");
                return;
            }
            Content::None => 0,
            Content::Value(bytes) | Content::Json(bytes) | Content::Text(_, bytes) => bytes.len(),
        };
        // These two never have a body, and say so by themselves.
        if self.status != Status::NoContent && self.status != Status::NotModified {
            let _ = write!(out, "content-length: {length}\r\n");
        }
    }
}
