//! Callers of the matrix: they send the operation of a row at a place, and tell the verdict.

use super::model::{INSIDE_TOO, MatrixTarget};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use systest::access::AccessVerdict;
use systest::client::{Http, Resp, RespReply};

/// Attempts while a node can't serve.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// Returns the text of a row at a place.
fn expand(text: &str, target: &MatrixTarget) -> String {
    let (kind, name) = target.bucket.split_once('/').expect("TYPE/BUCKET");
    let soon = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let soon = soon + Duration::from_secs(600);
    [
        ("$u", "/v1/buckets/$b"),
        ("$write", r#"{"op":"set","key":"$k","value":"v"}"#),
        ("$replace", r#"{"op":"replace","key":"p-2","wanted":"v"}"#),
        ("$empty", r#"{"op":"delete_prefix","prefix":"$p"}"#),
        ("$node", r#""node":"00000000000000aa","name":"n9","peer":"$a:1","client":"$a:2""#),
        ("$a", "127.0.0.1"),
        ("$b", target.bucket),
        ("$t", kind),
        ("$n", name),
        ("$k", target.key),
        ("$p", target.prefix),
        ("$s", &soon.as_secs().to_string()),
        ("$m", &soon.as_millis().to_string()),
    ]
    .into_iter()
    .fold(text.to_string(), |text, (variable, value)| text.replace(variable, value))
}

/// Returns a chunk of one record, as `docs/use/http.md` specifies it.
fn chunk(key: &str) -> Vec<u8> {
    let mut records = 1_u32.to_le_bytes().to_vec();
    for length in [key.len(), 1] {
        records.extend((length as u32).to_le_bytes());
    }
    records.extend_from_slice(key.as_bytes());
    records.push(b'v');
    let checksum = xxhash_rust::xxh3::xxh3_64(&records).to_le_bytes();
    [&b"crchunk1"[..], &checksum, &records].concat()
}

/// Repeats a request while its node can't serve.
fn patiently(mut ask: impl FnMut() -> io::Result<AccessVerdict>) -> AccessVerdict {
    let mut verdict = AccessVerdict::Unavailable("no answer".into());
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(PAUSE);
        }
        verdict = match ask() {
            Ok(verdict @ AccessVerdict::Unavailable(_)) => verdict,
            Ok(verdict) => return verdict,
            Err(error) => AccessVerdict::Unavailable(error.to_string()),
        };
    }
    verdict
}

/// Client of HTTP with the credentials of a user, or without.
pub struct HttpCaller {
    address: SocketAddr,
    header: Option<String>,
    client: Option<Http>,
}

impl HttpCaller {
    pub fn new(address: SocketAddr, header: Option<String>) -> HttpCaller {
        HttpCaller { address, header, client: None }
    }

    /// Sends the operation `METHOD PATH [BODY]`.
    pub fn ask(&mut self, text: &str, target: &MatrixTarget) -> AccessVerdict {
        let text = expand(text, target);
        let mut words = text.splitn(3, ' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let body = match words.next().unwrap_or_default() {
            "$chunk" => chunk(target.key),
            body => body.as_bytes().to_vec(),
        };
        // A refused login ends the connection: the next request finds it closed.
        let mut last = AccessVerdict::Unavailable("no answer".into());
        for _ in 0..2 {
            match self.send(method, path, &body) {
                Ok(verdict) => return verdict,
                Err(error) => last = AccessVerdict::Unavailable(error.to_string()),
            }
        }
        last
    }

    fn send(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<AccessVerdict> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Http::connect(self.address)?,
        };
        let mut headers: Vec<(&str, &str)> = Vec::new();
        headers.extend(self.header.as_deref().map(|header| ("authorization", header)));
        let is_value = !body.is_empty() && !matches!(body[0], b'{' | b'[');
        let kind = if path.starts_with("/v1/") { "application/octet-stream" } else { "text/plain" };
        headers.extend(is_value.then_some(("content-type", kind)));
        let answer = client.request_with_headers(method, path, &headers, body)?;
        if answer.header("connection") != Some("close") {
            self.client = Some(client);
        }
        Ok(AccessVerdict::of_http(&answer))
    }

    /// Writes the keys of a place, so that an operation finds something.
    pub fn write_keys(&mut self, target: &MatrixTarget) {
        for key in [target.key, INSIDE_TOO] {
            let text = format!("PUT /v1/buckets/$b/keys/{key} v");
            let verdict = patiently(|| Ok(self.ask(&text, target)));
            assert_eq!(verdict, AccessVerdict::Granted, "the administrator writes {key}");
        }
    }
}

/// Client of Redis' protocol, logged in or not.
pub struct RespCaller<'a> {
    address: SocketAddr,
    login: Option<(&'a str, &'a str)>,
    client: Option<Resp>,
}

impl RespCaller<'_> {
    pub fn new<'a>(address: SocketAddr, login: Option<(&'a str, &'a str)>) -> RespCaller<'a> {
        RespCaller { address, login, client: None }
    }

    /// Has the conversation of a row; returns the verdict of the command behind `!`.
    pub fn ask(&mut self, text: &str, target: &MatrixTarget) -> AccessVerdict {
        let text = expand(text, target);
        match self.converse(&text) {
            Ok(reply) => AccessVerdict::of_resp(&reply),
            Err(error) => {
                self.client = None;
                AccessVerdict::Unavailable(error.to_string())
            }
        }
    }

    fn converse(&mut self, text: &str) -> io::Result<RespReply> {
        if self.client.is_none() {
            let mut client = Resp::connect(self.address)?;
            if let Some((user, password)) = self.login {
                let reply = client.call_line(&format!("AUTH {user} {password}"))?;
                assert_eq!(reply.error(), None, "{user} does not log in");
            }
            self.client = Some(client);
        }
        let client = self.client.as_mut().expect("it was set");
        let mut judged = None;
        for line in text.split(';').map(str::trim) {
            let reply = client.call_line(line.trim_start_matches('!'))?;
            if line.starts_with('!') {
                judged = Some(reply);
            }
        }
        Ok(judged.expect("a row judges one command"))
    }
}
