//! Tests of the Riak driver: requests, replies, and a published config that runs.

use super::super::riak::{RiakExpectation, RiakTarget};
use super::super::sockets::{Parsed, WireProtocol};
use super::super::*;
use crate::config::{Config, Items, RiakConfig, convert_terms, read_erlang};
use crate::load::{self, NullObserver};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// State of the test server: requests with their port, and values with their number of writes by
/// path.
#[derive(Default)]
struct RecordedRequests {
    requests: Vec<(u16, String)>,
    rows: BTreeMap<String, (usize, Vec<u8>)>,
}

/// Serves the part of Riak that the driver uses, on this many ports, as long as the test runs.
fn server(ports: usize) -> (Vec<String>, Arc<Mutex<RecordedRequests>>) {
    let recorded = Arc::new(Mutex::new(RecordedRequests::default()));
    let mut addresses = Vec::new();
    for _ in 0..ports {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        addresses.push(address.to_string());
        let recorded = recorded.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let recorded = recorded.clone();
                std::thread::spawn(move || serve(&stream, address.port(), &recorded));
            }
        });
    }
    (addresses, recorded)
}

fn serve(stream: &TcpStream, port: u16, recorded: &Mutex<RecordedRequests>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let (mut head, mut line) = (Vec::new(), String::new());
        while reader.read_line(&mut line).ok().filter(|count| *count > 0)? > 2 {
            head.push(std::mem::take(&mut line).trim().to_string());
        }
        let header =
            |name: &str| head.iter().find_map(|line| line.strip_prefix(name)).map(str::to_string);
        let length = header("Content-Length: ").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let mut recorded = recorded.lock().expect("no panic while locked");
        let context = header("X-Riak-Vclock: ").unwrap_or_default();
        let first = head.first()?.trim_end_matches(" HTTP/1.1").to_string();
        recorded.requests.push((port, format!("{first} {context}").trim_end().to_string()));
        let path = first.split(' ').nth(1)?.split('?').next()?.to_string();
        let reply = if first.starts_with("PUT") {
            let row = recorded.rows.entry(path).or_default();
            *row = (row.0 + 1, body);
            b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
        } else {
            match recorded.rows.get(&path) {
                None => b"HTTP/1.1 404 Object Not Found\r\nContent-Length: 10\r\n\r\nnot found\n"
                    .to_vec(),
                Some((count, value)) => {
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nX-Riak-Vclock: AAAA{count:04}\r\n\
                         Content-Length: {}\r\n\r\n",
                        value.len()
                    );
                    [head.as_bytes(), value].concat()
                }
            }
        };
        writer.write_all(&reply).ok()?;
    }
}

fn riak(addresses: &[String], path: &str) -> RiakTarget {
    RiakTarget::connect(&RiakConfig {
        addresses: addresses.to_vec(),
        path: path.into(),
        query: "timeout=500".into(),
        read_query: "?r=2".into(),
        write_query: "w=2".into(),
        tag: Some("redeemed_count".into()),
    })
    .expect("found")
}

#[test]
fn published_config_runs_against_riak_and_updates_carry_context() {
    let (addresses, recorded) = server(3);
    let terms = include_str!("../../../published/httpraw.config");
    let mut items =
        convert_terms(read_erlang("httpraw.config", terms).expect("whole")).expect("known");
    let settings = format!(
        "riak_addresses = {addresses:?}\nconcurrent = 3\nthink_time = '20ms'\nduration = '30s'\n\
         key_generator = ['int_to_str', ['sequential_int', 2]]"
    );
    items.merge(Items::parse("--set", &settings).expect("whole"));
    let config = Config::read(items).expect("whole");
    let target = prepare(&config.driver).expect("found");
    let run =
        load::run(&config, &*target, &AtomicBool::new(false), &mut NullObserver).expect("ran");
    let update = &run.operations[0];
    assert_eq!((update.ok, update.errors.len()), (6, 0));
    let lengths =
        update.call_times.each_ref().map(|times| times.as_ref().map_or(0, |times| times.len()));
    assert_eq!(lengths, [6, 6]);
    let recorded = recorded.lock().expect("whole");
    let puts = recorded.requests.iter().filter(|(_, request)| request.starts_with("PUT"));
    let puts: Vec<_> = puts.collect();
    assert_eq!(puts.len(), 6);
    assert!(puts.iter().all(|(_, put)| put.starts_with("PUT /riak/test/")));
    // Each client sends all its requests to its own address.
    let mut ports: Vec<_> = puts.iter().map(|(port, _)| *port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3);
    // The put carries the context of its get: six bytes for each existing row.
    let contexts = puts.iter().filter(|(_, put)| put.contains(" AAAA")).count() as u64;
    let causality = update.causality.as_ref().map_or((0, 0.0, 0.0), |causality| {
        (causality.values.len(), causality.values.mean(), causality.clock_bytes.mean())
    });
    let expected = if contexts == 0 { (0, 0.0, 0.0) } else { (contexts, 1.0, 6.0) };
    assert_eq!(causality, expected);
}

