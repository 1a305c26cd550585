//! Client of a node's native front-end: sequential requests over one persistent connection.
//!
//! Knows the requests of operators and logins, and no command: `cli` says what is asked and shown.
//!
//! Promises: an error's kind says what the caller can do; if a connection breaks, an update is
//! `unknown`, a read `unavailable`.
//! Never: repeats a request by itself; reads more of an answer than `ANSWER_BYTES_MAX`.
//! Read next: `control.rs` (a method for each request of operators).

mod address;
mod control;
mod login;

use address::HTTPS;
pub use address::{Address, TlsArguments};
use base::limits::{FRAME_BYTES_MAX, VALUES_BYTES_MAX};
use base::{Error, JoinToken, Kind, Reason, nearest};
use bytes::Bytes;
pub use control::confirm;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use login::Authorization;
pub use login::LoginArguments;
use program::{Failure, Outcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::time::Duration;
use tls::{Stream, TlsClient};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Largest answer: the most bytes of values in the answer of one read, each escaped in JSON as
/// `\u00XX`.
const ANSWER_BYTES_MAX: usize = 6 * VALUES_BYTES_MAX + FRAME_BYTES_MAX;

/// Request.
#[derive(Clone, Debug)]
pub struct HttpCall {
    /// Method.
    pub method: Method,
    /// Path and query, encoded.
    pub path: String,
    /// Further headers, in addition to those of every request.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Bytes,
}

impl HttpCall {
    /// Returns a request without body and headers.
    pub fn new(method: Method, path: impl Into<String>) -> HttpCall {
        HttpCall { method, path: path.into(), headers: Vec::new(), body: Bytes::new() }
    }

    /// Returns a request with a body that is JSON already.
    pub fn json(method: Method, path: impl Into<String>, body: impl Into<Bytes>) -> HttpCall {
        let mut call = HttpCall::new(method, path);
        call.headers.push(("content-type", "application/json".into()));
        call.body = body.into();
        call
    }

    /// Returns this request with a value as JSON body.
    pub fn with_json(self, body: &impl Serialize) -> HttpCall {
        let body = serde_json::to_vec(body).expect("a struct of texts and numbers has a JSON form");
        HttpCall::json(self.method, self.path, body)
    }
}

/// Successful answer.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// Version of the row, from `etag`.
    pub version: Option<u64>,
    /// Milliseconds until the row expires, from `x-credenza-expires-in-ms`. `None`: never.
    pub expires_in_ms: Option<u64>,
    /// Log index that the answer reflects, from `x-credenza-index`.
    pub index: Option<u64>,
    /// Body.
    pub body: Bytes,
}

impl HttpResponse {
    /// Decodes the JSON body. An empty body decodes as `()`.
    pub fn read<T: DeserializeOwned>(&self) -> Outcome<T> {
        let body = if self.body.is_empty() { b"null" } else { &self.body[..] };
        let read = serde_json::from_slice(body);
        read.map_err(|error| unexpected_server(&format!("another answer is expected: {error}")))
    }
}

/// Client of one node.
pub struct Client {
    authority: String,
    /// TLS of its connections. `None`: they are plain.
    tls: Option<TlsClient>,
    /// Local socket in place of a TCP connection.
    socket: Option<PathBuf>,
    timeout: Duration,
    connection: Option<SendRequest<Full<Bytes>>>,
    /// Join token that is sent with every request.
    token: Option<JoinToken>,
    /// Login that is sent with every request.
    login: Option<Authorization>,
    /// Hint that is appended to the error if no node answers.
    remedy: &'static str,
}

impl Client {
    /// Returns a client of a node; it connects with the first request. Fails on an invalid address
    /// or login.
    pub fn new(address: &Address) -> Outcome<Client> {
        if let Some(path) = address.url.strip_prefix("unix:") {
            let remedy = "; is the node running, and its data directory named with --data?";
            let client = Client::anonymous("localhost".into(), None, address.timeout);
            return Ok(Client { socket: Some(path.into()), remedy, ..client });
        }
        let (authority, tls) = (address.authority()?, address.tls_client()?);
        let login = address.login.authorization()?;
        if login.is_some() {
            address.login.check_way(&authority, tls.is_some())?;
        }
        let remedy = "; start one with `credenza serve`, or name it with --url";
        Ok(Client { login, remedy, ..Client::anonymous(authority, tls, address.timeout) })
    }

    /// Returns a client of the member at this address; every request carries a join token.
    pub fn for_member(
        address: &str,
        (token, tls): (Option<JoinToken>, Option<TlsClient>),
        timeout: Duration,
    ) -> Outcome<Client> {
        let authority = Address::plain(format!("http://{address}"), timeout).authority()?;
        Ok(Client { token, ..Client::anonymous(authority, tls, timeout) })
    }

    fn anonymous(authority: String, tls: Option<TlsClient>, timeout: Duration) -> Client {
        let (socket, connection, token, login, remedy) = (None, None, None, None, "");
        Client { authority, tls, socket, timeout, connection, token, login, remedy }
    }

