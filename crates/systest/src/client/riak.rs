//! Client of Riak's HTTP front-end, as far as objects go: values with their context, siblings as
//! parts.

use super::{Http, HttpResponse, encoded};
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
    /// Connects; each response may take at most `patience`.
    pub fn with_patience(address: SocketAddr, patience: Duration) -> io::Result<Riak> {
        Ok(Riak { web: Http::with_patience(address, patience)? })
    }

    /// Reads a key. `place` is `TYPE/BUCKET`; `options` is the query.
    pub fn fetch(&mut self, place: &str, key: &str, options: &str) -> io::Result<RiakOutcome> {
        let accept = [("accept", "multipart/mixed, text/plain;q=0.5, */*;q=0.1")];
        let answer = self.web.ask_with("GET", &path(place, key, options), &accept, b"")?;
        Ok(said(answer))
    }

    /// Writes a key with a context, if one was read.
    pub fn store(
        &mut self,
        place: &str,
        key: &str,
        value: &[u8],
        (context, options): (Option<&str>, &str),
    ) -> io::Result<RiakOutcome> {
        let mut headers =
            vec![("content-type", "text/plain"), ("accept", "multipart/mixed, text/plain;q=0.5")];
        headers.extend(context.map(|context| ("x-riak-vclock", context)));
        let answer = self.web.ask_with("PUT", &path(place, key, options), &headers, value)?;
        Ok(said(answer))
    }

    /// Deletes the values that the context covers.
    pub fn remove(
        &mut self,
        place: &str,
        key: &str,
        (context, options): (Option<&str>, &str),
    ) -> io::Result<RiakOutcome> {
        let headers: Vec<_> =
            context.map(|context| ("x-riak-vclock", context)).into_iter().collect();
        let answer = self.web.ask_with("DELETE", &path(place, key, options), &headers, b"")?;
        Ok(said(answer))
    }
}

fn path(place: &str, key: &str, options: &str) -> String {
    let (kind, bucket) = place.split_once('/').expect("TYPE/BUCKET");
    let key = encoded(key.as_bytes());
    let options = if options.is_empty() { String::new() } else { format!("?{options}") };
    format!("/types/{kind}/buckets/{bucket}/keys/{key}{options}")
}

fn said(answer: HttpResponse) -> RiakOutcome {
    let context = answer.header("x-riak-vclock").map(String::from);
    match answer.status {
        200 => RiakOutcome::Done(RiakObject { values: vec![answer.body], deletes: 0, context }),
        204 => RiakOutcome::Done(RiakObject { context, ..RiakObject::default() }),
        300 => {
            let kind = answer.header("content-type").unwrap_or_default();
            match kind.split_once("boundary=") {
                Some((_, boundary)) => {
                    let (values, deletes) = parts(&answer.body, boundary);
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
fn parts(body: &[u8], boundary: &str) -> (Vec<Vec<u8>>, usize) {
    let line = format!("\r\n--{boundary}").into_bytes();
    let mut starts = Vec::new();
    let mut at = 0;
    while let Some(found) = find(&body[at..], &line) {
        starts.push(at + found);
        at += found + line.len();
    }
    let (mut values, mut deletes) = (Vec::new(), 0);
    for pair in starts.windows(2) {
        let part = &body[pair[0] + line.len()..pair[1]];
        let Some(end) = find(part, b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&part[..end]).to_ascii_lowercase();
        if head.contains("x-riak-deleted: true") {
            deletes += 1;
        } else {
            values.push(part[end + 4..].to_vec());
        }
    }
    (values, deletes)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart_to_the_byte() {
        let body =
            b"\r\n--B\r\nContent-Type: a/b\r\n\r\none\r\n\r\n--B\r\nX-Riak-Deleted: true\r\n\
                     \r\n\r\n--B\r\nEtag: x\r\n\r\n\r\n--B--\r\n";
        assert_eq!(parts(body, "B"), (vec![b"one\r\n".to_vec(), Vec::new()], 1));
    }
}
