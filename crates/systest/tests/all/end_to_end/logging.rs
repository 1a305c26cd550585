//! Keys and values never reach the log: at every protocol and level, whatever clients send.

use super::{fresh_with, get, http, key_path, put, resp};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use systest::client::{Arakoon, Http, Resp, Riak, SequenceStep, command, encoded};
use systest::rigs::{Cluster, Options, Scratch};
use systest::server::{Server, signal};

/// Marker in every key and every value that is sent; other logged text does not contain it.
const KEY: &str = "Cust0mer-K3y";
const VALUE: &str = "Passp0rt-V4lue";

/// Method, path, headers and body of a request.
type Asked<'a> = (&'a str, String, &'a [(&'a str, &'a str)], &'a [u8]);

/// Commands, some of which are accepted and some refused.
const COMMANDS: &str = "\
SET {k} {v}; GET {k}; APPEND {k} {v}; INCR {k}; INCRBYFLOAT {k} {v}; MSET {k}1 {v} {k}2 {v}
MGET {k}1 {k}2 {k}3; GETDEL {k}1; SETNX {k} {v}; SET {k} {v} EX {v}; SET {k}; SET {k}ends {v} PX 1
EXPIRE {k} {v}; TTL {k}; TYPE {k}; EXISTS {k} {k}4; KEYS {k}*; SCAN 0 MATCH {k}*; SCAN {k}
RANDOMKEY; LPUSH {k} {v}; EVAL {v} 1 {k}; {k} {v}; OBJECT ENCODING {k}; DEBUG OBJECT {k}
AUTH {v}; AUTH {k} {v}; HELLO 2 AUTH {k} {v}; HELLO {v}; CLIENT SETNAME {k}; CLIENT LIST
CLIENT KILL {k}; CONFIG GET {k}*
CONFIG SET {k} {v}; SELECT {k}; WATCH {k}; MULTI; SET {k} {v}; INCR {k}; EXEC; MULTI; {k}; EXEC
CREDENZA.RANGE {k} + KEYS; CREDENZA.DELPREFIX {k}2; CREDENZA.{k} {v}; DEL {k} {k}5";

/// Returns the forms in which a program may print bytes.
fn forms(marker: &str) -> [String; 4] {
    let each = |write: fn(&u8) -> String, between: &str| {
        let written: Vec<_> = marker.as_bytes().iter().take(6).map(write).collect();
        written.join(between)
    };
    [
        marker[..6].to_string(),
        each(|byte| byte.to_string(), ", "),
        each(|byte| format!("{byte:02x}"), ""),
        each(|byte| format!("{byte:02X}"), ""),
    ]
}

/// Returns the lines of a log that contain a key or a value.
fn leaks(log: &str) -> Vec<&str> {
    let forms: Vec<_> = [KEY, VALUE].into_iter().flat_map(forms).collect();
    log.lines().filter(|line| forms.iter().any(|form| line.contains(form))).collect()
}

fn must_not_leak(log: &str) {
    let found = leaks(log);
    let shown: Vec<_> = found.iter().take(3).map(|line| line.get(..300).unwrap_or(line)).collect();
    assert!(found.is_empty(), "{} lines hold a key or a value: {shown:#?}", found.len());
}

#[test]
fn a_key_or_value_in_a_log_is_seen_in_every_form() {
    let (key, value) = (KEY.as_bytes(), VALUE.as_bytes());
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    for form in [format!("key={KEY:?}"), format!("{value:?}"), hex, format!("a%20{KEY}%00")] {
        let log = format!("info  node ready\nwarn  node a key key={form} has\ninfo  node ready\n");
        assert_eq!(leaks(&log).len(), 1, "{log}");
    }
    assert_eq!(leaks("warn  node a key has many siblings key_hash=436d6f\n"), Vec::<&str>::new());
}

