//! Tests of health checks while every connection place is taken.

use super::test_server::TestServer;
use crate::ServerSettings;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

#[test]
fn health_checks_are_answered_when_every_connection_place_is_taken() {
    let settings = ServerSettings { connections_max: 1, ..ServerSettings::default() };
    let server = TestServer::with_settings(settings);
    let mut taken = TcpStream::connect(server.address).expect("it listens");
    taken.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
    taken.write_all(b"PING\r\n").expect("sent");
    taken.read_exact(&mut [0; 7]).expect("it has the only place");
    for path in ["/live", "/status", "/status?"] {
        let answer = server.exchange(server.address, &get(path));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
    // The node may still look for the owners of its ring.
    let answer = server.exchange(server.address, &get("/ready"));
    assert!(answer.starts_with("HTTP/1.1 ") && !answer.contains("too_many"), "{answer}");
    let status = server.exchange(server.address, &get("/status"));
    assert!(status.contains("\"code\":\"clients_refused\""), "{status}");
    assert!(status.contains("\"name\":\"loops: housekeeper\""), "{status}");
    // Other requests have no place, nor have those behind a health check.
    let answer = server.exchange(server.address, &get("/v1/buckets"));
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    let both = [get("/live"), get("/v1/buckets")].concat();
    let answer = server.exchange(server.address, &both);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("HTTP/1.1 403 "), "{answer}");
    let answer = server.exchange(server.address, b"PING\r\n");
    assert!(answer.starts_with("-ERR max number of clients"), "{answer}");
    drop(taken);
}
