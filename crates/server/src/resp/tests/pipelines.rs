//! Tests of pipelines on available buckets: concurrent requests have the same effects and answers
//! as sequential ones.

use super::frames::request;
use super::test_client::{Guest, TestServer, shown};
use crate::counters::OperationKind;
use crate::resp::output::{Output, Protocol};
use crate::resp::registry::Registry;
use crate::resp::translate::RespShape;
use crate::resp::window::{
    ParallelCall, WINDOW_BYTES_MAX, WINDOW_REQUEST_BYTES_MAX, WINDOW_REQUESTS_MAX, Window,
};
use base::{Body, GroupId, Key, LogIndex, Reply};
use node::Ticket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;

/// Returns a client in an available bucket of a node.
fn guest(server: &TestServer) -> Guest {
    let mut guest = Guest::new(server.address);
    assert_eq!(guest.ask(&["CREDENZA.BUCKET", "available/b"]), "+OK|");
    assert_eq!(guest.ask(&["SET", "warm", "x"]), "+OK|");
    guest
}

/// Sends all lines at once and returns all answers.
fn play(guest: &mut Guest, lines: &[&str]) -> Vec<String> {
    send(guest, lines);
    lines.iter().map(|_| shown(&guest.answer().expect("an answer"))).collect()
}

fn send(guest: &mut Guest, lines: &[&str]) {
    let frame = |line: &&str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        request(&words)
    };
    guest.send(&lines.iter().flat_map(frame).collect::<Vec<u8>>());
}

#[test]
fn answers_come_in_the_order_of_requests_and_of_each_key() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    let (mut lines, mut wanted) = (Vec::new(), Vec::new());
    for round in 0..40 {
        for key in 0..9 {
            // Some keys have one request in flight at a time, others have several.
            let key = format!("k{}", key * (round % 3));
            lines.push(format!("SET {key} {round}.{key}"));
            lines.push(format!("GET {key}"));
            lines.push(format!("EXISTS {key}"));
            let value = format!("{round}.{key}");
            wanted.push("+OK|".to_string());
            wanted.push(format!("${}|{value}|", value.len()));
            wanted.push(":1|".into());
            if (round + key.len()) % 2 == 0 {
                lines.push(format!("DEL {key}"));
                lines.push(format!("GET {key}"));
                lines.push(format!("DEL {key}"));
                wanted.extend([":1|", "$-1|", ":0|"].map(String::from));
            }
        }
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for _ in 0..3 {
        assert_eq!(play(&mut guest, &lines), wanted);
    }
    // The same bytes in pieces that end anywhere.
    let frames: Vec<u8> = lines.iter().flat_map(|line| words_of(line)).collect();
    for piece in frames.chunks(997) {
        guest.send(piece);
    }
    for wanted in wanted {
        assert_eq!(shown(&guest.answer().expect("an answer")), wanted);
    }
}

fn words_of(line: &str) -> Vec<u8> {
    request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

#[test]
fn an_error_in_the_middle_takes_its_place_and_no_other() {
    let server = TestServer::build();
    let mut guest = guest(&server);
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
    let unsupported = "-ERR in an available bucket nothing is changed under a condition, or \
                       together";
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
        for (answer, wanted) in play(&mut guest, &lines).iter().zip(wanted) {
            assert!(answer.starts_with(wanted), "{answer} and not {wanted}");
        }
    }
}

#[test]
fn what_changes_the_connection_stands_between_what_is_before_and_behind() {
    let server = TestServer::build();
    let mut guest = guest(&server);
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
    send(&mut guest, &lines);
    let hello = |line: &str| line.starts_with("HELLO");
    let skipped = |line: &&&str| !matches!(**line, "CLIENT REPLY SKIP" | "SET b 3");
    let answers: Vec<(&str, String)> = lines
        .iter()
        .filter(skipped)
        .map(|line| (*line, shown(&guest.answer().expect("an answer"))))
        .collect();
    let told: Vec<&str> =
        answers.iter().filter(|(line, _)| !hello(line)).map(|(_, told)| &told[..]).collect();
    let wanted = [
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
    assert_eq!(told, wanted);
}

#[test]
fn who_wants_no_answers_is_served_as_well() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    send(&mut guest, &["CLIENT REPLY OFF", "SET a 7", "SET b 8", "GET a", "CLIENT REPLY ON"]);
    assert_eq!(shown(&guest.answer().expect("an answer")), "+OK|");
    assert_eq!(play(&mut guest, &["GET a", "GET b"]), ["$1|7|", "$1|8|"]);
}

