//! Parser of HTTP/1.1 replies: status, length, body; only what the driven servers send.

use serde_json::Value;
use std::borrow::Cow;

/// Largest head of a reply, bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A whole reply.
#[derive(Debug, PartialEq)]
pub struct HttpReply<'a> {
    /// The status.
    pub status: u16,
    /// The lines before the body.
    pub head: &'a str,
    /// The body; of a chunked reply with the chunks' sizes still in it.
    pub body: &'a [u8],
    /// Length of the whole reply, bytes.
    pub bytes: usize,
}

/// Malformed input: not HTTP, or a reply whose end can't be found.
#[derive(Debug, PartialEq)]
pub struct MalformedReply;

/// Returns the first reply. `None`: it is incomplete. `is_head`: the request was a HEAD.
pub fn parse_http_reply(
    input: &[u8],
    is_head: bool,
) -> Option<Result<HttpReply<'_>, MalformedReply>> {
    let Some(end) = find(input, b"\r\n\r\n") else {
        return (input.len() > HEAD_BYTES_MAX).then_some(Err(MalformedReply));
    };
    let Ok(text) = std::str::from_utf8(&input[..end]) else { return Some(Err(MalformedReply)) };
    let mut lines = text.split("\r\n");
    let status =
        lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let Some(status) = status else { return Some(Err(MalformedReply)) };
    let (mut length, mut chunked) = (None, false);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse::<usize>().ok();
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    let body_start = end + 4;
    let length = match length {
        _ if is_head || status == 204 || status == 304 => 0,
        _ if chunked => match chunked_length(&input[body_start..])? {
            Ok(bytes) => bytes,
            Err(MalformedReply) => return Some(Err(MalformedReply)),
        },
        Some(length) if length <= base::limits::FRAME_BYTES_MAX => length,
        _ => return Some(Err(MalformedReply)),
    };
    let body = input[body_start..].get(..length)?;
    Some(Ok(HttpReply { status, head: text, body, bytes: body_start + length }))
}

impl<'a> HttpReply<'a> {
    /// Returns a header's value; `name` in lower case. `None`: absent.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let mut lines = self.head.split("\r\n").filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// Returns the body without the sizes of chunks. `None`: a chunk is malformed.
    pub fn whole_body(&self) -> Option<Cow<'a, [u8]>> {
        let encoding = self.header("transfer-encoding");
        if !encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("chunked")) {
            return Some(Cow::Borrowed(self.body));
        }
        let (mut body, mut at) = (Vec::with_capacity(self.body.len()), 0);
        loop {
            let rest = self.body.get(at..)?;
            let line = find(rest, b"\r\n")?;
            let size = std::str::from_utf8(&rest[..line]).ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            if size == 0 {
                return Some(Cow::Owned(body));
            }
            body.extend_from_slice(rest.get(line + 2..line + 2 + size)?);
            at += line + 2 + size + 2;
        }
    }

    /// Returns the reason in the body of an error. `None`: the body has none.
    pub fn reason(&self) -> Option<String> {
        let reason = body_json(self.body)?.get("error")?.get("reason")?.as_str()?.to_string();
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        reason.bytes().all(is_plain).then_some(reason)
    }
}

/// Parses a body as JSON. `None`: malformed.
pub fn body_json(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body).ok()
}

/// Returns the length of a chunked body with its last empty chunk, in bytes. `None`: incomplete.
fn chunked_length(input: &[u8]) -> Option<Result<usize, MalformedReply>> {
    let mut at = 0;
    loop {
        let line = find(&input[at..], b"\r\n")?;
        let size = std::str::from_utf8(&input[at..at + line]).ok();
        let size = size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let Some(size) = size.filter(|size| *size <= base::limits::FRAME_BYTES_MAX) else {
            return Some(Err(MalformedReply));
        };
        at += line + 2 + size + 2;
        if at > input.len() {
            return None;
        }
        if size == 0 {
            return Some(Ok(at));
        }
    }
}

fn find(input: &[u8], needle: &[u8]) -> Option<usize> {
    input.windows(needle.len()).position(|window| window == needle)
}
