//! F-38: tests of every size and count at its limit and just beyond; refused requests never reach
//! the log. `crates/systest` compares keys and values at their limits with HTTP's.

use super::frames::request;
use super::test_client::{Guest, TestServer, shown};
use crate::ServerSettings;
use base::limits::{
    EVALUATION_ROWS_MAX, FRAME_BYTES_MAX, KEY_BYTES_MAX, KEYS_PER_READ_MAX, PIPELINE_DEPTH_MAX,
    SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX, TTL_MS_MAX, UPDATE_BYTES_MAX, VALUE_BYTES_MAX,
};

/// Sends a request of any size and returns its answer.
fn ask(guest: &mut Guest, words: &[&[u8]]) -> String {
    guest.send(&request(words));
    shown(&guest.answer().expect("an answer"))
}

/// Encodes a command whose tail is repeated `count` times.
fn repeated(head: &[&'static [u8]], tail: &[&'static [u8]], count: usize) -> Vec<u8> {
    let tails = std::iter::repeat_n(tail, count).flatten().copied();
    request(&head.iter().copied().chain(tails).collect::<Vec<&[u8]>>())
}

/// Returns a client of a node whose data group has a longer log than its directory: [`decided`]
/// sees only the longest log.
fn warm(server: &TestServer) -> Guest {
    let mut guest = Guest::new(server.address);
    for _ in 0..16 {
        assert_eq!(guest.ask(&["SET", "warm", "x"]), "+OK|");
    }
    assert_eq!(guest.ask(&["DEL", "warm"]), ":1|");
    let before = decided(&mut guest);
    assert_eq!(guest.ask(&["DEL", "warm"]), ":0|");
    assert_eq!(guest.ask(&["INCR", "warm"]), ":1|");
    assert_ne!(decided(&mut guest), before, "a write would not be seen");
    assert_eq!(guest.ask(&["DEL", "warm"]), ":1|");
    guest
}

/// Returns counts around a limit, each with true if it must be accepted.
fn around(limit: usize) -> [(usize, bool); 3] {
    [(limit - 1, true), (limit, true), (limit + 1, false)]
}

/// Returns the beginning of an answer, for error messages.
fn begin(answer: &str) -> String {
    answer.chars().take(100).collect()
}

/// Returns the last log index that a client can see.
fn decided(guest: &mut Guest) -> String {
    guest.ask(&["ROLE"])
}

#[test]
fn keys_and_values_end_at_their_limits_in_every_command() {
    let server = TestServer::build();
    let mut guest = warm(&server);
    for (length, taken) in
        [(KEY_BYTES_MAX - 1, true), (KEY_BYTES_MAX, true), (KEY_BYTES_MAX + 1, false)]
    {
        let key = vec![b'k'; length];
        let before = decided(&mut guest);
        let words: [&[&[u8]]; 8] = [
            &[b"SET", &key, b"v"],
            &[b"GET", &key],
            &[b"MSET", b"a", b"1", &key, b"2"],
            &[b"APPEND", &key, b"x"],
            &[b"EXPIRE", &key, b"100"],
            &[b"CREDENZA.TAS", &key, b"ABSENT", b"ABSENT"],
            &[b"CREDENZA.PREFIX", &key],
            &[b"DEL", &key],
        ];
        for words in words {
            let answer = ask(&mut guest, words);
            let name = String::from_utf8_lossy(words[0]);
            assert_eq!(!answer.starts_with('-'), taken, "{length} bytes: {name}: {answer}");
            assert!(taken || answer.contains("at most 32768 bytes"), "{name}: {answer}");
        }
        assert_eq!(decided(&mut guest) == before, !taken, "what is refused is not logged");
    }
    for (length, taken) in
        [(VALUE_BYTES_MAX - 1, true), (VALUE_BYTES_MAX, true), (VALUE_BYTES_MAX + 1, false)]
    {
        let value = vec![b'v'; length];
        for command in [&b"SET"[..], b"GETSET", b"APPEND"] {
            ask(&mut guest, &[b"DEL", b"k"]);
            let before = decided(&mut guest);
            let answer = ask(&mut guest, &[command, b"k", &value]);
            assert_eq!(!answer.starts_with('-'), taken, "{length} bytes: {}", begin(&answer));
            assert_eq!(decided(&mut guest) == before, !taken, "what is refused is not logged");
        }
    }
}

