//! Tests of runs: pipelined requests on a consistent bucket have the answers and the effects of the
//! same requests one by one.

use super::frames::request;
use super::test_client::{TestClient, TestServer, show};
use crate::ServerSettings;
use crate::resp::frame::{ParseProgress, Parser};
use crate::resp::output::{Output, Protocol};
use crate::resp::run_frames::{plain_get, plain_set};
use base::{GroupId, LogIndex};
use bytes::Bytes;
use node::{RUN_BYTES_MAX, RUN_REQUESTS_MAX, Ticket};

fn frame(line: &str) -> Vec<u8> {
    request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

fn frames(lines: &[String]) -> Vec<u8> {
    lines.iter().flat_map(|line| frame(line)).collect()
}

fn send(client: &mut TestClient, lines: &[impl AsRef<str>]) {
    client.send(&lines.iter().flat_map(|line| frame(line.as_ref())).collect::<Vec<u8>>());
}

/// Sends all lines at once and returns all answers.
fn call_all(client: &mut TestClient, lines: &[impl AsRef<str>]) -> Vec<String> {
    send(client, lines);
    lines.iter().map(|_| show(&client.answer().expect("an answer"))).collect()
}

/// Checks that a match agrees with the parser on these bytes. Returns true if there was one.
fn matches_like_parser(input: &[u8]) -> bool {
    let found = match (plain_get(input), plain_set(input)) {
        (Some((key, bytes)), None) => (vec![b"GET".to_vec(), key.to_vec()], bytes),
        (None, Some(((key, value), bytes))) => {
            (vec![b"SET".to_vec(), key.to_vec(), value.to_vec()], bytes)
        }
        (None, None) => return false,
        (Some(_), Some(_)) => panic!("it is one or the other"),
    };
    let mut parser = Parser::default();
    assert_eq!(parser.parse(input), Ok(ParseProgress::Frame(found.1)));
    let args = parser.args(Bytes::copy_from_slice(&input[..found.1]));
    let mut args: Vec<_> = (0..args.len()).map(|at| args.get(at).to_vec()).collect();
    args[0].make_ascii_uppercase();
    assert_eq!(args, found.0);
    true
}

#[test]
fn plain_frames_match_exactly_like_the_parser() {
    let long = "x".repeat(12_345);
    let plain = [
        frame("GET k"),
        frame("get k"),
        frame("GeT k"),
        request(&[b"GET", b""]),
        request(&[b"GET", b"\r\n$1\r\n"]),
        frame(&format!("GET {long}")),
        frame("SET k v"),
        request(&[b"sEt", b"", b""]),
        frame(&format!("SET {long} {long}")),
    ];
    for plain in &plain {
        assert!(matches_like_parser(plain), "{}", show(plain));
        for end in 0..plain.len() {
            assert!(!matches_like_parser(&plain[..end]), "{end} bytes of {}", show(plain));
        }
        let both = [&plain[..], b"*1\r\n$4\r\nPING\r\n"].concat();
        assert!(matches_like_parser(&both));
        // Any other byte at any place: still a match only if the parser says the same.
        for at in 0..plain.len().min(60) {
            for byte in [b'0', b'1', b'2', b'9', b'-', b'\r', b'\n', b'$', b'*', b'G', 0, 255] {
                let mut changed = plain.clone();
                changed[at] = byte;
                matches_like_parser(&changed);
            }
        }
    }
    let other: [&[u8]; 9] = [
        b"*2\r\n$3\r\nGET\r\n$01\r\nk\r\n",
        b"*2\r\n$3\r\nGET\r\n$-1\r\nk\r\n",
        b"*2\r\n$3\r\nGET\r\n$100000\r\nk\r\n",
        b"*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n",
        b"*3\r\n$3\r\nGET\r\n$1\r\nk\r\n$1\r\nv\r\n",
        b"*2\r\n$3\r\nSET\r\n$1\r\nk\r\n",
        b"*02\r\n$3\r\nGET\r\n$1\r\nk\r\n",
        b"*2\r\n$6\r\nGETDEL\r\n$1\r\nk\r\n",
        b"GET k\r\n",
    ];
    assert!(!other.into_iter().any(matches_like_parser));
}

/// Commands of every kind.
const COMMANDS: [&str; 70] = [
    "MGET a b none",
    "INCR n",
    "SET a options EX 100",
    "GET none",
    "APPEND a tail",
    "SET b",
    "GET",
    "GET a b",
    "NONSENSE",
    "EXISTS a b a",
    "DEL a none",
    "SETNX c 1",
    "GETSET c 2",
    "INCR c",
    "GETRANGE b 0 1",
    "MULTI",
    "SET m 1",
    "GET m",
    "SET m",
    "EXEC",
    "MULTI",
    "SET m 2",
    "GET m",
    "INCR m",
    "EXEC",
    "GET m",
    "MULTI",
    "SET m 3",
    "DISCARD",
    "GET m",
    "WATCH m",
    "SET m 4",
    "MULTI",
    "GET m",
    "EXEC",
    "HELLO 3",
    "GET none",
    "CREDENZA.BUCKET available/b",
    "SET a available",
    "GET a",
    "GET none",
    "CREDENZA.BUCKET default/default",
    "GET a",
    "CREDENZA.CONSISTENCY dirty",
    "GET never",
    "CREDENZA.CONSISTENCY consistent",
    "CREDENZA.SEQUENCE 3 SET s 1 2 INCR s",
    "GET s",
    "HELLO 2",
    "GET none",
    "PING",
    "ECHO hi",
    "TYPE a",
    "EXPIRE b 100",
    "PERSIST b",
    "RENAME b d",
    "GET b",
    "GET d",
    "AUTH no password",
    "SELECT 0",
    "SELECT 7",
    "CLIENT GETNAME",
    "CLIENT SETNAME me",
    "RESET",
    "GET d",
    "DBSIZE",
    "FLUSHALL",
    "GET d",
    "SET d 5",
    "GET d",
];

/// Returns commands of every kind, between plain gets and sets.
fn mixture() -> Vec<String> {
    let (mut lines, mut is_dirty) = (Vec::new(), false);
    for (at, other) in COMMANDS.into_iter().enumerate() {
        // A dirty read need not see the writes before it in its pipeline.
        for n in 0..if is_dirty { 0 } else { at % 4 } {
            lines.push(format!("SET k{} {at}.{n}", at * 7 % 5 + n));
        }
        for n in 0..if is_dirty { 0 } else { at % 3 } {
            lines.push(format!("GET k{}", at * 7 % 5 + n));
        }
        is_dirty = other.ends_with("dirty") || (is_dirty && !other.ends_with("consistent"));
        lines.push(other.to_string());
    }
    lines
}

#[test]
fn pipelined_commands_of_every_kind_answer_as_one_by_one() {
    let lines = mixture();
    // The id of a connection is part of an answer to HELLO.
    let comparable = |answer: String| match answer.find("id|:") {
        Some(at) => answer[..at].to_string(),
        None => answer,
    };
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    let single: Vec<_> = lines
        .iter()
        .map(|line| {
            client.send(&frame(line));
            comparable(show(&client.answer().expect("an answer")))
        })
        .collect();
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    for (at, answer) in call_all(&mut client, &lines).into_iter().enumerate() {
        assert_eq!(comparable(answer), single[at], "{}", lines[at]);
    }
    // The same bytes in pieces that end anywhere.
    for piece_bytes in [1, 7, 64, 1_001] {
        let server = TestServer::build();
        let mut client = TestClient::new(server.address);
        for piece in frames(&lines).chunks(piece_bytes) {
            client.send(piece);
        }
        for (line, single) in lines.iter().zip(&single) {
            let answer = comparable(show(&client.answer().expect("an answer")));
            assert_eq!(answer, *single, "{line} in pieces of {piece_bytes} bytes");
        }
    }
}

#[test]
fn long_runs_around_their_bounds_answer_each_request() {
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    for count in [1, RUN_REQUESTS_MAX - 1, RUN_REQUESTS_MAX, RUN_REQUESTS_MAX + 1, 1_000] {
        let sets: Vec<_> = (0..count).map(|n| format!("SET k{n} {count}.{n}")).collect();
        assert!(call_all(&mut client, &sets).iter().all(|answer| answer == "+OK|"));
        let gets: Vec<_> = (0..count + 1).map(|n| format!("GET k{n}")).collect();
        let answers = call_all(&mut client, &gets);
        for (n, answer) in answers[..count].iter().enumerate() {
            let value = format!("{count}.{n}");
            assert_eq!(*answer, format!("${}|{value}|", value.len()));
        }
        assert_eq!(call_all(&mut client, &["FLUSHALL"]), ["+OK|"]);
    }
    // Requests around the bound in bytes, each followed by small ones.
    for bytes in [RUN_BYTES_MAX / 2, RUN_BYTES_MAX - 40, RUN_BYTES_MAX, RUN_BYTES_MAX + 40] {
        let value = vec![b'v'; bytes];
        let large = request(&[b"SET", b"large", &value]);
        let get = frame("GET small");
        client.send(&[frame("SET small 1"), large, get, frame("GET large")].concat());
        let mut answer = || client.answer().expect("an answer");
        assert_eq!((show(&answer()), show(&answer())), ("+OK|".into(), "+OK|".into()));
        assert_eq!(show(&answer()), "$1|1|");
        assert_eq!(answer(), [format!("${bytes}\r\n").as_bytes(), &value, b"\r\n"].concat());
    }
}

#[test]
fn request_over_its_buckets_limit_fails_alone_in_a_run() {
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    let create = "CREDENZA.CREATE short key_bytes_max 3 value_bytes_max 4";
    assert_eq!(call_all(&mut client, &[create, "CREDENZA.BUCKET short"]), ["+OK|", "+OK|"]);
    let lines = [
        "SET a 1",
        "SET b 12345",
        "SET c 3",
        "SET long 4",
        "SET d 5",
        "GET a",
        "GET long",
        "GET c",
        "GET b",
        "GET d",
    ];
    for _ in 0..3 {
        let answers = call_all(&mut client, &lines);
        let is_error = |at: usize| answers[at].starts_with("-ERR");
        assert!(is_error(1) && is_error(3) && is_error(6), "{answers:?}");
        assert!(answers[1].contains("value_bytes_max") && answers[6].contains("key_bytes_max"));
        assert_eq!([0, 2, 4].map(|at| &answers[at][..]), ["+OK|"; 3]);
        assert_eq!([5, 7, 8, 9].map(|at| &answers[at][..]), ["$1|1|", "$1|3|", "$-1|", "$1|5|"]);
    }
}

#[test]
fn run_follows_changes_of_its_bucket_by_others() {
    let server = TestServer::build();
    let (mut client, mut operator) =
        (TestClient::new(server.address), TestClient::new(server.address));
    assert_eq!(operator.call(&["CREDENZA.CREATE", "b"]), "+OK|");
    let sets: Vec<_> = (0..20).map(|n| format!("SET k{n} value-{n}")).collect();
    let gets: Vec<_> = (0..20).map(|n| format!("GET k{n}")).collect();
    assert_eq!(call_all(&mut client, &["CREDENZA.BUCKET b", "GET k0"]), ["+OK|", "$-1|"]);
    for _ in 0..3 {
        assert!(call_all(&mut client, &sets).iter().all(|answer| answer == "+OK|"));
        assert_eq!(operator.call(&["CREDENZA.ALTER", "b", "value_bytes_max", "5"]), "+OK|");
        let refused = call_all(&mut client, &sets);
        assert!(refused.iter().all(|answer| answer.contains("value_bytes_max")), "{refused:?}");
        assert_eq!(operator.call(&["CREDENZA.ALTER", "b", "value_bytes_max", "100"]), "+OK|");
        assert!(call_all(&mut client, &sets).iter().all(|answer| answer == "+OK|"));
    }
    assert_eq!(operator.call(&["CREDENZA.DROP", "b"]), "+OK|");
    for answer in call_all(&mut client, &gets).iter().chain(&call_all(&mut client, &sets)) {
        assert!(answer.starts_with("-NOBUCKET"), "{answer}");
    }
    assert_eq!(operator.call(&["CREDENZA.CREATE", "b"]), "+OK|");
    assert!(call_all(&mut client, &gets).iter().all(|answer| answer == "$-1|"));
}

#[test]
fn run_of_large_values_respects_the_memory_for_answers() {
    let settings = ServerSettings { buffer_bytes_max: 4 << 20, ..ServerSettings::default() };
    let server = TestServer::with_settings(settings);
    let mut client = TestClient::new(server.address);
    let value = "v".repeat(700_000);
    for key in ["a", "b"] {
        assert_eq!(client.call(&["SET", key, &value]), "+OK|");
    }
    for _ in 0..3 {
        let lines: Vec<_> = (0..30).map(|n| format!("GET {}", ["a", "b"][n % 2])).collect();
        let answers = call_all(&mut client, &lines);
        let is_value = |answer: &&String| answer.len() > value.len();
        let values = answers.iter().filter(is_value).count();
        let refused = answers.iter().filter(|answer| answer.starts_with("-OVERLOADED")).count();
        assert_eq!(values + refused, 30);
        // A batch ends with the answer that fills it, so there is memory for each.
        assert_eq!(refused, 0);
    }
    // Without any memory beyond a usual buffer, an answer that does not fit is refused alone.
    let settings = ServerSettings { buffer_bytes_max: 0, ..ServerSettings::default() };
    let server = TestServer::with_settings(settings);
    let mut client = TestClient::new(server.address);
    let value = "v".repeat(40_000);
    assert_eq!(client.call(&["SET", "a", &value]), "+OK|");
    let lines: Vec<_> = (0..60).map(|_| "GET a".to_string()).chain(["GET none".into()]).collect();
    let answers = call_all(&mut client, &lines);
    let refused = answers.iter().filter(|answer| answer.starts_with("-OVERLOADED")).count();
    let values = answers.iter().filter(|answer| answer.len() > value.len()).count();
    assert_eq!((refused + values, &answers[60][..]), (60, "$-1|"));
    assert!(values >= 1 && refused >= 1, "{refused} of 60 are refused");
}

#[test]
fn run_counts_commands_hits_misses_and_requests() {
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    assert_eq!(client.call(&["GET", "none"]), "$-1|");
    let number = |client: &mut TestClient, name: &str| -> u64 {
        let text = client.call(&["INFO", "stats"]);
        let at = text.find(name).expect("it is shown") + name.len() + 1;
        let digits = text[at..].chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().expect("a number")
    };
    let names = ["total_commands_processed", "keyspace_hits", "keyspace_misses"];
    let before = names.map(|name| number(&mut client, name));
    let sets: Vec<_> = (0..30).map(|n| format!("SET k{n} v")).collect();
    call_all(&mut client, &sets);
    let gets: Vec<_> = (0..50).map(|n| format!("GET k{n}")).collect();
    call_all(&mut client, &gets);
    let after = names.map(|name| number(&mut client, name));
    // The three requests for the numbers count, too.
    let commands = after[0] - before[0];
    assert_eq!([commands, after[1] - before[1], after[2] - before[2]], [83, 30, 20]);
    assert_eq!(client.call(&["CREDENZA.INDEX"]).as_bytes()[0], b':');
}

#[test]
fn answers_of_a_run_fail_one_by_one() {
    let ticket = |index| Ticket { group: GroupId(1), index: LogIndex(index), epoch: 0 };
    let mut out = Output::new(Protocol::Two);
    out.simple("before");
    for index in [1, 1, 1, 2, 2] {
        let from = out.position();
        out.ok();
        out.attach_run_ticket(from, ticket(index));
    }
    out.simple("between");
    let from = out.position();
    out.ok();
    out.attach_run_ticket(from, ticket(2));
    let answers: Vec<_> = out.pending().iter().map(|pending| pending.answers).collect();
    assert_eq!(answers, [3, 2, 1]);
    out.replace_failed(&[None, Some("UNKNOWN".into()), None]);
    let expected = b"+before\r\n+OK\r\n+OK\r\n+OK\r\n-UNKNOWN\r\n-UNKNOWN\r\n+between\r\n+OK\r\n";
    assert_eq!(out.to_bytes(), expected);
}
