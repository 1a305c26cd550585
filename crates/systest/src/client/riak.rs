//! Client of Riak's HTTP front-end, as far as objects go: values with their context, siblings as
//! parts.

use super::{Http, HttpResponse, encode_key};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Contents of a key as a client sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RiakObject {
    /// Its values, without tombstones.
    pub values: Vec<Vec<u8>>,
    /// Number of tombstones beside them.
    pub deletes: usize,
    /// Context to send with the next write. `None`: the key was never written.
    pub context: Option<String>,
}

/// Outcome of a call.
#[derive(Clone, Debug)]
pub enum RiakOutcome {
    /// Success, with the contents if they were requested.
    Done(RiakObject),
    /// The key is absent or deleted, so a delete did nothing.
    Absent(RiakObject),
    /// Any other response.
    Other(HttpResponse),
}

/// A connection.
pub struct Riak {
    web: Http,
}

impl Riak {
    /// Connects; each response may take at most `timeout`.
    pub fn with_timeout(address: SocketAddr, timeout: Duration) -> io::Result<Riak> {
        Ok(Riak { web: Http::with_timeout(address, timeout)? })
    }

    /// Reads a key. `bucket_path` is `TYPE/BUCKET`; `options` is the query.
    pub fn fetch(
        &mut self,
        bucket_path: &str,
        key: &str,
        options: &str,
    ) -> io::Result<RiakOutcome> {
        let accept = [("accept", "multipart/mixed, text/plain;q=0.5, */*;q=0.1")];
        let answer = self.web.request_with_headers(
            "GET",
            &object_path(bucket_path, key, options),
            &accept,
            b"",
        )?;
        Ok(decode_outcome(answer))
    }

    /// Writes a key with a context, if one was read.
    pub fn store(
        &mut self,
        bucket_path: &str,
        key: &str,
        value: &[u8],
        (context, options): (Option<&str>, &str),
    ) -> io::Result<RiakOutcome> {
        let mut headers =
            vec![("content-type", "text/plain"), ("accept", "multipart/mixed, text/plain;q=0.5")];
        headers.extend(context.map(|context| ("x-riak-vclock", context)));
        let answer = self.web.request_with_headers(
            "PUT",
            &object_path(bucket_path, key, options),
            &headers,
            value,
        )?;
        Ok(decode_outcome(answer))
    }

    /// Deletes the values that the context covers.
    pub fn remove(
        &mut self,
        bucket_path: &str,
        key: &str,
        (context, options): (Option<&str>, &str),
    ) -> io::Result<RiakOutcome> {
        let headers: Vec<_> =
            context.map(|context| ("x-riak-vclock", context)).into_iter().collect();
        let answer = self.web.request_with_headers(
            "DELETE",
            &object_path(bucket_path, key, options),
            &headers,
            b"",
        )?;
        Ok(decode_outcome(answer))
    }
}

fn object_path(bucket_path: &str, key: &str, options: &str) -> String {
    let (kind, bucket) = bucket_path.split_once('/').expect("TYPE/BUCKET");
    let key = encode_key(key.as_bytes());
    let options = if options.is_empty() { String::new() } else { format!("?{options}") };
    format!("/types/{kind}/buckets/{bucket}/keys/{key}{options}")
}

fn decode_outcome(answer: HttpResponse) -> RiakOutcome {
    let context = answer.header("x-riak-vclock").map(String::from);
    match answer.status {
        200 => RiakOutcome::Done(RiakObject { values: vec![answer.body], deletes: 0, context }),
        204 => RiakOutcome::Done(RiakObject { context, ..RiakObject::default() }),
        300 => {
            let kind = answer.header("content-type").unwrap_or_default();
            match kind.split_once("boundary=") {
                Some((_, boundary)) => {
                    let (values, deletes) = split_parts(&answer.body, boundary);
                    RiakOutcome::Done(RiakObject { values, deletes, context })
                }
                None => RiakOutcome::Other(answer),
            }
        }
        404 => {
            let deletes = usize::from(answer.header("x-riak-deleted").is_some());
            RiakOutcome::Absent(RiakObject { values: Vec::new(), deletes, context })
        }
        _ => RiakOutcome::Other(answer),
    }
}

/// Splits a multipart body; returns its values and the number of tombstones.
fn split_parts(body: &[u8], boundary: &str) -> (Vec<Vec<u8>>, usize) {
    let line = format!("\r\n--{boundary}").into_bytes();
    let mut starts = Vec::new();
    let mut at = 0;
    while let Some(found) = position_of(&body[at..], &line) {
        starts.push(at + found);
        at += found + line.len();
    }
    let (mut values, mut deletes) = (Vec::new(), 0);
    for pair in starts.windows(2) {
        let part = &body[pair[0] + line.len()..pair[1]];
        let Some(end) = position_of(part, b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&part[..end]).to_ascii_lowercase();
        if head.contains("x-riak-deleted: true") {
            deletes += 1;
        } else {
            values.push(part[end + 4..].to_vec());
        }
    }
    (values, deletes)
}

fn position_of(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multipart_body_splits_into_exact_values_and_tombstones() {
        let body =
            b"\r\n--B\r\nContent-Type: a/b\r\n\r\none\r\n\r\n--B\r\nX-Riak-Deleted: true\r\n\
                     \r\n\r\n--B\r\nEtag: x\r\n\r\n\r\n--B--\r\n";
        assert_eq!(split_parts(body, "B"), (vec![b"one\r\n".to_vec(), Vec::new()], 1));
    }
}
