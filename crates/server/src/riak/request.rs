//! Request of a Riak client, after parsing of its head.

use crate::http::Method;
use bytes::Bytes;

/// Request: the parts of its head, still encoded, and its body.
#[derive(Clone, Debug)]
pub struct RiakRequest {
    /// The method.
    pub method: Method,
    /// The path, still percent-encoded.
    pub path: String,
    /// Part of the target behind `?`, still percent-encoded.
    pub query: String,
    /// The headers in order: name, value.
    pub headers: Vec<(String, Bytes)>,
    /// The body.
    pub body: Bytes,
    /// Random number that becomes the key of a value stored without one.
    pub random_key: u128,
}

impl RiakRequest {
    /// Returns the value of a header; of several the first.
    pub(super) fn header(&self, name: &str) -> Option<&Bytes> {
        let found =
            self.headers.iter().find(|(header_name, _)| header_name.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    /// Returns the value of a header as text. `None`: there is no such header, or it is not UTF-8.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.header(name)?).ok()
    }

    /// Returns all values of a header, joined with commas.
    pub(super) fn joined(&self, name: &str) -> Vec<u8> {
        let mut values = Vec::new();
        let headers =
            self.headers.iter().filter(|(header_name, _)| header_name.eq_ignore_ascii_case(name));
        for (_, value) in headers {
            if !values.is_empty() {
                values.extend_from_slice(b", ");
            }
            values.extend_from_slice(value);
        }
        values
    }
}
