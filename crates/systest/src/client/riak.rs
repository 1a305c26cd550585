//! Riak's HTTP front-end, as far as objects go: values with their context, siblings as parts.

use super::{Http, HttpResponse, encoded};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// What a key holds, as a client is shown it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RiakObject {
    /// Its values; deleted ones are left out.
    pub values: Vec<Vec<u8>>,
    /// Deletes that stand beside them.
    pub deletes: usize,
    /// What to send with the next write; none: nothing was ever there.
    pub context: Option<String>,
}

/// What became of a call.
#[derive(Clone, Debug)]
pub enum RiakOutcome {
    /// It was done; what is there is shown where it was asked for.
    Done(RiakObject),
    /// Nothing is there (any more), so a delete did nothing.
    Absent(RiakObject),
    /// Anything else, as it was answered.
    Other(HttpResponse),
}

/// A connection.
pub struct Riak {
    web: Http,
}

impl Riak {
    /// Connects, waiting at most so long for any answer.
    pub fn with_patience(address: SocketAddr, patience: Duration) -> io::Result<Riak> {
        Ok(Riak { web: Http::with_patience(address, patience)? })
    }

    /// Reads a key. `place` is `TYPE/BUCKET`; `options` stands behind the `?`.
    pub fn fetch(&mut self, place: &str, key: &str, options: &str) -> io::Result<RiakOutcome> {
        let accept = [("accept", "multipart/mixed, text/plain;q=0.5, */*;q=0.1")];
        let answer = self.web.ask_with("GET", &path(place, key, options), &accept, b"")?;
        Ok(said(answer))
    }

    /// Writes a key with the context that was read, if any.
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

    /// Deletes what the context had seen.
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

/// The values of a body in parts, and how many parts are deletes.
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