#[test]
fn keys_of_their_own_share_a_sync_and_one_key_has_one_for_each_write() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    let mut syncs = |key: fn(usize) -> String| {
        let before = server.sample("credenza_log_syncs_total");
        let lines: Vec<String> = (0..320).map(|n| format!("SET {} v", key(n))).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert!(play(&mut guest, &lines).iter().all(|answer| answer == "+OK|"));
        server.sample("credenza_log_syncs_total") - before
    };
    let (apart, same) = (syncs(|n| format!("k{n}")), syncs(|_| "k".into()));
    assert!(same >= 320.0, "each has to be firm before the next begins: {same} syncs");
    assert!(apart <= same * 0.75, "they are under way together: {apart} syncs beside {same}");
}

#[test]
fn who_stops_asking_is_answered_and_who_is_gone_leaves_nothing_behind() {
    let server = TestServer::build();
    let mut asking = guest(&server);
    let lines: Vec<String> = (0..200).map(|n| format!("SET k{n} v")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    send(&mut asking, &lines);
    asking.stop_asking();
    assert_eq!(shown(&asking.rest()), "+OK|".repeat(200));

    for _ in 0..20 {
        let mut gone = guest(&server);
        send(&mut gone, &lines);
        drop(gone);
    }
    let mut guest = guest(&server);
    let alone = || guest.ask(&["INFO", "clients"]).contains("connected_clients:1|");
    let mut alone = std::iter::repeat_with(alone).take(1_000);
    assert!(alone.any(|alone| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        alone
    }));
    // All memory was given back: otherwise these requests would be refused and run alone.
    assert_eq!(server.beside_free(), Registry::new(crate::clock::Clock::Wall).beside_free());
}

#[test]
fn a_large_request_goes_alone_in_its_place() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    for round in 0..5 {
        let mut wanted = Vec::new();
        for (at, bytes) in around(WINDOW_REQUEST_BYTES_MAX).into_iter().enumerate() {
            let (key, value) = (format!("l{at}"), vec![b'a' + round; bytes]);
            // Request sizes of exactly the limit, one byte less, and one byte more.
            let head = request(&[b"SET", key.as_bytes(), &value]).len() - bytes;
            let value = &value[head..];
            guest.send(&words_of(&format!("SET s{at} {round}")));
            guest.send(&request(&[b"SET", key.as_bytes(), value]));
            guest.send(&words_of(&format!("GET s{at}")));
            guest.send(&words_of(&format!("STRLEN l{at}")));
            let length = format!(":{}|", value.len());
            wanted.extend(["+OK|".into(), "+OK|".into(), format!("$1|{round}|"), length]);
        }
        for wanted in wanted {
            assert_eq!(shown(&guest.answer().expect("an answer")), wanted);
        }
    }
}

fn around(limit: usize) -> [usize; 4] {
    [limit - 1, limit, limit + 1, 4 * limit]
}