#[test]
fn sequences_end_at_their_steps_however_they_are_written() {
    let server = TestServer::build();
    let mut guest = warm(&server);
    let own: (&[&[u8]], &[&[u8]]) = (&[b"CREDENZA.SEQUENCE"], &[b"2", b"GET", b"a"]);
    let pairs: (&[&[u8]], &[&[u8]]) = (&[b"MSET"], &[b"a", b"1"]);
    let keys: (&[&[u8]], &[&[u8]]) = (&[b"DEL"], &[b"a"]);
    for (head, tail) in [own, pairs] {
        for (count, taken) in around(SEQUENCE_STEPS_MAX) {
            refused_by_name(&mut guest, &repeated(head, tail, count), taken);
        }
    }
    // Each key is looked up while other clients wait.
    for (count, taken) in around(EVALUATION_ROWS_MAX) {
        refused_with(&mut guest, &repeated(keys.0, keys.1, count), taken, "25000 rows");
        // An existing key would end the command at the first look-up.
        let absent: &[&[u8]] = if taken { &[b"b", b"1"] } else { &[b"c", b"1"] };
        refused_with(&mut guest, &repeated(&[b"MSETNX"], absent, count), taken, "25000 rows");
    }
    let keys: (&[&[u8]], &[&[u8]]) = (&[b"EXISTS"], &[b"a"]);
    for (count, taken) in around(KEYS_PER_READ_MAX) {
        refused_by_name(&mut guest, &repeated(keys.0, keys.1, count), taken);
    }
    // A hundred thousand keys in one sequence are within the limit; three times as many exceed it.
    refused_by_name(&mut guest, &repeated(pairs.0, pairs.1, 100_000), true);
    refused_by_name(&mut guest, &repeated(pairs.0, pairs.1, 300_000), false);
}

fn refused_by_name(guest: &mut Guest, frame: &[u8], taken: bool) {
    refused_with(guest, frame, taken, "131072");
}

fn refused_with(guest: &mut Guest, frame: &[u8], taken: bool, words: &str) {
    let name = shown(&frame[..frame.len().min(60)]);
    let before = decided(guest);
    guest.send(frame);
    let answer = shown(&guest.answer().expect("an answer"));
    assert_eq!(!answer.starts_with('-'), taken, "{name}: {}", begin(&answer));
    assert!(taken || answer.contains(words), "{name}: {}", begin(&answer));
    assert!(taken || decided(guest) == before, "{name} is refused and yet logged");
}

#[test]
fn an_update_ends_at_its_bytes() {
    let server = TestServer::build();
    let mut guest = warm(&server);
    for (bytes, taken) in around(UPDATE_BYTES_MAX) {
        // Keys of one byte and their values count; a value has at most 8 MiB.
        let value = vec![b'v'; bytes / 5];
        let last = vec![b'v'; bytes / 5 + bytes % 5 - 5];
        let words: [&[u8]; 11] =
            [b"MSET", b"a", &value, b"b", &value, b"c", &value, b"d", &value, b"e", &last];
        let before = decided(&mut guest);
        let answer = ask(&mut guest, &words);
        assert_eq!(answer == "+OK|", taken, "{bytes} bytes: {answer}");
        assert!(taken || answer.contains("33554432"), "{answer}");
        assert_eq!(decided(&mut guest) == before, !taken, "what is refused is not logged");
    }
}

#[test]
fn a_connection_watches_as_many_keys_as_the_limit_says() {
    let server = TestServer::build();
    for (count, taken) in around(1_024) {
        let mut guest = Guest::new(server.address);
        let keys: Vec<String> = (0..count).map(|n| format!("k{n}")).collect();
        let words = keys[1..].iter().map(String::as_bytes);
        let most: Vec<&[u8]> = std::iter::once(&b"WATCH"[..]).chain(words).collect();
        assert_eq!(ask(&mut guest, &most), "+OK|");
        let answer = guest.ask(&["WATCH", "k0"]);
        assert_eq!(answer == "+OK|", taken, "{count}: {answer}");
        assert!(taken || answer.contains("at most 1024 keys"), "{answer}");
    }
}

