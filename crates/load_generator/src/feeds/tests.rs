//! Tests of readers at servers that answer from a script.

use super::*;
use crate::config::HttpConfig;
use base::BucketName;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);
const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/// Starts a server; returns it with the settings of its readers.
fn listen() -> (TcpListener, HttpConfig) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let bucket = BucketName::parse("orders").expect("a name");
    (listener, HttpConfig { address, bucket, read_query: String::new() })
}

/// Reads the head of a request; returns its first line.
fn read_request(stream: &mut TcpStream) -> String {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a request");
        request.extend_from_slice(&byte);
    }
    let request = String::from_utf8(request).expect("text");
    request.lines().next().unwrap_or_default().to_string()
}

/// Serves one connection: each request gets the next answer. Returns the requests' first lines.
fn serve(answers: Vec<String>) -> (HttpConfig, JoinHandle<Vec<String>>) {
    let (listener, config) = listen();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a reader");
        let answer = |answer: String| {
            let request = read_request(&mut stream);
            stream.write_all(answer.as_bytes()).expect("sent");
            request
        };
        answers.into_iter().map(answer).collect()
    });
    (config, server)
}

fn chunk(data: &str) -> String {
    format!("{:08x}\r\n{data}\r\n", data.len())
}

fn page(events: usize, token: &str, level: bool) -> String {
    let events = vec![r#"{"event":"put","key":"k"}"#; events].join(",");
    let body =
        format!(r#"{{"events":[{events}],"token":"{token}","level":{level},"restart":false}}"#);
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn stream_is_read_to_its_level() {
    let first = "{\"event\":\"put\",\"key\":\"a\"}\n{\"event\":\"token\",\"token\":\"t1\"}\n";
    let last = "{\"event\":\"delete\",\"key\":\"a\"}\n{\"event\":\"level\",\"token\":\"t2\"}\n";
    let body = chunk(first) + &chunk(last);
    let (config, server) = serve(vec![format!("{STREAM_HEAD}{body}")]);
    let reading = read_stream(&config, true).expect("read");
    assert_eq!((reading.events, reading.bytes), (2, body.len() as u64));
    let requests = server.join().expect("served");
    let path = "GET /v1/buckets/default/orders/feed/stream?from=start&values=true HTTP/1.1";
    assert_eq!(requests, [path]);
}

#[test]
fn stream_that_ends_early_has_no_result() {
    let error = "{\"error\":{\"reason\":\"no_such_bucket\"}}\n";
    for (body, expected) in [
        (chunk(error), "the feed ended: {\"error\""),
        ("0\r\n\r\n".into(), "ended before the feed did"),
        ("{\"event\":\"put\"}\n".into(), "not chunked"),
        (chunk("{\"event\":\"put\"}\n"), "closed the connection"),
    ] {
        let (config, server) = serve(vec![format!("{STREAM_HEAD}{body}")]);
        let failure = read_stream(&config, false).expect_err("it ended");
        assert!(failure.text.contains(expected), "{body}: {failure}");
        server.join().expect("served");
    }
}

#[test]
fn pages_are_read_behind_each_other_to_the_level() {
    let (config, server) =
        serve(vec![page(3, "t1", false), page(0, "t2", false), page(2, "t3", true)]);
    let reading = read_pages(&config, false).expect("read");
    assert_eq!(reading.events, 5);
    let requests = server.join().expect("served");
    let places: Vec<_> = requests
        .iter()
        .filter_map(|line| line.split_once("feed?from=")?.1.split_once('&'))
        .map(|(place, _)| place)
        .collect();
    assert_eq!(places, ["start", "t1", "t2"]);
}

#[test]
fn refused_page_is_an_error_with_its_reason() {
    let body = r#"{"error":{"reason":"feed_off"}}"#;
    let length = body.len();
    let refusal = format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {length}\r\n\r\n{body}");
    let (config, server) = serve(vec![refusal.clone()]);
    let failure = read_pages(&config, false).expect_err("refused");
    assert!(failure.text.contains("400") && failure.text.contains("feed_off"), "{failure}");
    server.join().expect("served");
    let (config, server) = serve(vec![refusal]);
    let failure = wait_until_readable(&config, Duration::ZERO).expect_err("refused");
    assert!(failure.text.contains("feed_off"), "{failure}");
    server.join().expect("served");
}

/// Serves readers that wait: `greeting` is what each gets first; once `told` of them were told of
/// a put, all connections stay open until the readers close them.
fn serve_watchers(
    readers: usize,
    greeting: String,
    told: usize,
    put: String,
) -> (HttpConfig, JoinHandle<()>, std::sync::mpsc::Sender<()>) {
    let (listener, config) = listen();
    let (start, started) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let mut streams = Vec::new();
        for _ in 0..readers {
            let (mut stream, _) = listener.accept().expect("a reader");
            read_request(&mut stream);
            stream.write_all(greeting.as_bytes()).expect("sent");
            streams.push(stream);
        }
        if started.recv().is_err() {
            return;
        }
        for stream in streams.iter_mut().take(told) {
            stream.write_all(put.as_bytes()).expect("sent");
        }
        for mut stream in streams {
            // A reader that closes its connection with unread bytes resets it.
            let _ = stream.read(&mut [0]);
        }
    });
    (config, server, start)
}

#[test]
fn watchers_wait_until_all_are_told_of_a_put() {
    let level = "id: t\nevent: level\ndata: {\"event\":\"level\",\"token\":\"t\"}\n\n";
    let put = "event: put\ndata: {\"event\":\"put\",\"key\":\"a\"}\n\n";
    let greeting = format!("{STREAM_HEAD}{}{}", chunk(level), chunk(":\n\n"));
    for (form, greeting, put) in [
        (WatchForm::Streams, greeting, chunk(put)),
        (WatchForm::Pages, String::new(), page(1, "t", true)),
    ] {
        let (config, server, start) = serve_watchers(3, greeting, 3, put);
        let mut watchers = Watchers::start(&config, form, 3).expect("they wait");
        watchers.check().expect("they were told nothing");
        start.send(()).expect("it serves");
        watchers.wait_for_put(TIMEOUT).expect("told");
        drop(watchers);
        server.join().expect("served");
    }
}

#[test]
fn watcher_that_is_not_told_is_an_error() {
    let (config, server, start) = serve_watchers(3, String::new(), 2, page(1, "t", true));
    let mut watchers = Watchers::start(&config, WatchForm::Pages, 3).expect("they wait");
    start.send(()).expect("it serves");
    let failure = watchers.wait_for_put(Duration::from_millis(50)).expect_err("one was not told");
    assert!(failure.text.contains("of 3 readers were told"), "{failure}");
    drop(watchers);
    server.join().expect("served");
}

#[test]
fn watcher_that_is_answered_early_is_an_error() {
    let (config, server, start) = serve_watchers(2, page(0, "t", true), 0, String::new());
    let mut watchers = Watchers::start(&config, WatchForm::Pages, 2).expect("they wait");
    let failure = loop {
        match watchers.check() {
            // The answer is on its way.
            Ok(()) => std::thread::yield_now(),
            Err(failure) => break failure,
        }
    };
    assert!(failure.text.contains("was answered: HTTP/1.1 200"), "{failure}");
    start.send(()).expect("it serves");
    drop(watchers);
    server.join().expect("served");
}