#[test]
fn riak_requests_carry_quorums_tags_and_escaped_keys() {
    let (addresses, _recorded) = server(1);
    let target = riak(&addresses, "/types/t/buckets/b/keys");
    assert_eq!(target.version(), "unknown HTTP server");
    assert!(target.supports(Operation::Update).is_ok());
    let refused = target.supports(Operation::Range).expect_err("there is none");
    assert_eq!(refused, "Riak's interface has no `range`");
    let protocol = target.protocol();
    let text = |call: &Call<'_>| {
        let mut out = Vec::new();
        protocol.encode(call, &mut out);
        String::from_utf8(out).expect("text")
    };
    let asked = text(&Call::Get(b"a/b \xff"));
    let path = "/types/t/buckets/b/keys/a%2Fb%20%FF?timeout=500&r=2";
    assert!(asked.starts_with(&format!("GET {path} HTTP/1.1\r\nhost: ")), "{asked}");
    assert!(asked.contains("\r\nAccept: multipart/mixed, */*;q=0.5\r\n"), "{asked}");
    let told = text(&Call::Replace { key: b"k", value: b"new", context: b"AQ==" });
    assert!(told.contains("keys/k?timeout=500&w=2 HTTP/1.1\r\n"), "{told}");
    assert!(told.contains("\r\nX-Riak-Vclock: AQ==\r\n"), "{told}");
    assert!(told.ends_with("\r\nContent-Length: 3\r\n\r\nnew"), "{told}");
    assert!(!text(&Call::Put(b"k", b"new")).contains("Vclock"));
    let tagged = text(&Call::Put(b"k", br#"{"a":1,"redeemed_count":49,"b":2}"#));
    assert!(tagged.contains("\r\nx-riak-index-redeemed_count_int: 49\r\n"), "{tagged}");
    for untagged in ["new", r#"{"redeemed_count":null}"#, r#"{"redeemed_count":"#] {
        let text = text(&Call::Put(b"k", untagged.as_bytes()));
        assert!(!text.contains("x-riak-index"), "{text}");
    }
}

#[test]
fn riak_replies_yield_sibling_count_value_and_context() {
    let (addresses, _recorded) = server(1);
    let target = riak(&addresses, "/buckets/b/keys");
    let row = |text: &str| match target.protocol().parse(text.as_bytes(), &RiakExpectation::Row) {
        Parsed::Reply(bytes, Ok(Answer::Row(reply))) => {
            assert_eq!(bytes, text.len());
            let context = reply.context.map(|text| String::from_utf8_lossy(text).into_owned());
            Ok((reply.values, reply.value.map(<[u8]>::to_vec), context))
        }
        other => Err(format!("{other:?}")),
    };
    let head = "X-Riak-Vclock: AQI=\r\n";
    let one = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: 3\r\n\r\nfig");
    assert_eq!(row(&one), Ok((1, Some(b"fig".to_vec()), Some("AQI=".into()))));
    let part = |value: &str| format!("\r\n--XyZ\r\nContent-Type: text/plain\r\n\r\n{value}");
    let body = format!("{}{}{}\r\n--XyZ--\r\n", part("a"), part("b"), part("c"));
    let length = body.len();
    let several = format!(
        "HTTP/1.1 300 Multiple Choices\r\n{head}Content-Type: multipart/mixed; boundary=XyZ\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    assert_eq!(row(&several), Ok((3, None, Some("AQI=".into()))));
    let tags = format!(
        "HTTP/1.1 300 Multiple Choices\r\n{head}Content-Type: text/plain\r\n\
         Content-Length: 17\r\n\r\nSiblings:\na1\nb22\n"
    );
    assert_eq!(row(&tags), Ok((2, None, Some("AQI=".into()))));
    let absent =
        format!("HTTP/1.1 404 Object Not Found\r\n{head}Content-Length: 10\r\n\r\nnot found\n");
    assert_eq!(row(&absent), Ok((0, None, Some("AQI=".into()))));
    let unknown_type =
        "HTTP/1.1 404 Object Not Found\r\nContent-Length: 22\r\n\r\nUnknown bucket type: t\n";
    assert!(row(&unknown_type[..unknown_type.len() - 1]).is_err_and(|text| text.contains("404")));
    let busy = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    assert!(row(busy).is_err_and(|text| text.contains("503")));
}
