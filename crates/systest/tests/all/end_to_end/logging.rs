//! Keys and values never reach the log: at every protocol and level, whatever clients send.

use super::{get, http, key_path, put, resp, start_server_with};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use systest::client::{Arakoon, Http, Resp, Riak, SequenceStep, encode_command, encode_key};
use systest::cluster::{Cluster, Options};
use systest::environment::Scratch;
use systest::server::{Server, signal};

/// Marker in every key and every value that is sent; other logged text does not contain it.
const KEY: &str = "Cust0mer-K3y";
const VALUE: &str = "Passp0rt-V4lue";

/// Method, path, headers and body of a request.
type RequestSpec<'a> = (&'a str, String, &'a [(&'a str, &'a str)], &'a [u8]);

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
fn printed_forms(marker: &str) -> [String; 4] {
    let each_byte = |write: fn(&u8) -> String, separator: &str| {
        let printed: Vec<_> = marker.as_bytes().iter().take(6).map(write).collect();
        printed.join(separator)
    };
    [
        marker[..6].to_string(),
        each_byte(|byte| byte.to_string(), ", "),
        each_byte(|byte| format!("{byte:02x}"), ""),
        each_byte(|byte| format!("{byte:02X}"), ""),
    ]
}

/// Returns the lines of a log that contain a key or a value.
fn leaking_lines(log: &str) -> Vec<&str> {
    let forms: Vec<_> = [KEY, VALUE].into_iter().flat_map(printed_forms).collect();
    log.lines().filter(|line| forms.iter().any(|form| line.contains(form))).collect()
}

fn must_not_leak(log: &str) {
    let lines = leaking_lines(log);
    let examples: Vec<_> =
        lines.iter().take(3).map(|line| line.get(..300).unwrap_or(line)).collect();
    assert!(lines.is_empty(), "{} lines hold a key or a value: {examples:#?}", lines.len());
}

#[test]
fn leak_detector_finds_keys_and_values_in_every_printed_form() {
    let (key, value) = (KEY.as_bytes(), VALUE.as_bytes());
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    for form in [format!("key={KEY:?}"), format!("{value:?}"), hex, format!("a%20{KEY}%00")] {
        let log = format!("info  node ready\nwarn  node a key key={form} has\ninfo  node ready\n");
        assert_eq!(leaking_lines(&log).len(), 1, "{log}");
    }
    assert_eq!(
        leaking_lines("warn  node a key has many siblings key_hash=436d6f\n"),
        Vec::<&str>::new()
    );
}