#[test]
fn doors_that_close_answer_what_is_under_way() {
    let mut server = TestServer::build();
    let mut guest = guest(&server);
    let lines: Vec<String> = (0..64).map(|n| format!("SET k{n} v")).collect();
    send(&mut guest, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(shown(&guest.answer().expect("an answer")), "+OK|");
    server.close_doors();
    let rest = shown(&guest.rest());
    assert_eq!(rest, "+OK|".repeat(63), "what was read is answered");
}

/// Returns a request of this key that is answered with its number once that many are released.
fn held(number: usize, running: &Arc<AtomicUsize>, go: &watch::Receiver<usize>) -> ParallelCall {
    let (running, mut go) = (running.clone(), go.clone());
    let answer = Box::pin(async move {
        running.fetch_add(1, Ordering::SeqCst);
        let _ = go.wait_for(|upto| *upto > number).await;
        running.fetch_sub(1, Ordering::SeqCst);
        Ok(Reply::new(LogIndex(number as u64), Body::Done))
    });
    let (shape, operation) = (RespShape::Ok, OperationKind::Put);
    ParallelCall { key: Key::from(format!("k{number}")), answer, shape, operation }
}

#[tokio::test]
async fn the_window_ends_at_its_requests_and_at_its_bytes() {
    let registry = Registry::new(crate::clock::Clock::Wall);
    let running = Arc::new(AtomicUsize::new(0));
    let (let_go, go) = watch::channel(0);
    let mut window = Window::default();
    let seat = || registry.seat_beside(100).expect("there is room");
    let mut begun = 0;
    while window.has_room(OperationKind::Put, 100) {
        window.begin(held(begun, &running, &go), 100, seat());
        begun += 1;
    }
    assert_eq!(begun, WINDOW_REQUESTS_MAX);
    assert!(window.has(&Key::from("k63")) && !window.has(&Key::from("k64")));
    assert!(window.done().await.is_none(), "none is done");
    // The last request is done first, and its answer waits for its turn.
    while running.load(Ordering::SeqCst) < begun {
        tokio::task::yield_now().await;
    }
    let_go.send(3).expect("they wait");
    for number in 0..3 {
        assert_eq!(window.first().await.reply.expect("it goes").index, LogIndex(number));
    }
    assert!(window.has_room(OperationKind::Put, 100) && !window.has(&Key::from("k2")));
    drop(window);
    tokio::task::yield_now().await;
    assert_eq!(Arc::strong_count(&running), 1, "what is under way ends with its connection");

    let mut window = Window::default();
    let bytes = WINDOW_REQUEST_BYTES_MAX;
    for number in 0..WINDOW_BYTES_MAX / bytes {
        assert!(window.has_room(OperationKind::Put, bytes));
        window.begin(
            held(number, &running, &go),
            bytes,
            registry.seat_beside(bytes).expect("room"),
        );
    }
    assert!(!window.has_room(OperationKind::Put, 1));
}

#[tokio::test]
async fn reads_are_reckoned_with_what_the_last_ones_brought() {
    let registry = Registry::new(crate::clock::Clock::Wall);
    let running = Arc::new(AtomicUsize::new(0));
    let (_let_go, go) = watch::channel(0);
    let width = |window: &mut Window| {
        let mut begun = 0;
        while window.has_room(OperationKind::Get, 0) {
            let call = ParallelCall { operation: OperationKind::Get, ..held(begun, &running, &go) };
            window.begin(call, 0, registry.seat_beside(0).expect("room"));
            begun += 1;
        }
        begun
    };
    let brought = |bytes: &[usize]| {
        let mut window = Window::default();
        bytes.iter().for_each(|bytes| window.brought(*bytes));
        width(&mut window)
    };
    assert_eq!(brought(&[]), 16, "nothing is known of them");
    assert_eq!(brought(&[100; 40]), WINDOW_REQUESTS_MAX);
    assert_eq!(brought(&[100, 100, WINDOW_BYTES_MAX / 4]), 4);
    assert_eq!(brought(&[4 * WINDOW_BYTES_MAX]), 1, "one may always");
}

#[test]
fn all_connections_together_have_so_much_under_way() {
    let registry = Registry::new(crate::clock::Clock::Wall);
    let small: Vec<_> = std::iter::from_fn(|| registry.seat_beside(10)).collect();
    assert_eq!(small.len(), 1_024);
    drop(small);
    let large = std::iter::from_fn(|| registry.seat_beside(WINDOW_REQUEST_BYTES_MAX));
    assert_eq!(large.collect::<Vec<_>>().len(), 256);
}

#[test]
fn what_was_said_apart_is_appended_with_what_it_waits_for() {
    let ticket = |index| Ticket { group: GroupId(1), index: LogIndex(index), epoch: 0 };
    let large = bytes::Bytes::from(vec![b'x'; 20_000]);
    let mut out = Output::new(Protocol::Two);
    out.value(&large);
    out.wait_for(Default::default(), ticket(1));
    let mut apart = Output::new(Protocol::Two);
    apart.simple("first");
    let from = apart.place();
    apart.value(&large);
    apart.ok();
    apart.wait_for(from, ticket(2));
    let whole = [out.to_bytes(), apart.to_bytes()].concat();
    out.append(apart);
    assert_eq!((out.len(), out.to_bytes()), (whole.len(), whole));
    out.judge(&[None, Some("UNKNOWN".into())]);
    let end = out.to_bytes();
    assert!(end.ends_with(b"+first\r\n-UNKNOWN\r\n") && end.len() == 20_000 + 10 + 18);
}
