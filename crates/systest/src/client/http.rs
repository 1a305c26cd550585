//! Client of HTTP/1.1 with persistent connections, sufficient for the native front-end.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A response.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// Headers: names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Returns a header's value. `None`: absent.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON; null if it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the reason of an error, as `base` names it.
    pub fn reason(&self) -> String {
        self.json()["error"]["reason"].as_str().unwrap_or("").into()
    }
}

/// A connection.
#[derive(Debug)]
pub struct Http {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    host: String,
}

impl Http {
    /// Connects; connecting, and each answer, may take 30 seconds.
    pub fn connect(address: SocketAddr) -> io::Result<Http> {
        Http::with_timeout(address, Duration::from_secs(30))
    }

    /// Connects; each answer may take at most `timeout`.
    pub fn with_timeout(address: SocketAddr, timeout: Duration) -> io::Result<Http> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let reader = BufReader::new(stream.try_clone()?);
        Ok(Http { stream, reader, host: address.to_string() })
    }

    /// Sends a request without further headers; returns the response.
    pub fn request(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<HttpResponse> {
        self.request_with_headers(method, path, &[], body)
    }

    /// Deletes all keys of the default bucket with a prefix, in parts; returns the number of rows.
    /// A part that is refused ends it with that refusal.
    pub fn empty_prefix(&mut self, prefix: &str) -> io::Result<u64> {
        let (mut removed, mut token) = (0, serde_json::Value::Null);
        loop {
            let body = serde_json::json!({ "prefix": prefix, "continue": token }).to_string();
            let path = "/v1/buckets/default/default/empty_prefix?confirm=default/default";
            let answer = self.request("POST", path, body.as_bytes())?;
            let mut page = answer.json();
            let Some(rows) = page["removed"].as_u64().filter(|_| answer.status == 200) else {
                return Err(io::Error::other(answer.text()));
            };
            removed += rows;
            token = page["continue"].take();
            if token.is_null() {
                return Ok(removed);
            }
        }
    }

    /// Sends a request with further headers; returns the response.
    pub fn request_with_headers(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<HttpResponse> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.host);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let json = matches!(body.first(), Some(b'{' | b'['));
        if json && !headers.iter().any(|(name, _)| *name == "content-type") {
            head.push_str("content-type: application/json\r\n");
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        // A server may answer and close before it has read a body that is too large.
        let send_result = self.stream.write_all(&bytes);
        self.receive(method == "HEAD").map_err(|error| send_result.err().unwrap_or(error))
    }

    /// Returns the server's address as the header `host` has it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the connection's sending half, for use on another thread.
    pub fn sender(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// Sends raw bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Receives the next response.
    pub fn receive(&mut self, head_only: bool) -> io::Result<HttpResponse> {
        let first = self.read_line()?;
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| malformed_response(&first))?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
        }
        let mut answer = HttpResponse { status, headers, body: Vec::new() };
        if status == 100 {
            return self.receive(head_only);
        }
        if !head_only && status != 204 && status != 304 {
            answer.body = self.read_body(&answer)?;
        }
        Ok(answer)
    }

    fn read_body(&mut self, answer: &HttpResponse) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if answer.header("transfer-encoding").is_some_and(|encoding| encoding.contains("chunked")) {
            loop {
                let line = self.read_line()?;
                let size = line.split(';').next().unwrap_or("").trim();
                let size =
                    usize::from_str_radix(size, 16).map_err(|_| malformed_response(&line))?;
                let before = body.len();
                body.resize(before + size, 0);
                self.reader.read_exact(&mut body[before..])?;
                self.read_line()?;
                if size == 0 {
                    return Ok(body);
                }
            }
        }
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        match length {
            Some(length) => {
                body.resize(length, 0);
                self.reader.read_exact(&mut body)?;
            }
            None => {
                self.reader.read_to_end(&mut body)?;
            }
        }
        Ok(body)
    }

    /// Waits until the peer closes the connection, and discards what it still sends. Returns false
    /// on a timeout.
    pub fn closed_within(&mut self, timeout: Duration) -> bool {
        super::closed_within(&self.stream, &mut self.reader, timeout)
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&line).trim_end_matches('\r').to_string())
    }
}

/// Encodes a key as part of a path.
pub fn encode_key(key: &[u8]) -> String {
    let mut text = String::new();
    for &byte in key {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(byte as char)
            }
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn malformed_response(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no HTTP answer: {line:?}"))
}