    /// Sends a GET request for a path, and decodes the answer.
    pub async fn get<T: DeserializeOwned>(&mut self, path: impl Into<String>) -> Outcome<T> {
        self.call(HttpCall::new(Method::GET, path)).await?.read()
    }

    /// Sends a request. An error answer is a failure.
    pub async fn call(&mut self, call: HttpCall) -> Outcome<HttpResponse> {
        let path = call.path.clone();
        let (status, answer) = self.exchange(call).await?;
        match status {
            200..300 => Ok(answer),
            _ => {
                let failure = error_of(status, &answer.body, path.starts_with(BUCKETS));
                Err(self.with_alternatives(failure, &path).await)
            }
        }
    }

    /// Sends a request about a key. `None`: the key is absent.
    pub async fn call_key(&mut self, call: HttpCall) -> Outcome<Option<HttpResponse>> {
        let path = call.path.clone();
        let (status, answer) = self.exchange(call).await?;
        if status == 404
            && decode_error(&answer.body).is_none_or(|error| error.reason == Reason::NotFound)
        {
            return Ok(None);
        }
        match status {
            200..300 => Ok(Some(answer)),
            _ => Err(self.with_alternatives(error_of(status, &answer.body, true), &path).await),
        }
    }

    /// Adds a hint to the failure: how to list the existing buckets or types if one does not exist,
    /// how to log in if that is required.
    async fn with_alternatives(&mut self, failure: Failure, path: &str) -> Failure {
        match failure.reason() {
            Some(Reason::NoSuchType) => {
                failure.with_suffix("; `credenza type list` shows those that are there")
            }
            Some(Reason::NoSuchBucket) => {
                let similar = self.similar_bucket(path).await;
                failure.with_suffix(&match similar {
                    Some(name) => {
                        format!("; is `{name}` meant? `credenza bucket list` shows all")
                    }
                    None => "; `credenza bucket list` shows those that are there".into(),
                })
            }
            Some(Reason::Unauthenticated) if self.login.is_none() => {
                failure.with_suffix("; name --user and --password-file, or --token-file")
            }
            _ => failure,
        }
    }

    /// Returns an existing bucket with a name similar to that in a path. `None`: there is none, or
    /// the node does not answer.
    async fn similar_bucket(&mut self, path: &str) -> Option<String> {
        let mut segments = path.strip_prefix(BUCKETS)?.split(['/', '?']);
        let name = format!("{}/{}", segments.next()?, segments.next()?);
        let list = HttpCall::new(Method::GET, control::bucket_page_path(None));
        let (_, answer) = self.exchange(list).await.ok()?;
        let page: api::Buckets = answer.read().ok()?;
        nearest(&name, page.buckets.iter().map(|bucket| bucket.name.as_str())).map(String::from)
    }

    async fn exchange(&mut self, mut call: HttpCall) -> Outcome<(u16, HttpResponse)> {
        let authorization = match (&self.token, &self.login) {
            (Some(token), _) => Some(format!("Bearer {}", token.text())),
            (None, login) => login.as_ref().map(|login| login.text().to_string()),
        };
        call.headers.extend(authorization.map(|header| ("authorization", header)));
        let is_update = call.method != Method::GET && call.method != Method::HEAD;
        let deadline = tokio::time::Instant::now() + self.timeout;
        let connecting = self.connect();
        let mut connection =
            tokio::time::timeout_at(deadline, connecting).await.map_err(|_| {
                Failure::new(Kind::Unavailable, self.no_answer_text("no connection in time"))
            })??;
        let sending = send(&mut connection, &self.authority, call);
        let result = tokio::time::timeout_at(deadline, sending).await;
        match result {
            Ok(Ok(answer)) => {
                self.connection = Some(connection);
                Ok(answer)
            }
            Ok(Err(error)) => {
                Err(connection_lost(is_update, &format!("the connection broke: {error}")))
            }
            Err(_) => Err(connection_lost(is_update, "no answer in time")),
        }
    }

    async fn connect(&mut self) -> Outcome<SendRequest<Full<Bytes>>> {
        if let Some(mut connection) = self.connection.take()
            && connection.ready().await.is_ok()
        {
            return Ok(connection);
        }
        let unreachable =
            |detail: &str| Failure::new(Kind::Unavailable, self.no_answer_text(detail));
        if let Some(path) = &self.socket {
            let stream = UnixStream::connect(path).await;
            let stream = stream.map_err(|error| unreachable(&error.to_string()))?;
            return begin(stream).await.map_err(|error| unreachable(&error.to_string()));
        }
        let socket = TcpStream::connect(&self.authority).await;
        let socket = socket.map_err(|error| unreachable(&error.to_string()))?;
        socket.set_nodelay(true).map_err(|error| unreachable(&error.to_string()))?;
        let stream = match &self.tls {
            None => Stream::from(socket),
            Some(tls) => {
                let host = self.authority.rsplit_once(':').map_or("", |(host, _)| host);
                let connected = tls.connect(socket, host).await;
                connected.map_err(|error| unreachable(&format!("no TLS: {error}")))?
            }
        };
        begin(stream).await.map_err(|error| unreachable(&error.to_string()))
    }

