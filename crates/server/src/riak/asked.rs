//! Request of a Riak client, decoded to words.

use crate::http::Method;
use bytes::Bytes;

/// A request: its head's words, still encoded, and its body.
#[derive(Clone, Debug)]
pub struct RiakRequest {
    /// What to do.
    pub method: Method,
    /// The path, still percent-encoded.
    pub path: String,
    /// What follows `?`, still percent-encoded.
    pub query: String,
    /// The headers as they came: name, value.
    pub headers: Vec<(String, Bytes)>,
    /// The body.
    pub body: Bytes,
    /// What a key is made of that the client does not name: chance.
    pub chance: u128,
}

impl RiakRequest {
    /// A header's value; of several the first.
    pub(super) fn header(&self, name: &str) -> Option<&Bytes> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    /// A header's value as text; what is none is as if it were not there.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.header(name)?).ok()
    }

    /// Several lines of one header as the one they mean.
    pub(super) fn joined(&self, name: &str) -> Vec<u8> {
        let mut all = Vec::new();
        let lines = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        for (_, value) in lines {
            if !all.is_empty() {
                all.extend_from_slice(b", ");
            }
            all.extend_from_slice(value);
        }
        all
    }
}
