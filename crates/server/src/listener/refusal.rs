//! Refusals of connections, in the client's protocol if that can express them.

use super::first_bytes::{FirstBytes, ForeignProtocol};
use crate::arakoon;
use crate::clock::Clock;
use crate::http::date;
use base::Reason;
use bytes::BufMut;
use std::time::Duration;
use tls::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Time that a refused connection has to show which protocol it speaks, and to read the answer.
pub(super) const REFUSAL_MS_MAX: u64 = 1_000;
const SPOKEN: &str = "this port serves HTTP/1.1, RESP (Redis) and Arakoon";

/// Returns the answer to a protocol that is not served.
pub fn foreign(protocol: ForeignProtocol, first: &[u8]) -> Vec<u8> {
    match protocol {
        ForeignProtocol::MemcachedText => {
            format!("SERVER_ERROR {SPOKEN}; memcached is not supported\r\n").into_bytes()
        }
        ForeignProtocol::MemcachedBinary => memcached_binary(first),
        // Tokyo Tyrant's answer is one status byte: 1 is failure.
        ForeignProtocol::Tyrant => vec![1],
        // A fatal alert, `handshake_failure`.
        ForeignProtocol::Tls => vec![0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x28],
        ForeignProtocol::Http2 => http2(),
        ForeignProtocol::Unknown => format!("{SPOKEN}\r\n").into_bytes(),
    }
}

/// Returns the answer to a plain connection where TLS is required, in its protocol. Arakoon's is
/// closed without a byte, as it does with what it does not serve.
pub fn plain(protocol: FirstBytes) -> Vec<u8> {
    const TEXT: &str = "this port requires TLS";
    match protocol {
        FirstBytes::Resp => format!("-ERR {TEXT}\r\n").into_bytes(),
        FirstBytes::Arakoon | FirstBytes::More => Vec::new(),
        FirstBytes::RiakPbc | FirstBytes::RiakPbcStartTls => {
            pbc_error("Security is enabled, please STARTTLS first")
        }
        FirstBytes::Http | FirstBytes::Riak => {
            let upgrade = "upgrade: TLS/1.3, HTTP/1.1\r\nconnection: upgrade, close\r\n";
            http_error(("426 Upgrade Required", upgrade), ("forbidden", "denied"), TEXT)
        }
        FirstBytes::Foreign(ForeignProtocol::MemcachedText) => {
            format!("SERVER_ERROR {TEXT}\r\n").into_bytes()
        }
        FirstBytes::Foreign(ForeignProtocol::Tyrant) => vec![1],
        FirstBytes::Foreign(_) => format!("{TEXT}\r\n").into_bytes(),
    }
}

/// Returns the answer to a client beyond loopback while access is off, in its protocol.
pub fn not_yet(protocol: FirstBytes) -> Vec<u8> {
    const TEXT: &str =
        "not yet: this address serves clients once access is on; run `credenza access init`";
    match protocol {
        FirstBytes::Resp => format!("-ERR {TEXT}\r\n").into_bytes(),
        FirstBytes::Http | FirstBytes::Riak => {
            let headers = "connection: close\r\n";
            http_error(("403 Forbidden", headers), ("forbidden", "denied"), TEXT)
        }
        FirstBytes::Arakoon | FirstBytes::More => Vec::new(),
        FirstBytes::RiakPbc | FirstBytes::RiakPbcStartTls => pbc_error(TEXT),
        FirstBytes::Foreign(ForeignProtocol::MemcachedText) => {
            format!("SERVER_ERROR {TEXT}\r\n").into_bytes()
        }
        FirstBytes::Foreign(ForeignProtocol::Tyrant) => vec![1],
        FirstBytes::Foreign(_) => format!("{TEXT}\r\n").into_bytes(),
    }
}

