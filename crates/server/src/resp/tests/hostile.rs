//! F-37 at the real listener: malformed input is answered and closed, and harms no other client.
//!
//! The binary takes 10^5 such frames in `crates/systest/tests/all/faults/hostile.rs`. These tests
//! check each one: the answer is complete, and the connection ends.

use super::malformed::{NUMBERS, samples};
use super::test_client::{TestClient, TestServer, show};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Sends bytes and ends the input. Returns all bytes that were answered.
fn answer_to(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
    stream.write_all(bytes).expect("sent");
    // The server may have closed the connection already.
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("neither answered nor closed: {error}: {}", show(bytes)),
    }
    answer
}

/// Returns the resident memory of this process, which includes the node, in bytes.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

#[test]
fn bit_flipped_frames_are_answered_or_closed() {
    let server = TestServer::build();
    let mut bystander = TestClient::new(server.address);
    assert_eq!(bystander.call(&["SET", "bystander", "unhurt"]), "+OK|");
    let mut frames = 0;
    for sample in samples() {
        for at in 0..sample.len() {
            for bit in 0..8 {
                let mut flipped = sample.clone();
                flipped[at] ^= 1 << bit;
                answer_to(server.address, &flipped);
                frames += 1;
            }
            // Closed in the middle of a frame, and with bytes behind it.
            answer_to(server.address, &sample[..at]);
            answer_to(server.address, &[&sample[..], &sample[..at]].concat());
            frames += 2;
        }
        assert_eq!(bystander.call(&["GET", "bystander"]), "$6|unhurt|");
    }
    assert!(frames > 2_000, "{frames}");
}

#[test]
fn claimed_lengths_reserve_no_memory_before_data_arrives() {
    let server = TestServer::build();
    let before = resident_bytes();
    let mut waiting = Vec::new();
    for words in NUMBERS {
        for length in NUMBERS {
            let frame = format!("*{words}\r\n${length}\r\n");
            let answer = show(&answer_to(server.address, frame.as_bytes()));
            let is_refused = answer.is_empty() || answer.starts_with("-ERR ");
            assert!(is_refused, "{frame:?}: {answer}");
            // The same from a client that has shut down its sending side.
            let mut client = TestClient::new(server.address);
            client.send(frame.as_bytes());
            waiting.push(client);
        }
    }
    for claim in ["*1048576\r\n", "*1\r\n$50331000\r\n", "*3\r\n$3\r\nSET\r\n$50000000\r\n"] {
        for _ in 0..20 {
            let mut client = TestClient::new(server.address);
            client.send(claim.as_bytes());
            waiting.push(client);
        }
    }
    assert_eq!(TestClient::new(server.address).call(&["PING"]), "+PONG|");
    let grown = resident_bytes().saturating_sub(before);
    // Sixty of them claim up to 48 MiB each; other tests run in the same process.
    assert!(grown < 512 << 20, "{grown} bytes more for claims alone");
    assert!(waiting.len() > 200);
}

#[test]
fn request_after_a_frame_fault_is_not_executed() {
    let server = TestServer::build();
    for fault in ["*1\r\n+PING\r\n", "*x\r\n", "*1\r\n$-1\r\n", "SET \"a\r\n"] {
        let bytes = format!("*1\r\n$4\r\nPING\r\n{fault}*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n1\r\n");
        let answer = show(&answer_to(server.address, bytes.as_bytes()));
        assert!(answer.starts_with("+PONG|-ERR Protocol error: "), "{fault:?}: {answer}");
        assert_eq!(answer.matches('|').count(), 2, "{answer}");
    }
    assert_eq!(TestClient::new(server.address).call(&["EXISTS", "k"]), ":0|");
}
