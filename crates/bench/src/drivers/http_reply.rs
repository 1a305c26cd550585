//! Parser of HTTP/1.1 replies: status, length, body; only what the driven servers send.

use serde_json::Value;

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
pub struct NoReply;

/// Returns the first reply. `None`: it is incomplete. `bodiless`: the request was a HEAD.
pub fn head(input: &[u8], bodiless: bool) -> Option<Result<HttpReply<'_>, NoReply>> {
    let Some(end) = find(input, b"\r\n\r\n") else {
        return (input.len() > HEAD_BYTES_MAX).then_some(Err(NoReply));
    };
    let Ok(text) = std::str::from_utf8(&input[..end]) else { return Some(Err(NoReply)) };
    let mut lines = text.split("\r\n");
    let status =
        lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let Some(status) = status else { return Some(Err(NoReply)) };
    let (mut length, mut chunked) = (None, false);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse::<usize>().ok();
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    let from = end + 4;
    let length = match length {
        _ if bodiless || status == 204 || status == 304 => 0,
        _ if chunked => match chunks(&input[from..])? {
            Ok(bytes) => bytes,
            Err(NoReply) => return Some(Err(NoReply)),
        },
        Some(length) if length <= base::limits::FRAME_BYTES_MAX => length,
        _ => return Some(Err(NoReply)),
    };
    let body = input[from..].get(..length)?;
    Some(Ok(HttpReply { status, head: text, body, bytes: from + length }))
}

impl<'a> HttpReply<'a> {
    /// Returns a header's value; `name` in lower case. `None`: absent.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let mut lines = self.head.split("\r\n").filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// Returns the reason in the body of an error. `None`: the body has none.
    pub fn reason(&self) -> Option<String> {
        let reason = body_json(self.body)?.get("error")?.get("reason")?.as_str()?.to_string();
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        reason.bytes().all(plain).then_some(reason)
    }
}

/// Parses a body as JSON. `None`: malformed.
pub fn body_json(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body).ok()
}

/// Returns the length of a chunked body with its last empty chunk, in bytes. `None`: incomplete.
fn chunks(input: &[u8]) -> Option<Result<usize, NoReply>> {
    let mut at = 0;
    loop {
        let line = find(&input[at..], b"\r\n")?;
        let size = std::str::from_utf8(&input[at..at + line]).ok();
        let size = size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let Some(size) = size.filter(|size| *size <= base::limits::FRAME_BYTES_MAX) else {
            return Some(Err(NoReply));
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

fn find(input: &[u8], wanted: &[u8]) -> Option<usize> {
    input.windows(wanted.len()).position(|window| window == wanted)
}