/// Returns the answer to a connection beyond the limit, in the protocol that its first bytes
/// indicate, if any.
pub fn too_many(protocol: FirstBytes, limit: usize) -> Vec<u8> {
    match protocol {
        FirstBytes::Resp => {
            return format!("-ERR max number of clients reached ({limit})\r\n").into_bytes();
        }
        FirstBytes::Arakoon => return arakoon::too_many_clients_answer(),
        FirstBytes::RiakPbc | FirstBytes::RiakPbcStartTls => {
            return pbc_error(&format!("{limit} connections are open, the maximum"));
        }
        FirstBytes::Foreign(ForeignProtocol::Tls) => return foreign(ForeignProtocol::Tls, &[]),
        FirstBytes::Http | FirstBytes::Riak | FirstBytes::More | FirstBytes::Foreign(_) => {}
    }
    unavailable("too_many", &format!("{limit} connections are open, the maximum; try again later"))
}

/// Phase of a node that does not serve yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StartPhase {
    /// The node reads its log.
    Starting,
    /// The node belongs to no cluster yet.
    Clusterless,
}

impl StartPhase {
    fn reason_and_text(self) -> (Reason, &'static str) {
        match self {
            StartPhase::Starting => {
                (Reason::Starting, "the node is starting: it reads its log; try again later")
            }
            StartPhase::Clusterless => (
                Reason::NotBootstrapped,
                "the node is not a member of a cluster yet and waits for other nodes",
            ),
        }
    }
}

/// Returns the answer to a client while the node starts. If the protocol is HTTP, `first` holds at
/// least the first line.
pub fn starting(phase: StartPhase, protocol: FirstBytes, first: &[u8]) -> Vec<u8> {
    let (reason, words) = phase.reason_and_text();
    match protocol {
        FirstBytes::Http if is_live(first) => {
            let date = date::format(Clock::Wall.unix_ms());
            format!(
                "HTTP/1.1 200 OK\r\ndate: {date}\r\ncontent-type: text/plain; charset=utf-8\r\n\
                 connection: close\r\ncontent-length: 5\r\n\r\nlive\n"
            )
            .into_bytes()
        }
        FirstBytes::Resp => format!("-LOADING {words}\r\n").into_bytes(),
        FirstBytes::Arakoon => arakoon::starting_answer(words),
        FirstBytes::RiakPbc | FirstBytes::RiakPbcStartTls => pbc_error(words),
        FirstBytes::Foreign(other) => foreign(other, first),
        FirstBytes::Http | FirstBytes::Riak | FirstBytes::More => unavailable(reason.name(), words),
    }
}

/// Returns true if the request is the health check `/live`.
fn is_live(first: &[u8]) -> bool {
    [&b"GET /live "[..], b"GET /live?"].iter().any(|begin| first.starts_with(begin))
}

/// Returns an error as a frame of Riak's Protocol Buffers.
fn pbc_error(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    riak_pbc::append_error(&mut out, text);
    out
}

fn unavailable(reason: &str, detail: &str) -> Vec<u8> {
    let headers = "retry-after: 1\r\nconnection: close\r\n";
    http_error(("503 Service Unavailable", headers), (reason, "unavailable"), detail)
}

