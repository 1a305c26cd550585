//! Answer of an HTTP front-end, and its encoding.

use super::date::DATE_BYTES;
use bytes::Bytes;
use std::io::Write;

/// Status code of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum StatusCode {
    Ok,
    Created,
    NoContent,
    NotModified,
    BadRequest,
    Unauthorized,
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
    TooManyRequests,
    HeadersTooLarge,
    InternalError,
    NotImplemented,
    Unavailable,
    GatewayTimeout,
    VersionNotSupported,
}

impl StatusCode {
    /// Returns the number.
    pub fn code(self) -> u16 {
        self.status_line().0
    }

    fn status_line(self) -> (u16, &'static str) {
        match self {
            StatusCode::Ok => (200, "OK"),
            StatusCode::Created => (201, "Created"),
            StatusCode::NoContent => (204, "No Content"),
            StatusCode::NotModified => (304, "Not Modified"),
            StatusCode::BadRequest => (400, "Bad Request"),
            StatusCode::Unauthorized => (401, "Unauthorized"),
            StatusCode::Forbidden => (403, "Forbidden"),
            StatusCode::NotFound => (404, "Not Found"),
            StatusCode::MethodNotAllowed => (405, "Method Not Allowed"),
            StatusCode::RequestTimeout => (408, "Request Timeout"),
            StatusCode::Conflict => (409, "Conflict"),
            StatusCode::LengthRequired => (411, "Length Required"),
            StatusCode::PreconditionFailed => (412, "Precondition Failed"),
            StatusCode::TooLarge => (413, "Content Too Large"),
            StatusCode::UriTooLong => (414, "URI Too Long"),
            StatusCode::UnsupportedMediaType => (415, "Unsupported Media Type"),
            StatusCode::ExpectationFailed => (417, "Expectation Failed"),
            StatusCode::Misdirected => (421, "Misdirected Request"),
            StatusCode::TooManyRequests => (429, "Too Many Requests"),
            StatusCode::HeadersTooLarge => (431, "Request Header Fields Too Large"),
            StatusCode::InternalError => (500, "Internal Server Error"),
            StatusCode::NotImplemented => (501, "Not Implemented"),
            StatusCode::Unavailable => (503, "Service Unavailable"),
            StatusCode::GatewayTimeout => (504, "Gateway Timeout"),
            StatusCode::VersionNotSupported => (505, "HTTP Version Not Supported"),
        }
    }
}

/// Body of an answer, with its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerContent {
    /// No body.
    None,
    /// Stored value. Headers keep browsers from showing or running it.
    Value(Bytes),
    /// JSON.
    Json(Bytes),
    /// Text of this media type.
    Text(&'static str, Bytes),
    /// JSON lines, whose number is not known yet. They follow in chunks.
    JsonLines,
    /// Server-sent events, which follow in chunks as they happen.
    EventStream,
}

impl AnswerContent {
    /// Returns the bytes behind the head.
    pub fn bytes(&self) -> Bytes {
        match self {
            AnswerContent::None | AnswerContent::JsonLines | AnswerContent::EventStream => {
                Bytes::new()
            }
            AnswerContent::Value(bytes)
            | AnswerContent::Json(bytes)
            | AnswerContent::Text(_, bytes) => bytes.clone(),
        }
    }
}

/// HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub content: AnswerContent,
    /// Log index that the answer reflects. Absent if the answer has none.
    pub index: Option<u64>,
    /// Name of the node that answered, if it is another one.
    pub master: Option<String>,
    /// Version of the row.
    pub etag: Option<u64>,
    /// Time in milliseconds until the row expires. Absent if it does not.
    pub expires_in_ms: Option<u64>,
    /// Methods that the path allows, for a refused one.
    pub allow: Option<String>,
}

/// Properties of the connection that decide how an answer is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeOptions {
    /// True if the connection stays open after the answer.
    pub keep_alive: bool,
    /// True if the body is left out (`HEAD`).
    pub head_only: bool,
    /// True if the client speaks HTTP/1.0.
    pub is_http_10: bool,
}

