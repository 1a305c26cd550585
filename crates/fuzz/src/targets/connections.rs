//! Front-ends: the bytes of one client's connection, at a real node's port.
//!
//! The connection ends in an answer or an error, answers are of the client's protocol, and the next
//! client is served.

use crate::server::{ARAKOON_CLUSTER, ConnectionAnswer, ServedNode};
use std::sync::{Mutex, PoisonError};

/// Sends bytes to a node that is replaced when it does not serve any more.
fn send(bytes: &[u8]) -> ConnectionAnswer {
    static NODE: Mutex<Option<ServedNode>> = Mutex::new(None);
    let mut place = NODE.lock().unwrap_or_else(PoisonError::into_inner);
    let node = place.get_or_insert_with(ServedNode::start);
    let answer = node.exchange(node.clients, bytes);
    if !node.serves() {
        *place = None;
    }
    answer
}

/// Any bytes: the port tells by the first ones which protocol they are.
pub fn port(input: &[u8]) {
    send(input);
}

/// Redis' protocol.
pub fn resp(input: &[u8]) {
    let first = b"*1\r\n$4\r\nPING\r\n";
    let answer = send(&[first, input].concat());
    if !answer.is_complete {
        return;
    }
    let mut rest = answer.bytes.strip_prefix(b"+PONG\r\n").expect("the first is answered");
    while !rest.is_empty() {
        let left = rest.escape_ascii();
        rest = take_reply(rest, 0).unwrap_or_else(|| panic!("no reply of Redis: {left}"));
    }
}

/// Returns the bytes behind a reply of Redis' protocol, version 2 or 3.
fn take_reply(bytes: &[u8], depth: usize) -> Option<&[u8]> {
    let (kind, line_and_rest) = bytes.split_first()?;
    let end = line_and_rest.windows(2).position(|two| two == b"\r\n")?;
    let (line, rest) = (&line_and_rest[..end], &line_and_rest[end + 2..]);
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    match kind {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Some(rest),
        b'$' | b'=' | b'!' => match usize::try_from(number()?) {
            Ok(length) => rest.get(length..)?.strip_prefix(b"\r\n"),
            Err(_) => Some(rest), // None.
        },
        b'*' | b'~' | b'>' | b'%' if depth < 128 => {
            let pairs = if *kind == b'%' { 2 } else { 1 };
            let count = number()?.max(0) * pairs;
            (0..count).try_fold(rest, |rest, _| take_reply(rest, depth + 1))
        }
        _ => None,
    }
}

/// HTTP, with the native front-end's paths.
pub fn http(input: &[u8]) {
    let first = b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n";
    check_http(send(&[first, input].concat()), input);
}

/// HTTP, with Riak's paths.
pub fn riak(input: &[u8]) {
    let first = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n";
    check_http(send(&[first, input].concat()), input);
}

/// Checks answers of HTTP as far as their ends are known: an answer to `HEAD` has no body.
fn check_http(answer: ConnectionAnswer, input: &[u8]) {
    let text = answer.bytes.escape_ascii().to_string();
    if !answer.is_complete {
        return;
    }
    assert!(answer.bytes.starts_with(b"HTTP/1.1 200 "), "the first is answered: {text}");
    if input.windows(4).any(|word| word == b"HEAD") {
        return;
    }
    let mut rest = &answer.bytes[..];
    while !rest.is_empty() {
        let Some(next) = take_response(rest) else { panic!("no answer of HTTP: {text}") };
        rest = next;
    }
}

/// Returns the bytes behind an answer of HTTP.
fn take_response(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let (head, rest) = bytes.split_at(end);
    // A header may hold any bytes that a client stored.
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let status: u16 = head.strip_prefix("http/1.1 ")?.get(..3)?.parse().ok()?;
    assert!((100..600).contains(&status) && status != 500, "{head}");
    if status < 200 || status == 204 || status == 304 {
        return Some(rest);
    }
    let field =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    if let Some(length) = field("content-length") {
        return rest.get(length.trim().parse::<usize>().ok()?..);
    }
    match field("transfer-encoding") {
        Some(_) => take_chunks(rest),
        None => Some(&[]), // Up to the end.
    }
}

fn take_chunks(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
        rest = rest.get(end + 2..)?.get(size..)?.strip_prefix(b"\r\n")?;
        if size == 0 {
            return Some(rest);
        }
    }
}

/// Arakoon's protocol: requests behind a prologue.
pub fn arakoon(input: &[u8]) {
    let name = ARAKOON_CLUSTER.as_bytes();
    let length = (name.len() as u32).to_le_bytes();
    let prologue = [b"\x00\x00\xff\xb1\x01\x00\x00\x00", &length[..], name].concat();
    let answer = send(&[&prologue[..], input].concat());
    if answer.is_complete && !answer.bytes.is_empty() {
        let code = answer.bytes.first_chunk::<4>().map(|code| u32::from_le_bytes(*code));
        assert!(
            code.is_some_and(|code| code <= 0xff),
            "no answer: {}",
            answer.bytes.escape_ascii()
        );
    }
}
