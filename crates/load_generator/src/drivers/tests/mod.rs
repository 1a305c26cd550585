//! Tests that replies are parsed however they are split, and that each loss is reported once.

use super::resp_reply::{MalformedReply, Reply, parse_reply};
use super::sockets::{Parsed, WireProtocol};
mod arakoon;
mod documents;
mod riak;

use super::*;
use crate::config::{Config, Items};
use std::io::{Read, Write};
use std::net::TcpListener;

#[test]
fn resp_replies_parse_whole_and_every_prefix_is_incomplete() {
    for (text, expected) in [
        ("+OK\r\n", Reply::Simple(b"OK")),
        ("-ERR no\r\n", Reply::Error(b"ERR no")),
        (":-12\r\n", Reply::Integer(-12)),
        ("$3\r\na\r\n\r\n", Reply::Bulk(b"a\r\n")),
        ("$0\r\n\r\n", Reply::Bulk(b"")),
        ("$-1\r\n", Reply::Nil),
        ("*-1\r\n", Reply::Nil),
        ("_\r\n", Reply::Nil),
        ("#t\r\n", Reply::Simple(b"t")),
        ("*0\r\n", Reply::Array { present: 0, inner: 0, error: None }),
        ("*3\r\n$1\r\na\r\n$-1\r\n:1\r\n", Reply::Array { present: 2, inner: 0, error: None }),
        ("*2\r\n$-1\r\n*2\r\n+a\r\n+b\r\n", Reply::Array { present: 1, inner: 2, error: None }),
        ("*1\r\n-ERR x\r\n", Reply::Array { present: 1, inner: 0, error: Some(b"ERR x") }),
        ("%1\r\n+a\r\n:1\r\n", Reply::Array { present: 2, inner: 0, error: None }),
    ] {
        let bytes = text.as_bytes();
        assert_eq!(parse_reply(bytes), Some(Ok((expected, bytes.len()))), "{text:?}");
        for end in 0..bytes.len() {
            assert_eq!(parse_reply(&bytes[..end]), None, "{:?}", &text[..end]);
        }
        let longer = [bytes, b"+OK\r\n"].concat();
        assert_eq!(parse_reply(&longer), Some(Ok((expected, bytes.len()))), "{text:?}");
    }
    let deep = "*1\r\n".repeat(100);
    for text in
        ["x\r\n", "\r\n", "$x\r\n", "$-2\r\n", "$1\r\nabc", ":\r\n", "$99999999999\r\n", &deep]
    {
        assert_eq!(parse_reply(text.as_bytes()), Some(Err(MalformedReply)), "{text:?}");
    }
}

#[test]
fn http_replies_parse_whole_and_every_prefix_is_incomplete() {
    use super::http_reply::{HttpReply, parse_http_reply};
    let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nx: y\r\n\r\nabc";
    let lines = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nx: y";
    let reply = HttpReply { status: 200, head: lines, body: b"abc", bytes: plain.len() };
    assert_eq!((reply.header("x"), reply.header("content-length")), (Some("y"), Some("3")));
    assert_eq!(parse_http_reply(plain, false), Some(Ok(reply)));
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(
        parse_http_reply(chunked, false).map(|reply| reply.map(|f| f.bytes)),
        Some(Ok(chunked.len()))
    );
    for complete in [&plain[..], chunked] {
        for end in 0..complete.len() {
            assert_eq!(parse_http_reply(&complete[..end], false), None, "{end}");
        }
    }
    let empty = b"HTTP/1.1 204 No Content\r\n\r\n";
    assert_eq!(
        parse_http_reply(empty, false).map(|reply| reply.map(|f| f.bytes)),
        Some(Ok(empty.len()))
    );
    let of_head = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n";
    assert_eq!(
        parse_http_reply(of_head, true).map(|reply| reply.map(|f| f.bytes)),
        Some(Ok(of_head.len()))
    );
    for bad in ["HTTP/1.0 200 OK\r\n\r\n", "x\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
        assert!(matches!(parse_http_reply(bad.as_bytes(), false), Some(Err(_))), "{bad:?}");
    }
}

fn target(address: &str) -> Result<Box<dyn Target>, BenchError> {
    let text = format!("driver = 'resp'\nresp_address = '{address}'");
    prepare(&Config::read(Items::parse("a.toml", &text)?)?.driver)
}

/// Answers the first request (INFO), then serves one connection by `serve`.
fn server(serve: impl FnOnce(std::net::TcpStream) + Send + 'static) -> (String, Server) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let thread = std::thread::spawn(move || {
        let (mut first, _) = listener.accept().expect("connected");
        let mut buffer = [0; 1024];
        let _ = first.read(&mut buffer).expect("asked");
        let info = "redis_version:7.0\r\n";
        write!(first, "${}\r\n{info}\r\n", info.len()).expect("told");
        let (stream, _) = listener.accept().expect("connected");
        serve(stream);
    });
    (address, thread)
}

type Server = std::thread::JoinHandle<()>;

/// Waits for this many answers and returns them as texts.
fn answers(driver: &mut dyn Driver, count: usize) -> Vec<String> {
    let mut texts = Vec::new();
    for _ in 0..1000 {
        driver.wait(Duration::from_millis(10), &mut |client, _, answer| {
            texts.push(format!("{client} {answer:?}"));
        });
        if texts.len() >= count {
            break;
        }
    }
    texts
}