/// Returns an HTTP answer with an error. `headers`: further ones, each with its line end.
fn http_error(
    (status, headers): (&str, &str),
    (reason, kind): (&str, &str),
    detail: &str,
) -> Vec<u8> {
    let body = format!(
        "{{\"error\":{{\"reason\":\"{reason}\",\"kind\":\"{kind}\",\"detail\":\"{detail}\"}}}}"
    );
    let (length, date) = (body.len(), date::format(Clock::Wall.unix_ms()));
    format!(
        "HTTP/1.1 {status}\r\ndate: {date}\r\ncontent-type: application/json\r\n\
         {headers}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Returns memcached's binary answer: status 0x81 (unknown command) with a text. It echoes opcode
/// and opaque.
fn memcached_binary(first: &[u8]) -> Vec<u8> {
    let text = format!("{SPOKEN}; memcached is not supported");
    let mut bytes = Vec::with_capacity(24 + text.len());
    bytes.put_u8(0x81);
    bytes.put_u8(first.get(1).copied().unwrap_or(0));
    bytes.put_u32(0);
    bytes.put_u16(0x81);
    bytes.put_u32(text.len() as u32);
    bytes.put_slice(first.get(12..16).unwrap_or(&[0; 4]));
    bytes.put_u64(0);
    bytes.put_slice(text.as_bytes());
    bytes
}

/// Returns HTTP/2 frames: empty SETTINGS, then GOAWAY with HTTP_1_1_REQUIRED.
fn http2() -> Vec<u8> {
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    const HTTP_1_1_REQUIRED: u32 = 0xd;
    let mut bytes = vec![0, 0, 0, SETTINGS, 0, 0, 0, 0, 0];
    bytes.put_slice(&[0, 0, 8 + SPOKEN.len() as u8, GOAWAY, 0, 0, 0, 0, 0]);
    bytes.put_u32(0);
    bytes.put_u32(HTTP_1_1_REQUIRED);
    bytes.put_slice(SPOKEN.as_bytes());
    bytes
}

/// Sends the last bytes to a connection and ends it.
pub(super) async fn send_and_close(mut stream: Stream, bytes: &[u8]) {
    let sending = async {
        stream.write_all(bytes).await?;
        stream.flush().await?;
        stream.shutdown().await?;
        // Discard further input: unread bytes would turn the close into a reset, and the client
        // would lose the answer.
        let mut rest = [0; 1024];
        for _ in 0..16 {
            if stream.read(&mut rest).await? == 0 {
                break;
            }
        }
        Ok::<(), std::io::Error>(())
    };
    let _ = timeout(Duration::from_millis(REFUSAL_MS_MAX), sending).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_framed_in_the_protocol_of_the_client() {
        let binary = foreign(ForeignProtocol::MemcachedBinary, b"\x80\x0a\0\0\0\0\0\0\0\0\0\0abcd");
        assert_eq!(&binary[..2], b"\x81\x0a");
        assert_eq!(&binary[12..16], b"abcd");
        assert_eq!(
            u32::from_be_bytes(binary[8..12].try_into().expect("4")) as usize + 24,
            binary.len()
        );
        let arakoon = too_many(FirstBytes::Arakoon, 7);
        assert_eq!(arakoon[4] as usize + 8, arakoon.len());
        let http2 = foreign(ForeignProtocol::Http2, b"");
        assert_eq!(http2[9 + 2] as usize + 18, http2.len());
        for answer in
            [too_many(FirstBytes::Http, 7), plain(FirstBytes::Http), not_yet(FirstBytes::Riak)]
        {
            let text = String::from_utf8(answer).expect("text");
            let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
            assert!(head.ends_with(&format!("content-length: {}", body.len())));
        }
        assert!(plain(FirstBytes::Riak).starts_with(b"HTTP/1.1 426 "));
        for refuse in [plain, not_yet] {
            assert!(refuse(FirstBytes::Resp).starts_with(b"-ERR "));
            assert!(refuse(FirstBytes::Arakoon).is_empty());
        }
    }

    #[test]
    fn starting_node_is_live_but_not_ready() {
        let first_line = |protocol, first: &str| {
            let answer = starting(StartPhase::Starting, protocol, first.as_bytes());
            let answer = String::from_utf8(answer).expect("text");
            answer.lines().next().unwrap_or_default().to_string()
        };
        assert_eq!(first_line(FirstBytes::Http, "GET /live HTTP/1.1\r\n"), "HTTP/1.1 200 OK");
        for line in ["GET /ready HTTP/1.1\r\n", "GET /lives HTTP/1.1\r\n", "PUT /live HTTP/1.1\r\n"]
        {
            assert_eq!(
                first_line(FirstBytes::Http, line),
                "HTTP/1.1 503 Service Unavailable",
                "{line}"
            );
        }
        assert!(
            first_line(FirstBytes::Resp, "*1\r\n").starts_with("-LOADING the node is starting")
        );
        let arakoon = starting(StartPhase::Starting, FirstBytes::Arakoon, b"");
        assert_eq!((arakoon[0], arakoon[4] as usize + 8), (0x10, arakoon.len()));
        assert!(
            first_line(FirstBytes::Foreign(ForeignProtocol::Unknown), "x")
                .contains("this port serves")
        );
    }

    #[test]
    fn node_without_cluster_answers_not_bootstrapped() {
        let words =
            starting(StartPhase::Clusterless, FirstBytes::Http, b"GET /v1/cluster HTTP/1.1\r\n");
        let words = String::from_utf8(words).expect("text");
        assert!(words.contains("\"reason\":\"not_bootstrapped\""), "{words}");
    }
}