    /// Returns the error text for a node that does not answer.
    fn no_answer_text(&self, what: &str) -> String {
        let node = match (&self.socket, &self.tls) {
            (Some(path), _) => format!("unix:{}", path.display()),
            (None, Some(_)) => format!("{HTTPS}{}", self.authority),
            (None, None) => format!("http://{}", self.authority),
        };
        format!("no node answers at {node}: {what}{}", self.remedy)
    }
}

/// Begins HTTP on a stream.
async fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> hyper::Result<SendRequest<Full<Bytes>>> {
    let (connection, driver) = handshake(TokioIo::new(stream)).await?;
    // The task ends with the connection, that is with the client; the sender gets its error.
    tokio::spawn(async { driver.await.ok() });
    Ok(connection)
}

async fn send(
    connection: &mut SendRequest<Full<Bytes>>,
    host: &str,
    call: HttpCall,
) -> Result<(u16, HttpResponse), Box<dyn std::error::Error + Send + Sync>> {
    let is_put = call.method == Method::PUT;
    let mut request = Request::builder().method(call.method).uri(call.path).header("host", host);
    for (name, value) in call.headers {
        request = request.header(name, value);
    }
    if call.body.is_empty() && is_put {
        // The library sends no length for an empty body, but an empty value is valid.
        request = request.header("content-length", "0");
    }
    let answer = connection.send_request(request.body(Full::new(call.body))?).await?;
    let (head, body) = answer.into_parts();
    let header_number = |name: &str| {
        let text = head.headers.get(name)?.to_str().ok()?;
        text.trim_matches('"').parse().ok()
    };
    let (version, index) = (header_number("etag"), header_number("x-credenza-index"));
    let expires_in_ms = header_number("x-credenza-expires-in-ms");
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
    let status = head.status.as_u16();
    Ok((status, HttpResponse { version, expires_in_ms, index, body }))
}

/// Decodes the error of an error answer. `None`: it is no answer of a node.
fn decode_error(body: &[u8]) -> Option<Error> {
    serde_json::from_slice::<api::ErrorReply>(body).ok()?.error.error()
}

/// Path prefix of every request about keys.
const BUCKETS: &str = "/v1/buckets/";

/// Returns the failure for an error answer.
fn error_of(status: u16, body: &[u8], is_about_keys: bool) -> Failure {
    match decode_error(body) {
        None => unexpected_server(&format!("status {status}")),
        // The request named something else that does not exist, such as a member or a group.
        Some(error) if error.reason == Reason::NotFound && !is_about_keys => {
            Failure::invalid(error.text())
        }
        Some(error) => error.into(),
    }
}

fn connection_lost(is_update: bool, what: &str) -> Failure {
    if is_update {
        Failure::new(Kind::Unknown, format!("{what}: it may have happened, read before retrying"))
    } else {
        Failure::new(Kind::Unavailable, format!("{what}: try again"))
    }
}

fn unexpected_server(what: &str) -> Failure {
    let text = format!("whoever answers there is no node of Credenza ({what}); is --url right?");
    Failure::new(Kind::Invalid, text)
}

/// Percent-encodes bytes for a path segment or the value of a query parameter.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(url: &str) -> Outcome<Client> {
        Client::new(&Address::plain(url.into(), Duration::from_secs(1)))
    }

    #[test]
    fn url_resolves_to_authority_with_default_port_or_is_refused() {
        let authority = |url| client(url).map(|client| client.authority).ok();
        assert_eq!(authority("http://127.0.0.1:1"), Some("127.0.0.1:1".into()));
        assert_eq!(authority("http://a.example/"), Some("a.example:7711".into()));
        assert_eq!(authority("http://[::1]:5"), Some("[::1]:5".into()));
        assert_eq!(authority("127.0.0.1:1"), Some("127.0.0.1:1".into()));
        assert_eq!(authority("localhost"), Some("localhost:7711".into()));
        for bad in ["", "https://a", "http://", "http://a/b", "http://u@h"] {
            assert_eq!(authority(bad), None, "{bad}");
        }
    }

    #[test]
    fn error_response_maps_to_exit_code_and_foreign_server_is_detected() {
        let body = br#"{"error": {"reason": "no_quorum", "kind": "x", "detail": "wait"}}"#;
        let failure = error_of(503, body, true);
        assert_eq!((failure.exit_code(), failure.to_string().as_str()), (5, "no_quorum: wait"));
        assert!(error_of(404, b"<html>", true).to_string().contains("--url"));
        let body =
            br#"{"error": {"reason": "not_found", "kind": "x", "detail": "no member `n9`"}}"#;
        let failure = error_of(404, body, false);
        assert_eq!((failure.exit_code(), failure.to_string().as_str()), (2, "no member `n9`"));
    }

    #[test]
    fn path_bytes_are_percent_encoded() {
        assert_eq!(encode(b"a/b ?%\xff.."), "a%2Fb%20%3F%25%FF%2E%2E");
    }
}