#[test]
fn reads_of_many_keys_are_whole_around_the_size_of_one_request() {
    let server = TestServer::build();
    let mut guest = warm(&server);
    assert_eq!(guest.ask(&["SET", "a", "1"]), "+OK|");
    for (count, _) in around(1_024) {
        guest.send(&repeated(&[b"MGET"], &[b"a"], count));
        let answer = shown(&guest.answer().expect("an answer"));
        assert_eq!(answer, format!("*{count}|{}", "$1|1|".repeat(count)));
    }
}

#[test]
fn times_to_live_end_at_their_limit() {
    let server = TestServer::build();
    let mut guest = warm(&server);
    for (ms, taken) in around(TTL_MS_MAX as usize) {
        let before = decided(&mut guest);
        let answer = guest.ask(&["SET", "k", "v", "PX", &ms.to_string()]);
        assert_eq!(answer == "+OK|", taken, "{ms}: {answer}");
        assert_eq!(decided(&mut guest) == before, !taken, "what is refused is not logged");
    }
}

#[test]
fn transactions_end_at_their_commands() {
    let server = TestServer::build();
    for (count, taken) in around(SEQUENCE_STEPS_MAX) {
        let mut guest = Guest::new(server.address);
        assert_eq!(guest.ask(&["MULTI"]), "+OK|");
        let batch = 16_384;
        for done in (0..count).step_by(batch) {
            let now = batch.min(count - done);
            guest.send(&request(&[b"TTL", b"a"]).repeat(now));
            for at in done..done + now {
                let answer = shown(&guest.answer().expect("an answer"));
                let fits = at < SEQUENCE_STEPS_MAX;
                assert_eq!(answer == "+QUEUED|", fits, "command {at}: {answer}");
            }
        }
        let answer = guest.ask(&["EXEC"]);
        assert_eq!(answer.starts_with(&format!("*{count}|:-2|")), taken, "{}", begin(&answer));
        assert_eq!(answer.starts_with("-EXECABORT"), !taken);
    }
}

#[test]
fn sequences_nest_to_their_depth() {
    let server = TestServer::build();
    let mut guest = warm(&server);
    for (depth, taken) in around(SEQUENCE_DEPTH_MAX) {
        let mut words: Vec<String> = vec!["CREDENZA.SEQUENCE".into(), "2".into()];
        words.extend(["INCR".into(), "deep".into()]);
        for _ in 1..depth {
            let mut outer = vec!["CREDENZA.SEQUENCE".to_string(), words.len().to_string()];
            outer.append(&mut words);
            words = outer;
        }
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let answer = ask(&mut guest, &words);
        assert_eq!(!answer.starts_with('-'), taken, "depth {depth}: {answer}");
        assert!(taken || answer.contains("at most 64 deep"), "{answer}");
    }
}

#[test]
fn frames_end_at_their_size() {
    let server = TestServer::build();
    let head = "*2\r\n$4\r\nECHO\r\n$50331000\r\n".len();
    let most = FRAME_BYTES_MAX - head - 2;
    for (length, taken) in around(most) {
        let mut guest = Guest::new(server.address);
        let frame = request(&[b"ECHO", &vec![b'x'; length]]);
        if taken {
            assert_eq!(frame.len(), FRAME_BYTES_MAX + length - most);
            guest.send(&frame);
            assert!(guest.answer().is_some_and(|answer| answer.len() > length));
        } else {
            guest.send(&frame[..head]);
            let answer = shown(&guest.rest());
            assert!(answer.contains("at most 50331648 bytes"), "{answer}");
        }
    }
}

#[test]
fn pipelines_of_any_depth_are_answered_in_order() {
    let server = TestServer::build();
    let mut guest = warm(&server);
    let mut wanted = 0;
    for depth in [PIPELINE_DEPTH_MAX - 1, PIPELINE_DEPTH_MAX, PIPELINE_DEPTH_MAX + 1] {
        guest.send(&request(&[b"INCR", b"n"]).repeat(depth));
        for _ in 0..depth {
            wanted += 1;
            assert_eq!(shown(&guest.answer().expect("an answer")), format!(":{wanted}|"));
        }
    }
}