/// Sends requests of Redis' clients: commands that are accepted and refused, large ones, and bytes
/// of no protocol.
fn speak_resp(server: &Server) {
    let mut client = resp(server);
    for line in COMMANDS.lines().flat_map(|line| line.split("; ")) {
        let line = line.replace("{k}", KEY).replace("{v}", VALUE);
        client.say(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    let large = VALUE.repeat((1 << 20) / VALUE.len());
    client.call(&[b"SET", KEY.as_bytes(), large.as_bytes()]).expect("it is answered");
    let key = KEY.repeat(4_000);
    assert!(client.call(&[b"SET", key.as_bytes(), b"x"]).expect("it answers").error().is_some());
    let too_large = VALUE.repeat((9 << 20) / VALUE.len());
    let _ = client.call(&[b"SET", KEY.as_bytes(), too_large.as_bytes()]);
    let strange = [
        format!("*2\r\n$3\r\nGET\r\n${KEY}\r\n"),
        format!("*{VALUE}\r\n"),
        format!("{KEY} {VALUE}\r\n"),
        format!("set {KEY} 0 0 14\r\n{VALUE}\r\n"),
        format!("\x16\x03\x01{KEY}{VALUE}"),
        format!("\x07{KEY}{VALUE}"),
    ];
    for bytes in strange {
        let mut client = resp(server);
        client.send(bytes.as_bytes()).expect("it is taken");
        client.closed_within(Duration::from_millis(200));
    }
    // A client that disconnects in the middle of a command.
    let begun = command(&[b"SET", KEY.as_bytes(), VALUE.as_bytes()]);
    resp(server).send(&begun[..begun.len() - 9]).expect("it is taken");
}

/// Sends requests of clients of the native interface.
fn speak_http(server: &Server) {
    let mut client = http(server);
    let key = [KEY.as_bytes(), b"\0\xff/\r\n"].concat();
    assert_eq!(put(&mut client, &key, VALUE.as_bytes()).status, 204);
    assert_eq!(get(&mut client, &key).body, VALUE.as_bytes());
    assert_eq!(get(&mut client, VALUE.as_bytes()).status, 404);
    let path = key_path(&key);
    let json = format!("{{\"{KEY}\":\"{VALUE}\"}}");
    let asked: [Asked<'_>; 12] = [
        ("PUT", path.clone(), &[("if-match", VALUE)], b"x"),
        ("PUT", path.clone(), &[("if-match", "\"1\"")], VALUE.as_bytes()),
        ("PUT", path.clone(), &[("x-credenza-session", VALUE)], VALUE.as_bytes()),
        ("PUT", path.clone(), &[(KEY, VALUE)], VALUE.as_bytes()),
        ("PUT", format!("{path}?expires={VALUE}"), &[], VALUE.as_bytes()),
        ("PUT", path.clone(), &[("origin", KEY)], VALUE.as_bytes()),
        ("GET", path.clone(), &[("authorization", VALUE)], b""),
        ("POST", path.clone(), &[], VALUE.as_bytes()),
        ("POST", "/v1/buckets/default/default/batch".into(), &[], json.as_bytes()),
        ("POST", "/v1/buckets/default/default/range".into(), &[], json.as_bytes()),
        ("GET", format!("/v1/buckets/default/default/keys?prefix={KEY}"), &[], b""),
        ("GET", format!("/v1/{KEY}/{VALUE}?{KEY}={VALUE}"), &[], b""),
    ];
    for (method, path, headers, body) in asked {
        // Some of these end the connection.
        let mut client = http(server);
        let answer = client.ask_with(method, &path, headers, body);
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
    }
    let too_large = VALUE.repeat((9 << 20) / VALUE.len());
    assert_eq!(put(&mut http(server), KEY.as_bytes(), too_large.as_bytes()).status, 413);
    for head in [
        format!("GET {path} HTTP/1.1\r\nhost: {KEY}.example\r\n\r\n"),
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{KEY} {VALUE}\r\n\r\n"),
        format!("PUT {path} {VALUE}\r\n\r\n"),
        format!("PUT {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {VALUE}\r\n\r\n"),
    ] {
        let mut client = http(server);
        client.send(head.as_bytes()).expect("it is taken");
        let answer = client.receive(false).expect("it is refused");
        assert!(answer.status >= 400, "{}", answer.text());
    }
    http(server).empty_prefix(KEY).expect("it is emptied");
}

/// Sends requests of Riak's clients, which also make siblings without end.
fn speak_riak(server: &Server) {
    let patience = Duration::from_secs(30);
    let mut client = Riak::with_patience(server.address, patience).expect("it listens");
    let (place, one) = ("available/b", "w=1&dw=1&r=1");
    for _ in 0..40 {
        client.store(place, KEY, VALUE.as_bytes(), (None, one)).expect("it answers");
    }
    let large = VALUE.repeat((4 << 20) / VALUE.len());
    for _ in 0..8 {
        // The last of them are together too large.
        client.store(place, KEY, large.as_bytes(), (None, one)).expect("it answers");
    }
    for _ in 0..120 {
        client.store(place, VALUE, KEY.as_bytes(), (None, one)).expect("it answers");
    }
    client.store(place, KEY, VALUE.as_bytes(), (Some(VALUE), one)).expect("it answers");
    client.fetch(place, KEY, &format!("r={VALUE}")).expect("it answers");
    client.fetch(place, KEY, one).expect("it answers");
    client.remove(place, KEY, (None, one)).expect("it answers");
    let key = encoded(KEY.as_bytes());
    let json = format!("{{\"update\":{{\"{KEY}_register\":\"{VALUE}\"}}}}");
    let meta = [("x-riak-meta-note", VALUE), ("link", KEY), ("x-riak-index-a_bin", VALUE)];
    let asked: [Asked<'_>; 9] = [
        ("PUT", format!("/buckets/b/keys/{key}?{one}"), &meta, VALUE.as_bytes()),
        ("GET", format!("/buckets/b/keys/{key}?vtag={VALUE}"), &[], b""),
        ("GET", "/buckets/b/keys?keys=true".into(), &[], b""),
        ("GET", "/buckets/b/keys?keys=stream".into(), &[], b""),
        ("POST", format!("/buckets/b/counters/{key}"), &[], VALUE.as_bytes()),
        ("POST", format!("/types/available/buckets/b/datatypes/{key}"), &[], json.as_bytes()),
        ("GET", format!("/types/available/buckets/b/datatypes/{key}"), &[], b""),
        ("GET", format!("/buckets/b/index/{KEY}_bin/{VALUE}"), &[], b""),
        ("POST", "/mapred".into(), &[], json.as_bytes()),
    ];
    for (method, path, headers, body) in asked {
        let mut client = Http::connect(server.address).expect("it listens");
        let answer = client.ask_with(method, &path, headers, body);
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
    }
}

/// Sends requests of Arakoon's clients.
fn speak_arakoon(server: &Server) {
    let connect = || Arakoon::connect(server.address, "ricky").expect("it listens");
    let (key, value) = (KEY.as_bytes(), VALUE.as_bytes());
    let mut client = connect();
    client.set(key, value).expect("it is set");
    assert_eq!(client.get(key).expect("it is there"), value);
    assert!(client.get(value).is_err() && client.delete(value).is_err());
    client.test_and_set(key, Some(key), Some(value)).expect("it answers");
    let steps: [&[SequenceStep]; 4] = [
        &[SequenceStep::Set(value, key), SequenceStep::Assert(key, Some(key))],
        &[SequenceStep::AssertRange(b"Cust", &[value, key])],
        &[SequenceStep::Delete(value)],
        &[SequenceStep::DeletePrefix(key)],
    ];
    for steps in steps {
        let _ = connect().sequence(steps);
    }
    let _ = connect().set(&key.repeat(4_000), value);
    let _ = connect().prefix(key, 10);
    // A cluster that does not exist, and no request.
    let _ = Arakoon::connect(server.address, "nobody").map(|mut client| client.get(key).is_err());
}

fn crash_log(scratch: &Scratch) -> String {
    let until = Instant::now() + Duration::from_secs(20);
    let mut before = None;
    loop {
        let files = std::fs::read_dir(scratch.join("data/crash")).into_iter().flatten().flatten();
        let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        let text = texts.filter(|text| text.contains("server answered")).last();
        // The log is complete when it does not grow any more.
        if text.is_some() && text == before {
            return text.unwrap_or_default();
        }
        before = text;
        assert!(Instant::now() < until, "no crash log is written");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn no_key_and_no_value_of_a_client_stands_in_the_log() {
    let words = ["--log-level", "trace", "--arakoon-clusters", "ricky"];
    let (scratch, mut server) = fresh_with("log-keys", &words);
    speak_resp(&server);
    speak_http(&server);
    speak_riak(&server);
    speak_arakoon(&server);
    signal(server.pid(), Signal::USR2);
    must_not_leak(&crash_log(&scratch));
    assert!(server.stop(Duration::from_secs(60)).is_some(), "it does not stop");
    let said = server.said();
    must_not_leak(&said);
    // The log must contain the events of these requests.
    let events = ["warn  node a key has many siblings", "key_hash=", "debug resp answered"];
    let more = ["debug http answered", "debug server answered", "protocol is not served here"];
    for event in events.into_iter().chain(more) {
        assert!(said.contains(event), "no `{event}` in the log");
    }
    // A restart logs what is read from the log and the store.
    let again = Server::must(&server.setup.clone());
    resp(&again).say(&format!("GET {KEY}")).expect("it answers");
    must_not_leak(&again.said());
}

#[test]
fn no_key_and_no_value_stands_in_the_logs_of_nodes_that_repair_each_other() {
    let scratch = Scratch::new("log-keys-three");
    // One node more than there are copies: it is the fallback for the one that is down.
    let mut options = Options::of(4);
    let words = ["--log-level", "debug", "--anti-entropy-interval-ms", "300ms"];
    options.words.extend(words.map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    cluster.share_ring();
    let patience = Duration::from_secs(30);
    let mut logs = String::new();
    let write = |cluster: &Cluster, node: usize, round: usize| {
        let mut riak = Riak::with_patience(cluster.client(node), patience).expect("it listens");
        let mut redis = Resp::with_patience(cluster.client(node), patience).expect("it listens");
        for number in 0..30 {
            let (key, value) = (format!("{KEY}{number}"), format!("{VALUE}{round}"));
            let _ = riak.store("available/b", &key, value.as_bytes(), (None, "")).expect("answers");
            let _ = redis.say(&format!("SET {key} {value}")).expect("it answers");
        }
    };
    write(&cluster, 1, 0);
    logs.push_str(&cluster.server(3).said());
    cluster.kill(3);
    // Fallbacks keep hints for it, and its copies lag.
    write(&cluster, 1, 1);
    write(&cluster, 2, 2);
    cluster.begin(3);
    cluster.must_reach_all();
    cluster.must_be_quiet();
    for node in cluster.nodes() {
        logs.push_str(&cluster.server(node).said());
    }
    must_not_leak(&logs);
    assert!(logs.contains("hints went home"), "nothing was repaired");
}
