//! Tests of pipelines on available buckets: concurrent requests have the same effects and answers
//! as sequential ones.

use super::frames::request;
use super::test_client::{TestClient, TestServer, show};
use crate::resp::output::{Output, Protocol};
use crate::resp::registry::Registry;
use crate::resp::window::WINDOW_REQUEST_BYTES_MAX;
use base::{GroupId, LogIndex};
use node::Ticket;

/// Returns a client in an available bucket of a node.
fn connect(server: &TestServer) -> TestClient {
    let mut client = TestClient::new(server.address);
    assert_eq!(client.call(&["CREDENZA.BUCKET", "available/b"]), "+OK|");
    assert_eq!(client.call(&["SET", "warm", "x"]), "+OK|");
    client
}

/// Sends all lines at once and returns all answers.
fn call_all(client: &mut TestClient, lines: &[&str]) -> Vec<String> {
    send(client, lines);
    lines.iter().map(|_| show(&client.answer().expect("an answer"))).collect()
}

fn send(client: &mut TestClient, lines: &[&str]) {
    let frame = |line: &&str| {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        request(&args)
    };
    client.send(&lines.iter().flat_map(frame).collect::<Vec<u8>>());
}

#[test]
fn pipelined_requests_run_in_order_per_key_and_reply_in_order() {
    let server = TestServer::build();
    let mut client = connect(&server);
    let (mut lines, mut expected) = (Vec::new(), Vec::new());
    for round in 0..40 {
        for key in 0..9 {
            // Some keys have one request in flight at a time, others have several.
            let key = format!("k{}", key * (round % 3));
            lines.push(format!("SET {key} {round}.{key}"));
            lines.push(format!("GET {key}"));
            lines.push(format!("EXISTS {key}"));
            let value = format!("{round}.{key}");
            expected.push("+OK|".to_string());
            expected.push(format!("${}|{value}|", value.len()));
            expected.push(":1|".into());
            if (round + key.len()) % 2 == 0 {
                lines.push(format!("DEL {key}"));
                lines.push(format!("GET {key}"));
                lines.push(format!("DEL {key}"));
                expected.extend([":1|", "$-1|", ":0|"].map(String::from));
            }
        }
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for _ in 0..3 {
        assert_eq!(call_all(&mut client, &lines), expected);
    }
    // The same bytes in pieces that end anywhere.
    let frames: Vec<u8> = lines.iter().flat_map(|line| frame_of(line)).collect();
    for piece in frames.chunks(997) {
        client.send(piece);
    }
    for expected in expected {
        assert_eq!(show(&client.answer().expect("an answer")), expected);
    }
}

fn frame_of(line: &str) -> Vec<u8> {
    request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

#[test]
fn error_in_a_pipeline_replaces_only_its_own_reply() {
    let server = TestServer::build();
    let mut client = connect(&server);
    let lines = [
        "SET a 1",
        "SET b 2",
        "SET b",
        "SET c 3",
        "INCR a",
        "SET d 4 NEVER",
        "GET a",
        "NONSENSE",
        "SET e 5",
        "MSET a 1 b 2",
        "GET b",
        "APPEND c x",
        "GET c",
        "MGET a b",
        "GET e",
    ];
    let unsupported = "-ERR available bucket: conditional and atomic updates are not supported";
    let wanted = [
        "+OK|",
        "+OK|",
        "-ERR wrong number of arguments for 'set' command|",
        "+OK|",
        unsupported,
        "-ERR syntax error|",
        "$1|1|",
        "-ERR unknown command 'NONSENSE'",
        "+OK|",
        "+OK|",
        "$1|2|",
        unsupported,
        "$1|3|",
        "*2|$1|1|$1|2|",
        "$1|5|",
    ];
    for _ in 0..20 {
        for (answer, wanted) in call_all(&mut client, &lines).iter().zip(wanted) {
            assert!(answer.starts_with(wanted), "{answer} and not {wanted}");
        }
    }
}

#[test]
fn connection_state_commands_take_effect_in_pipeline_order() {
    let server = TestServer::build();
    let mut client = connect(&server);
    let lines = [
        "SET a 1",
        "GET none",
        "HELLO 3",
        "GET none",
        "SET b 2",
        "PING",
        "MULTI",
        "SET c 3",
        "GET a",
        "DISCARD",
        "GET c",
        "CREDENZA.BUCKET default/default",
        "SET a other",
        "INCR n",
        "GET a",
        "CREDENZA.BUCKET available/b",
        "GET a",
        "SET a 2",
        "CREDENZA.INDEX",
        "GET a",
        "CLIENT REPLY SKIP",
        "SET b 3",
        "GET b",
        "HELLO 2",
        "GET none",
        "SELECT 0",
        "GET a",
    ];
    send(&mut client, &lines);
    let hello = |line: &str| line.starts_with("HELLO");
    let skipped = |line: &&&str| !matches!(**line, "CLIENT REPLY SKIP" | "SET b 3");
    let answers: Vec<(&str, String)> = lines
        .iter()
        .filter(skipped)
        .map(|line| (*line, show(&client.answer().expect("an answer"))))
        .collect();
    let replies: Vec<&str> =
        answers.iter().filter(|(line, _)| !hello(line)).map(|(_, replies)| &replies[..]).collect();
    let expected = [
        "+OK|",
        "$-1|",
        "_|",
        "+OK|",
        "+PONG|",
        "+OK|",
        "+QUEUED|",
        "+QUEUED|",
        "+OK|",
        "_|",
        "+OK|",
        "+OK|",
        ":1|",
        "$5|other|",
        "+OK|",
        "$1|1|",
        "+OK|",
        ":0|",
        "$1|2|",
        "$1|3|",
        "$-1|",
        "+OK|",
        "$5|other|",
    ];
    assert_eq!(replies, expected);
}

#[test]
fn client_reply_off_suppresses_replies_and_executes_requests() {
    let server = TestServer::build();
    let mut client = connect(&server);
    send(&mut client, &["CLIENT REPLY OFF", "SET a 7", "SET b 8", "GET a", "CLIENT REPLY ON"]);
    assert_eq!(show(&client.answer().expect("an answer")), "+OK|");
    assert_eq!(call_all(&mut client, &["GET a", "GET b"]), ["$1|7|", "$1|8|"]);
}

#[test]
fn pipelined_writes_share_syncs_only_across_distinct_keys() {
    let server = TestServer::build();
    let mut client = connect(&server);
    let mut syncs = |key: fn(usize) -> String| {
        let before = server.sample("credenza_log_syncs_total");
        let lines: Vec<String> = (0..320).map(|n| format!("SET {} v", key(n))).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert!(call_all(&mut client, &lines).iter().all(|answer| answer == "+OK|"));
        server.sample("credenza_log_syncs_total") - before
    };
    let (apart, same) = (syncs(|n| format!("k{n}")), syncs(|_| "k".into()));
    assert!(same >= 320.0, "each has to be firm before the next begins: {same} syncs");
    assert!(apart <= same * 0.75, "they are under way together: {apart} syncs beside {same}");
}

#[test]
fn half_closed_client_is_answered_and_lost_client_frees_memory() {
    let server = TestServer::build();
    let mut half_closed = connect(&server);
    let lines: Vec<String> = (0..200).map(|n| format!("SET k{n} v")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    send(&mut half_closed, &lines);
    half_closed.shutdown_write();
    assert_eq!(show(&half_closed.read_to_end()), "+OK|".repeat(200));

    for _ in 0..20 {
        let mut lost = connect(&server);
        send(&mut lost, &lines);
        drop(lost);
    }
    let mut client = connect(&server);
    let is_alone = || client.call(&["INFO", "clients"]).contains("connected_clients:1|");
    let mut is_alone = std::iter::repeat_with(is_alone).take(1_000);
    assert!(is_alone.any(|is_alone| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        is_alone
    }));
    // All memory was released: otherwise these requests would be refused and run alone.
    assert_eq!(server.window_free(), Registry::new(crate::clock::Clock::Wall).window_free());
}

#[test]
fn pipelined_request_around_window_byte_limit_stays_in_order() {
    let server = TestServer::build();
    let mut client = connect(&server);
    for round in 0..5 {
        let mut expected = Vec::new();
        for (at, bytes) in around(WINDOW_REQUEST_BYTES_MAX).into_iter().enumerate() {
            let (key, value) = (format!("l{at}"), vec![b'a' + round; bytes]);
            // Request sizes of exactly the limit, one byte less, and one byte more.
            let head = request(&[b"SET", key.as_bytes(), &value]).len() - bytes;
            let value = &value[head..];
            client.send(&frame_of(&format!("SET s{at} {round}")));
            client.send(&request(&[b"SET", key.as_bytes(), value]));
            client.send(&frame_of(&format!("GET s{at}")));
            client.send(&frame_of(&format!("STRLEN l{at}")));
            let length = format!(":{}|", value.len());
            expected.extend(["+OK|".into(), "+OK|".into(), format!("$1|{round}|"), length]);
        }
        for expected in expected {
            assert_eq!(show(&client.answer().expect("an answer")), expected);
        }
    }
}

fn around(limit: usize) -> [usize; 4] {
    [limit - 1, limit, limit + 1, 4 * limit]
}

#[test]
fn pipelined_requests_are_answered_when_front_ends_close() {
    let mut server = TestServer::build();
    let mut client = connect(&server);
    let lines: Vec<String> = (0..64).map(|n| format!("SET k{n} v")).collect();
    send(&mut client, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(show(&client.answer().expect("an answer")), "+OK|");
    server.close_front_ends();
    let rest = show(&client.read_to_end());
    assert_eq!(rest, "+OK|".repeat(63), "what was read is answered");
}

#[test]
fn appended_output_carries_its_tickets() {
    let ticket = |index| Ticket { group: GroupId(1), index: LogIndex(index), epoch: 0 };
    let large = bytes::Bytes::from(vec![b'x'; 20_000]);
    let mut out = Output::new(Protocol::Two);
    out.value(&large);
    out.attach_ticket(Default::default(), ticket(1));
    let mut other = Output::new(Protocol::Two);
    other.simple("first");
    let from = other.position();
    other.value(&large);
    other.ok();
    other.attach_ticket(from, ticket(2));
    let whole = [out.to_bytes(), other.to_bytes()].concat();
    out.append(other);
    assert_eq!((out.len(), out.to_bytes()), (whole.len(), whole));
    out.replace_failed(&[None, Some("UNKNOWN".into())]);
    let end = out.to_bytes();
    assert!(end.ends_with(b"+first\r\n-UNKNOWN\r\n") && end.len() == 20_000 + 10 + 18);
}