#[test]
fn one_connection_too_many_is_told_so_and_the_next_one_served() {
    let server = TestServer::of(ServerSettings { connections_max: 3, ..ServerSettings::default() });
    let mut guests: Vec<Guest> = (0..3).map(|_| Guest::new(server.address)).collect();
    for guest in &mut guests {
        assert_eq!(guest.ask(&["PING"]), "+PONG|");
    }
    let mut late = Guest::new(server.address);
    late.send(b"*1\r\n$4\r\nPING\r\n");
    assert_eq!(shown(&late.rest()), "-ERR max number of clients reached (3)|");
    guests.pop();
    // The place is free once the server has noticed the end.
    let served = (0..1_000).any(|_| {
        let mut guest = Guest::new(server.address);
        guest.send(b"*1\r\n$4\r\nPING\r\n");
        std::thread::sleep(std::time::Duration::from_millis(5));
        guest.answer().is_some_and(|answer| answer == b"+PONG\r\n")
    });
    assert!(served);
    assert_eq!(guests[0].ask(&["PING"]), "+PONG|");
}

#[test]
fn every_byte_is_a_key_and_a_value_in_its_order() {
    let server = TestServer::build();
    let mut guest = warm(&server);
    assert_eq!(ask(&mut guest, &[b"SET", b"", b"the empty key"]), "+OK|");
    for byte in 0..=255u8 {
        assert_eq!(ask(&mut guest, &[b"SET", &[byte], &[byte, byte]]), "+OK|");
    }
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(ask(&mut guest, &[b"SET", &all, &all]), "+OK|");
    for byte in 0..=255u8 {
        guest.send(&request(&[b"GET", &[byte]]));
        assert_eq!(guest.answer(), Some([b"$2\r\n", &[byte, byte][..], b"\r\n"].concat()));
    }
    guest.send(&request(&[b"GET", &all]));
    assert_eq!(guest.answer(), Some([b"$256\r\n", &all[..], b"\r\n"].concat()));
    assert_eq!(guest.ask(&["GET", ""]), "$13|the empty key|");
    let mut keys: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    keys.extend([vec![], all]);
    keys.sort();
    let mut wanted = format!("*2\r\n$-1\r\n*{}\r\n", keys.len()).into_bytes();
    for key in keys {
        wanted.extend_from_slice(format!("${}\r\n", key.len()).as_bytes());
        wanted.extend_from_slice(&[&key[..], b"\r\n"].concat());
    }
    guest.send(&request(&[b"CREDENZA.RANGE", b"-", b"+", b"KEYS"]));
    assert_eq!(guest.answer(), Some(wanted));
}

#[test]
fn what_transactions_queue_counts_against_the_memory_of_all_connections() {
    let server =
        TestServer::of(ServerSettings { buffer_bytes_max: 4 << 20, ..ServerSettings::default() });
    let value = "x".repeat(60_000);
    let queue = |guest: &mut Guest, most: usize| {
        assert_eq!(guest.ask(&["MULTI"]), "+OK|");
        let answers = (0..most).map(|_| guest.ask(&["SET", "k", &value]));
        answers.take_while(|answer| answer == "+QUEUED|").count()
    };
    let mut first = Guest::new(server.address);
    assert_eq!(queue(&mut first, 40), 40);
    let mut second = Guest::new(server.address);
    let taken = queue(&mut second, 70);
    assert!((10..40).contains(&taken), "{taken}");
    assert!(second.ask(&["EXEC"]).starts_with("-EXECABORT"));
    // A client that queues little needs no share, and a released share is free for others.
    let mut third = Guest::new(server.address);
    assert_eq!(queue(&mut third, taken), taken);
    assert_eq!(third.ask(&["DISCARD"]), "+OK|");
    assert!(first.ask(&["EXEC"]).starts_with("*40|+OK|"));
    assert_eq!(queue(&mut second, 60), 60, "a transaction that is over gives all back");
}