/// A stored value may be a hostile web page. So it is served as a download, without an origin and
/// without permissions.
const VALUE_HEADERS: &[u8] = b"content-type: application/octet-stream\r\n\
    content-disposition: attachment\r\n\
    content-security-policy: default-src 'none'; frame-ancestors 'none'; sandbox\r\n\
    x-content-type-options: nosniff\r\n\
    cache-control: no-cache\r\n";
/// Ways to log in (RFC 9110, section 11.6.1).
const CHALLENGES: &[u8] = b"www-authenticate: Basic realm=\"credenza\", charset=\"UTF-8\"\r\n\
    www-authenticate: Bearer realm=\"credenza\"\r\n";
const OTHER_HEADERS: &[u8] =
    b"content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n\
    x-content-type-options: nosniff\r\n\
    cache-control: no-store\r\n";

impl HttpAnswer {
    /// Returns an answer with this status and body, and no optional header.
    pub fn new(status: StatusCode, content: AnswerContent) -> HttpAnswer {
        HttpAnswer {
            status,
            content,
            index: None,
            master: None,
            etag: None,
            expires_in_ms: None,
            allow: None,
        }
    }

    /// Appends the head with this date (RFC 9110, section 6.6.1). The caller appends the body
    /// ([`AnswerContent::bytes`]) unless the connection wants only the head.
    pub fn encode_head(
        &self,
        out: &mut Vec<u8>,
        encode_options: EncodeOptions,
        date: &[u8; DATE_BYTES],
    ) {
        let (code, words) = self.status.status_line();
        // Writing to a vector can't fail.
        let _ = write!(out, "HTTP/1.1 {code} {words}\r\n");
        out.extend_from_slice(b"date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
        match &self.content {
            AnswerContent::None => out.extend_from_slice(OTHER_HEADERS),
            AnswerContent::Value(_) => out.extend_from_slice(VALUE_HEADERS),
            AnswerContent::Json(_) => {
                out.extend_from_slice(b"content-type: application/json\r\n");
                out.extend_from_slice(OTHER_HEADERS);
            }
            AnswerContent::Text(kind, _) => {
                let _ = write!(out, "content-type: {kind}\r\n");
                out.extend_from_slice(OTHER_HEADERS);
            }
            AnswerContent::JsonLines => {
                out.extend_from_slice(b"content-type: application/x-ndjson\r\n");
                out.extend_from_slice(OTHER_HEADERS);
            }
            AnswerContent::EventStream => {
                out.extend_from_slice(b"content-type: text/event-stream\r\n");
                out.extend_from_slice(OTHER_HEADERS);
            }
        }
        self.encode_length(out, encode_options);
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
        if self.status == StatusCode::Unauthorized {
            out.extend_from_slice(CHALLENGES);
        }
        if matches!(self.status, StatusCode::Unavailable | StatusCode::TooManyRequests) {
            out.extend_from_slice(b"retry-after: 1\r\n");
        }
        if !encode_options.keep_alive {
            out.extend_from_slice(b"connection: close\r\n");
        } else if encode_options.is_http_10 {
            out.extend_from_slice(b"connection: keep-alive\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    fn encode_length(&self, out: &mut Vec<u8>, encode_options: EncodeOptions) {
        let length = match &self.content {
            AnswerContent::JsonLines | AnswerContent::EventStream if encode_options.is_http_10 => {
                return;
            }
            AnswerContent::JsonLines | AnswerContent::EventStream => {
                out.extend_from_slice(b"transfer-encoding: chunked\r\n");
                return;
            }
            AnswerContent::None => 0,
            AnswerContent::Value(bytes)
            | AnswerContent::Json(bytes)
            | AnswerContent::Text(_, bytes) => bytes.len(),
        };
        // These two statuses never have a body, so they need no length.
        if self.status != StatusCode::NoContent && self.status != StatusCode::NotModified {
            let _ = write!(out, "content-length: {length}\r\n");
        }
    }
}
