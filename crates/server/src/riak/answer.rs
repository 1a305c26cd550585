//! Answer of the Riak front-end, and its encoding.

use crate::http::date;
use bytes::Bytes;
use std::io::Write;

/// Header that says what a browser may do with an answer.
pub(super) const POLICY: &str = "Content-Security-Policy";
/// Policy of answers that set none: a stored value, a name in a list and the input that an error
/// repeats may be a hostile web page, and browsers must give it no rights.
pub(super) const NO_RIGHTS: &str = "default-src 'none'; sandbox";

/// Answer of the Riak front-end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RiakResponse {
    /// Status code.
    pub status: u16,
    /// Headers in order, without those of the length, date and connection.
    pub headers: Vec<(Bytes, Bytes)>,
    /// The body.
    pub body: Bytes,
}

impl RiakResponse {
    /// Returns an answer with this status, without headers and body.
    pub fn empty(status: u16) -> RiakResponse {
        RiakResponse { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// Returns an answer with a body of this media type.
    pub fn with_body(status: u16, kind: &'static str, body: impl Into<Bytes>) -> RiakResponse {
        let answer = RiakResponse { body: body.into(), ..RiakResponse::empty(status) };
        answer.with_header("Content-Type", kind)
    }

    /// Returns an answer with a plain text.
    pub fn text(status: u16, text: impl Into<String>) -> RiakResponse {
        RiakResponse::with_body(status, "text/plain", Bytes::from(text.into()))
    }

    /// Adds a header.
    pub fn with_header(mut self, name: &'static str, value: impl Into<Bytes>) -> RiakResponse {
        self.headers.push((Bytes::from_static(name.as_bytes()), value.into()));
        self
    }

    /// Returns the reason phrase of the status.
    pub fn reason(&self) -> &'static str {
        match self.status {
            200 => "OK",
            201 => "Created",
            204 => "No Content",
            300 => "Multiple Choices",
            301 => "Moved Permanently",
            304 => "Not Modified",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            406 => "Not Acceptable",
            409 => "Conflict",
            412 => "Precondition Failed",
            413 => "Content Too Large",
            415 => "Unsupported Media Type",
            429 => "Too Many Requests",
            501 => "Not Implemented",
            503 => "Service Unavailable",
            408 => "Request Timeout",
            411 => "Length Required",
            414 => "URI Too Long",
            417 => "Expectation Failed",
            421 => "Misdirected Request",
            431 => "Request Header Fields Too Large",
            504 => "Gateway Timeout",
            505 => "HTTP Version Not Supported",
            _ => "Internal Server Error",
        }
    }

    /// Appends the answer's bytes, without the headers that every answer has. A `HEAD` request is
    /// answered without the body.
    pub fn encode(&self, out: &mut Vec<u8>, head_only: bool) {
        self.encode_with(out, head_only, true, None);
    }

    /// Appends the answer's bytes with the headers that every answer has (`now_ms`: date in
    /// milliseconds since 1970; `None`: without them). `keep_alive` is false if the connection ends
    /// with it.
    pub(super) fn encode_with(
        &self,
        out: &mut Vec<u8>,
        head_only: bool,
        keep_alive: bool,
        now_ms: Option<u64>,
    ) {
        // Writing to a vector can't fail.
        let _ = write!(out, "HTTP/1.1 {} {}\r\n", self.status, self.reason());
        if let Some(now_ms) = now_ms {
            let _ = write!(out, "Server: Credenza\r\nDate: {}\r\n", date::format(now_ms));
            out.extend_from_slice(b"X-Content-Type-Options: nosniff\r\n");
            if !self.headers.iter().any(|(name, _)| name == POLICY) {
                let _ = write!(out, "{POLICY}: {NO_RIGHTS}\r\n");
            }
        }
        for (name, value) in &self.headers {
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            // A line end in a stored header would start another header.
            let printable =
                value.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte });
            out.extend(printable);
            out.extend_from_slice(b"\r\n");
        }
        if !keep_alive {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        if !matches!(self.status, 204 | 304) {
            let _ = write!(out, "Content-Length: {}\r\n", self.body.len());
        }
        out.extend_from_slice(b"\r\n");
        if !head_only && !matches!(self.status, 204 | 304) {
            out.extend_from_slice(&self.body);
        }
    }
}