/// Sends requests of Redis' clients: commands that are accepted and refused, large ones, and bytes
/// of no protocol.
fn send_resp_requests(server: &Server) {
    let mut client = resp(server);
    for line in COMMANDS.lines().flat_map(|line| line.split("; ")) {
        let line = line.replace("{k}", KEY).replace("{v}", VALUE);
        client.call_line(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    let large = VALUE.repeat((1 << 20) / VALUE.len());
    client.call(&[b"SET", KEY.as_bytes(), large.as_bytes()]).expect("it is answered");
    let key = KEY.repeat(4_000);
    assert!(client.call(&[b"SET", key.as_bytes(), b"x"]).expect("it answers").error().is_some());
    let too_large = VALUE.repeat((9 << 20) / VALUE.len());
    let _ = client.call(&[b"SET", KEY.as_bytes(), too_large.as_bytes()]);
    let malformed = [
        format!("*2\r\n$3\r\nGET\r\n${KEY}\r\n"),
        format!("*{VALUE}\r\n"),
        format!("{KEY} {VALUE}\r\n"),
        format!("set {KEY} 0 0 14\r\n{VALUE}\r\n"),
        format!("\x16\x03\x01{KEY}{VALUE}"),
        format!("\x07{KEY}{VALUE}"),
    ];
    for bytes in malformed {
        let mut client = resp(server);
        client.send(bytes.as_bytes()).expect("it is taken");
        client.closed_within(Duration::from_millis(200));
    }
    // A client that disconnects in the middle of a command.
    let partial_command = encode_command(&[b"SET", KEY.as_bytes(), VALUE.as_bytes()]);
    resp(server).send(&partial_command[..partial_command.len() - 9]).expect("it is taken");
}

/// Sends requests of clients of the native interface.
fn send_http_requests(server: &Server) {
    let mut client = http(server);
    let key = [KEY.as_bytes(), b"\0\xff/\r\n"].concat();
    assert_eq!(put(&mut client, &key, VALUE.as_bytes()).status, 204);
    assert_eq!(get(&mut client, &key).body, VALUE.as_bytes());
    assert_eq!(get(&mut client, VALUE.as_bytes()).status, 404);
    let path = key_path(&key);
    let json = format!("{{\"{KEY}\":\"{VALUE}\"}}");
    let requests: [RequestSpec<'_>; 12] = [
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
    for (method, path, headers, body) in requests {
        // Some of these end the connection.
        let mut client = http(server);
        let answer = client.request_with_headers(method, &path, headers, body);
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
fn send_riak_requests(server: &Server) {
    let timeout = Duration::from_secs(30);
    let mut client = Riak::with_timeout(server.address, timeout).expect("it listens");
    let (bucket_path, quorum_of_one) = ("available/b", "w=1&dw=1&r=1");
    for _ in 0..40 {
        client
            .store(bucket_path, KEY, VALUE.as_bytes(), (None, quorum_of_one))
            .expect("it answers");
    }
    let large = VALUE.repeat((4 << 20) / VALUE.len());
    for _ in 0..8 {
        // The last of them are together too large.
        client
            .store(bucket_path, KEY, large.as_bytes(), (None, quorum_of_one))
            .expect("it answers");
    }
    for _ in 0..120 {
        client
            .store(bucket_path, VALUE, KEY.as_bytes(), (None, quorum_of_one))
            .expect("it answers");
    }
    client
        .store(bucket_path, KEY, VALUE.as_bytes(), (Some(VALUE), quorum_of_one))
        .expect("it answers");
    client.fetch(bucket_path, KEY, &format!("r={VALUE}")).expect("it answers");
    client.fetch(bucket_path, KEY, quorum_of_one).expect("it answers");
    client.remove(bucket_path, KEY, (None, quorum_of_one)).expect("it answers");
    let key = encode_key(KEY.as_bytes());
    let json = format!("{{\"update\":{{\"{KEY}_register\":\"{VALUE}\"}}}}");
    let meta = [("x-riak-meta-note", VALUE), ("link", KEY), ("x-riak-index-a_bin", VALUE)];
    let requests: [RequestSpec<'_>; 9] = [
        ("PUT", format!("/buckets/b/keys/{key}?{quorum_of_one}"), &meta, VALUE.as_bytes()),
        ("GET", format!("/buckets/b/keys/{key}?vtag={VALUE}"), &[], b""),
        ("GET", "/buckets/b/keys?keys=true".into(), &[], b""),
        ("GET", "/buckets/b/keys?keys=stream".into(), &[], b""),
        ("POST", format!("/buckets/b/counters/{key}"), &[], VALUE.as_bytes()),
        ("POST", format!("/types/available/buckets/b/datatypes/{key}"), &[], json.as_bytes()),
        ("GET", format!("/types/available/buckets/b/datatypes/{key}"), &[], b""),
        ("GET", format!("/buckets/b/index/{KEY}_bin/{VALUE}"), &[], b""),
        ("POST", "/mapred".into(), &[], json.as_bytes()),
    ];
    for (method, path, headers, body) in requests {
        let mut client = Http::connect(server.address).expect("it listens");
        let answer = client.request_with_headers(method, &path, headers, body);
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
    }
}

/// Sends requests of Arakoon's clients.
fn send_arakoon_requests(server: &Server) {
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

fn read_crash_log(scratch: &Scratch) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut previous = None;
    loop {
        let files = std::fs::read_dir(scratch.join("data/crash")).into_iter().flatten().flatten();
        let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        let text = texts.filter(|text| text.contains("server answered")).last();
        // The log is complete when it does not grow any more.
        if text.is_some() && text == previous {
            return text.unwrap_or_default();
        }
        previous = text;
        assert!(Instant::now() < deadline, "no crash log is written");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn logs_contain_no_key_or_value_of_any_client_protocol() {
    let args = ["--log-level", "trace", "--arakoon-clusters", "ricky"];
    let (scratch, mut server) = start_server_with("log-keys", &args);
    send_resp_requests(&server);
    send_http_requests(&server);
    send_riak_requests(&server);
    send_arakoon_requests(&server);
    signal(server.pid(), Signal::USR2);
    must_not_leak(&read_crash_log(&scratch));
    assert!(server.stop(Duration::from_secs(60)).is_some(), "it does not stop");
    let stderr = server.stderr_text();
    must_not_leak(&stderr);
    // The log must contain the events of these requests.
    let events = ["warn  node a key has many siblings", "key_hash=", "debug resp answered"];
    let more_events = ["debug http answered", "debug server answered", "protocol is not supported"];
    for event in events.into_iter().chain(more_events) {
        assert!(stderr.contains(event), "no `{event}` in the log");
    }
    // A restart logs what is read from the log and the store.
    let restarted = Server::must_start(&server.setup.clone());
    resp(&restarted).call_line(&format!("GET {KEY}")).expect("it answers");
    must_not_leak(&restarted.stderr_text());
}

#[test]
fn logs_of_nodes_under_handoff_and_repair_contain_no_key_or_value() {
    let scratch = Scratch::new("log-keys-three");
    // One node more than there are copies: it is the fallback for the node that is down.
    let mut options = Options::new(4);
    let args = ["--log-level", "debug", "--anti-entropy-interval-ms", "300ms"];
    options.args.extend(args.map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    cluster.init_ring();
    let timeout = Duration::from_secs(30);
    let mut logs = String::new();
    let write = |cluster: &Cluster, node: usize, round: usize| {
        let mut riak =
            Riak::with_timeout(cluster.client_address(node), timeout).expect("it listens");
        let mut redis =
            Resp::with_timeout(cluster.client_address(node), timeout).expect("it listens");
        for number in 0..30 {
            let (key, value) = (format!("{KEY}{number}"), format!("{VALUE}{round}"));
            let _ = riak.store("available/b", &key, value.as_bytes(), (None, "")).expect("answers");
            let _ = redis.call_line(&format!("SET {key} {value}")).expect("it answers");
        }
    };
    write(&cluster, 1, 0);
    logs.push_str(&cluster.server(3).stderr_text());
    cluster.kill(3);
    // Fallbacks keep hints for it, and its copies lag.
    write(&cluster, 1, 1);
    write(&cluster, 2, 2);
    cluster.start_node(3);
    cluster.must_suspect_none();
    cluster.must_finish_repair();
    for node in cluster.nodes() {
        logs.push_str(&cluster.server(node).stderr_text());
    }
    must_not_leak(&logs);
    assert!(logs.contains("hints went home"), "nothing was repaired");
}
