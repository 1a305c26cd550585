//! Tests of the Riak driver: requests, replies, and a published config that runs.

use super::super::riak::{RiakExpectation, RiakTarget};
use super::super::sockets::{Parsed, WireProtocol};
use super::super::*;
use crate::config::{Config, Items, RiakConfig, ported, read_erlang};
use crate::load::{self, ReportRow as Window, RunObserver};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// State of the test server: requests with their port, and values with their number of writes by
/// path.
#[derive(Default)]
struct Heard {
    requests: Vec<(u16, String)>,
    rows: BTreeMap<String, (usize, Vec<u8>)>,
}

/// Serves the part of Riak that the driver uses, on this many ports, as long as the test runs.
fn server(ports: usize) -> (Vec<String>, Arc<Mutex<Heard>>) {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let mut addresses = Vec::new();
    for _ in 0..ports {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        addresses.push(address.to_string());
        let heard = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let heard = heard.clone();
                std::thread::spawn(move || serve(&stream, address.port(), &heard));
            }
        });
    }
    (addresses, heard)
}

fn serve(stream: &TcpStream, port: u16, heard: &Mutex<Heard>) -> Option<()> {
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
        let mut heard = heard.lock().expect("no panic while locked");
        let context = header("X-Riak-Vclock: ").unwrap_or_default();
        let first = head.first()?.trim_end_matches(" HTTP/1.1").to_string();
        heard.requests.push((port, format!("{first} {context}").trim_end().to_string()));
        let path = first.split(' ').nth(1)?.split('?').next()?.to_string();
        let reply = if first.starts_with("PUT") {
            let row = heard.rows.entry(path).or_default();
            *row = (row.0 + 1, body);
            b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
        } else {
            match heard.rows.get(&path) {
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

struct Nobody;

impl RunObserver for Nobody {
    fn row(&mut self, _row: &Window) -> Result<(), String> {
        Ok(())
    }
}

fn riak(addresses: &[String], path: &str) -> RiakTarget {
    RiakTarget::find(&RiakConfig {
        addresses: addresses.to_vec(),
        path: path.into(),
        query: "timeout=500".into(),
        read_query: "?r=2".into(),
        write_query: "w=2".into(),
    })
    .expect("found")
}

#[test]
fn a_published_config_runs_and_its_updates_carry_contexts() {
    let (addresses, heard) = server(3);
    let terms = include_str!("../../../published/httpraw.config");
    let mut items = ported(read_erlang("httpraw.config", terms).expect("whole")).expect("known");
    let settings = format!(
        "riak_addresses = {addresses:?}\nconcurrent = 3\nthink_time = '20ms'\nduration = '30s'\n\
         key_generator = ['int_to_str', ['sequential_int', 2]]"
    );
    items.merge(Items::parse("--set", &settings).expect("whole"));
    let config = Config::read(items).expect("whole");
    let target = prepare(&config.driver).expect("found");
    let run = load::run(&config, &*target, &AtomicBool::new(false), &mut Nobody).expect("ran");
    let update = &run.operations[0];
    assert_eq!((update.ok, update.errors.len()), (6, 0));
    let legs = update.legs.each_ref().map(|leg| leg.as_ref().map_or(0, |leg| leg.len()));
    assert_eq!(legs, [6, 6]);
    let heard = heard.lock().expect("whole");
    let puts = heard.requests.iter().filter(|(_, request)| request.starts_with("PUT"));
    let puts: Vec<_> = puts.collect();
    assert_eq!(puts.len(), 6);
    assert!(puts.iter().all(|(_, put)| put.starts_with("PUT /riak/test/")));
    // Each client has an address of its own, and sends all its requests there.
    let mut ports: Vec<_> = puts.iter().map(|(port, _)| *port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3);
    // The context of each get comes back with the put: six bytes for each existing row.
    let found = puts.iter().filter(|(_, put)| put.contains(" AAAA")).count() as u64;
    let causality = update
        .causality
        .as_ref()
        .map_or((0, 0.0, 0.0), |all| (all.values.len(), all.values.mean(), all.clock_bytes.mean()));
    let wanted = if found == 0 { (0, 0.0, 0.0) } else { (found, 1.0, 6.0) };
    assert_eq!(causality, wanted);
}

#[test]
fn requests_name_quorums_and_escape_keys() {
    let (addresses, _heard) = server(1);
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
}

#[test]
fn replies_tell_values_and_contexts() {
    let (addresses, _heard) = server(1);
    let target = riak(&addresses, "/buckets/b/keys");
    let row = |text: &str| match target.protocol().parse(text.as_bytes(), &RiakExpectation::Row) {
        Parsed::Reply(bytes, Ok(Answer::Row(found))) => {
            assert_eq!(bytes, text.len());
            let context = found.context.map(|text| String::from_utf8_lossy(text).into_owned());
            Ok((found.values, found.value.map(<[u8]>::to_vec), context))
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
    let gone =
        format!("HTTP/1.1 404 Object Not Found\r\n{head}Content-Length: 10\r\n\r\nnot found\n");
    assert_eq!(row(&gone), Ok((0, None, Some("AQI=".into()))));
    let wrong =
        "HTTP/1.1 404 Object Not Found\r\nContent-Length: 22\r\n\r\nUnknown bucket type: t\n";
    assert!(row(&wrong[..wrong.len() - 1]).is_err_and(|text| text.contains("404")));
    let busy = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    assert!(row(busy).is_err_and(|text| text.contains("503")));
}