#[test]
fn pipelined_replies_split_into_single_bytes_arrive_in_order() {
    let (address, thread) = server(|mut stream| {
        let mut request = vec![0; 4096];
        let mut count = 0;
        while !request[..count].ends_with(b"$1\r\nb\r\n$1\r\n2\r\n") {
            count += stream.read(&mut request[count..]).expect("asked");
        }
        stream.set_nodelay(true).expect("set");
        for byte in b"$3\r\nx\r\n\r\n$-1\r\n-OOM full\r\n+OK\r\n" {
            stream.write_all(&[*byte]).expect("told");
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let target = target(&address).expect("found");
    assert_eq!(target.version(), "redis 7.0");
    assert!(target.supports(Operation::Put).is_ok());
    let refused = target.supports(Operation::TestAndSet).expect_err("Redis can't");
    assert!(refused.contains("only Credenza"), "{refused}");
    let mut driver = target.driver(1).expect("connected");
    driver.begin(0, &Call::Get(b"a"));
    driver.begin(0, &Call::Get(b"b"));
    driver.begin(0, &Call::Put(b"a", b"1"));
    driver.begin(0, &Call::Put(b"b", b"2"));
    driver.send(0);
    let [found, absent] =
        [Answer::Value(Some(b"x\r\n")), Answer::Value(None)].map(Ok::<_, Failure>);
    let refused: Result<Answer<'_>, _> = Err(Failure::refused("OOM"));
    let stored: Result<_, Failure> = Ok(Answer::Done);
    let expected = [found, absent, refused, stored].map(|answer| format!("0 {answer:?}"));
    assert_eq!(answers(&mut *driver, 4), expected);
    thread.join().expect("served");
}

#[test]
fn lost_connection_fails_each_pending_call_once() {
    let (address, thread) = server(|mut stream| {
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).expect("asked");
    });
    let target = target(&address).expect("found");
    let mut driver = target.driver(1).expect("connected");
    driver.begin(0, &Call::Get(b"a"));
    driver.begin(0, &Call::Get(b"b"));
    driver.send(0);
    let lost: Result<Answer<'_>, _> = Err(Failure::lost("connection_lost"));
    assert_eq!(answers(&mut *driver, 2), vec![format!("0 {lost:?}"); 2]);
    thread.join().expect("served");
    driver.begin(0, &Call::Get(b"c"));
    driver.send(0);
    let refused: Result<Answer<'_>, _> = Err(Failure::lost("not_connected"));
    assert_eq!(answers(&mut *driver, 1), [format!("0 {refused:?}")]);
    driver.begin(0, &Call::Get(b"c"));
    driver.forget(0);
    driver.wait(Duration::ZERO, &mut |_, _, answer| panic!("forgotten, but {answer:?}"));
}

#[test]
fn resp_put_and_transaction_are_encoded_and_replies_parsed() {
    let mut out = Vec::new();
    let resp = resp::Resp::default();
    resp.encode(&Call::Put(b"key", b"a\0b"), &mut out);
    assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$3\r\na\0b\r\n");
    out.clear();
    let rows = [(b"k".to_vec(), b"v".to_vec())];
    let expected = resp.encode(&Call::Sequence(&rows), &mut out);
    assert!(out.starts_with(b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET"));
    let replies = b"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n";
    assert_eq!(resp.parse(replies, &expected), Parsed::Reply(replies.len(), Ok(Answer::Done)));
    assert_eq!(resp.parse(&replies[..20], &expected), Parsed::Partial);
    let failed = b"+OK\r\n-ERR too_large: x\r\n-EXECABORT no\r\n";
    let failure = Err(Failure::refused("ERR too_large"));
    assert_eq!(resp.parse(failed, &expected), Parsed::Reply(failed.len(), failure));
}

#[test]
fn queue_maps_to_key_prefix_in_credenza_and_sorted_set_in_redis() {
    let encoded = |protocol: &resp::Resp, call: RespCall<'_>| {
        let mut out = Vec::new();
        let expected = protocol.encode(&Call::Resp(call), &mut out);
        (String::from_utf8(out).expect("text").replace("\r\n", " "), expected)
    };
    let (credenza, redis) = (resp::Resp::default(), resp::Resp::of_redis());
    let push = RespCall::Push { queue: b"q:", key: b"7", value: b"v" };
    assert_eq!(encoded(&credenza, push).0, "*3 $3 SET $3 q:7 $1 v ");
    assert_eq!(encoded(&redis, push).0, "*4 $4 ZADD $2 q: $1 0 $1 7 ");
    let remove = RespCall::Remove { queue: b"q:", key: b"q:7" };
    assert_eq!(encoded(&credenza, remove).0, "*2 $3 DEL $3 q:7 ");
    assert_eq!(encoded(&redis, remove).0, "*3 $4 ZREM $2 q: $3 q:7 ");
    // The first key of a page, and the first member of a list.
    for (protocol, reply, first) in [
        (&credenza, "*2\r\n$3\r\nq:8\r\n*2\r\n$3\r\nq:7\r\n$1\r\nv\r\n", Some(&b"q:7"[..])),
        (&credenza, "*2\r\n$-1\r\n*0\r\n", None),
        (&redis, "*1\r\n$1\r\n7\r\n", Some(b"7")),
        (&redis, "*0\r\n", None),
    ] {
        let (_, expected) = encoded(protocol, RespCall::First(b"q:"));
        let parsed = protocol.parse(reply.as_bytes(), &expected);
        assert_eq!(parsed, Parsed::Reply(reply.len(), Ok(Answer::Value(first))), "{reply:?}");
    }
    let (command, expected) = encoded(&credenza, RespCall::SessionPut(b"k", b"v"));
    assert!(
        command.contains("OPEN") && command.contains("RETRY $1 1") && command.ends_with("CLOSE ")
    );
    let replies = b":7\r\n+OK\r\n+OK\r\n";
    assert_eq!(credenza.parse(replies, &expected), Parsed::Reply(replies.len(), Ok(Answer::Done)));
    assert_eq!(credenza.parse(&replies[..9], &expected), Parsed::Partial);
}
