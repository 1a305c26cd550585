//! Tests of closing front-ends: each client is answered until an answer marks itself as the last.

use super::test_server::TestServer;
use crate::ServerSettings;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Protocol under test: its request, and the way to read its answers.
#[derive(Clone, Copy)]
struct ProtocolCase {
    greeting: &'static [u8],
    request: &'static [u8],
    is_complete: fn(&[u8]) -> bool,
    is_last: fn(&[u8]) -> bool,
    /// Beginning of every answer except the last; an answer that is both good and the last begins
    /// with `last_prefix`.
    success_prefix: &'static [u8],
    last_prefix: &'static [u8],
}

const RESP: ProtocolCase = ProtocolCase {
    greeting: b"",
    request: b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n",
    is_complete: |answer| answer.ends_with(b"\r\n"),
    is_last: |answer| answer.starts_with(b"-"),
    success_prefix: b"+OK\r\n",
    last_prefix: b"-LOADING the node is stopping: nothing was done",
};

const HTTP: ProtocolCase = ProtocolCase {
    greeting: b"",
    request: b"PUT /v1/buckets/default/default/keys/k HTTP/1.1\r\nhost: 127.0.0.1\r\n\
        content-length: 1\r\n\r\nv",
    is_complete: is_complete_http,
    is_last: has_connection_close,
    success_prefix: b"HTTP/1.1 20",
    last_prefix: b"HTTP/1.1 20",
};

const RIAK: ProtocolCase = ProtocolCase {
    greeting: b"",
    request: b"GET /buckets/b/keys/k HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    is_complete: is_complete_http,
    is_last: has_connection_close,
    success_prefix: b"HTTP/1.1 404",
    last_prefix: b"HTTP/1.1 404",
};

const ARAKOON: ProtocolCase = ProtocolCase {
    greeting: b"\x00\x00\xff\xb1\x01\x00\x00\x00\x05\x00\x00\x00ricky",
    // Sets a key.
    request: b"\x09\x00\xff\xb1\x01\x00\x00\x00k\x01\x00\x00\x00v",
    is_complete: |answer| match answer.first() {
        Some(0) => answer.len() == 4,
        _ => answer.ends_with(b"closing socket"),
    },
    is_last: |answer| answer.first() != Some(&0),
    success_prefix: b"\x00\x00\x00\x00",
    last_prefix: b"\x10\x00\x00\x00",
};

fn is_complete_http(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    body.len() == length.map_or(0, |length| length.trim().parse().expect("a number"))
}

fn has_connection_close(answer: &[u8]) -> bool {
    String::from_utf8_lossy(answer).to_lowercase().contains("\r\nconnection: close\r\n")
}

/// Starts a client that repeats a request until an answer marks itself as the last.
fn spawn_client(
    address: SocketAddr,
    case: ProtocolCase,
    answered: Arc<AtomicUsize>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        stream.write_all(case.greeting).expect("sent");
        loop {
            stream.write_all(case.request).expect("it is not told to go");
            let (mut answer, mut bytes) = (Vec::new(), [0; 4096]);
            while !(case.is_complete)(&answer) {
                match stream.read(&mut bytes).expect("nobody resets it") {
                    0 => panic!("closed without a word behind {answer:?}"),
                    read => answer.extend_from_slice(&bytes[..read]),
                }
            }
            answered.fetch_add(1, Ordering::SeqCst);
            let is_last = (case.is_last)(&answer);
            let expected = if is_last { case.last_prefix } else { case.success_prefix };
            assert!(answer.starts_with(expected), "{}", String::from_utf8_lossy(&answer));
            if is_last {
                assert_eq!(stream.read(&mut bytes).expect("nobody resets it"), 0, "it ends");
                return;
            }
        }
    })
}

#[test]
fn active_client_gets_a_final_reply_when_front_ends_close() {
    for case in [RESP, HTTP, RIAK, ARAKOON] {
        let settings =
            ServerSettings { arakoon_clusters: vec!["ricky".into()], ..ServerSettings::default() };
        let mut server = TestServer::with_name("arakoon_0", settings);
        let clients: Vec<_> = (0..6)
            .map(|_| {
                let answered = Arc::new(AtomicUsize::new(0));
                (answered.clone(), spawn_client(server.address, case, answered))
            })
            .collect();
        // A client that is not connected yet can't receive an answer.
        for (answered, client) in &clients {
            while answered.load(Ordering::SeqCst) < 5 && !client.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        server.close_front_ends();
        for (_, client) in clients {
            client.join().expect("it was told");
        }
    }
}

#[test]
fn idle_client_is_disconnected_when_front_ends_close() {
    let mut server = TestServer::build();
    let mut silent = TcpStream::connect(server.address).expect("a connection");
    silent.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
    silent.write_all(RESP.request).expect("sent");
    let mut answer = [0; 64];
    assert_eq!(silent.read(&mut answer).expect("an answer"), RESP.success_prefix.len());
    server.close_front_ends();
    assert_eq!(silent.read(&mut answer).expect("no reset"), 0, "closed without a word");
    assert!(TcpStream::connect(server.address).is_err(), "nobody comes in");
}
