//! Tests of the memory that answers hold until their clients have read them.

use super::live::{Client, header};
use crate::ServerSettings;
use crate::tests::test_server::TestServer;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const KEY: &str = "/buckets/fruit/keys/fig?w=1&dw=1&r=1&pr=0&pw=0";

/// Starts a node whose connections share this much memory.
fn server_with_memory(buffer_bytes_max: usize) -> TestServer {
    TestServer::with_settings(ServerSettings { buffer_bytes_max, ..ServerSettings::default() })
}

/// Sends a request and does not read its answer.
fn ask_and_read_nothing(server: &TestServer, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).expect("connects");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

/// Returns the status of a large write, which may be refused before all of it is sent; 0 if no
/// answer came.
fn put_status(server: &TestServer, value: &str) -> u16 {
    let mut stream = TcpStream::connect(server.address).expect("connects");
    let length = value.len();
    let head = format!(
        "PUT {KEY} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    let _ = stream.write_all([&head, value].concat().as_bytes());
    let mut line = [0; 12];
    let is_received = stream.read_exact(&mut line).is_ok();
    let status = std::str::from_utf8(&line[9..]).ok().filter(|_| is_received);
    status.and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// Returns true once an answer has this status.
fn eventually(status: u16, mut status_of: impl FnMut() -> u16) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        status_of() == status
    })
}

#[test]
fn unread_response_value_counts_against_shared_memory() {
    let server = server_with_memory(12 << 20);
    // More bytes than the operating system buffers for a client that does not read.
    assert_eq!(Client::connect(&server).put(KEY, "", &"x".repeat(8 << 20)).0, 204);
    let get = || Client::connect(&server).get(KEY).0;
    // The write's own memory is released a moment after its answer.
    assert!(eventually(200, get), "there is room for one that is read");
    let unread = ask_and_read_nothing(&server, KEY);
    assert!(eventually(503, get), "nothing is counted");
    drop(unread);
    assert!(eventually(200, get), "nothing is given back");
}

#[test]
fn returnbody_put_without_memory_is_stored_and_reports_the_error() {
    let server = server_with_memory(4 << 20);
    let mut client = Client::connect(&server);
    let value = "x".repeat(3 << 20);
    let (status, head, _) = client.put(&format!("{KEY}&returnbody=true"), "", &value);
    assert_eq!(status, 204, "{head}");
    assert!(header(&head, "X-Credenza-Error").contains("the value is stored"), "{head}");
    let (status, _, body) = client.get(KEY);
    assert!(status == 200 && body == value, "{status}");
}

#[test]
fn unread_key_stream_holds_shared_memory_until_disconnect() {
    let server = server_with_memory(6 << 20);
    let mut client = Client::connect(&server);
    for key in 0..300 {
        let path = format!("/buckets/b/keys/{key}{}?w=1&dw=1", "k".repeat(30_000));
        assert_eq!(client.put(&path, "", "x").0, 204);
    }
    let stream = "/buckets/b/keys?keys=stream";
    let unread = ask_and_read_nothing(&server, stream);
    let value = "x".repeat(3 << 20);
    let put = || put_status(&server, &value);
    assert!(eventually(503, put), "nothing is counted");
    drop(unread);
    assert!(eventually(204, put), "nothing is given back");
    let (status, _, body) = client.get(stream);
    assert_eq!((status, body.matches("kkkk\"").count()), (200, 300));
}
