//! F-38: tests of every size and count at its limit and just beyond; refused requests never reach
//! the log. `crates/systest` compares keys and values at their limits with HTTP's.

use super::frames::request;
use super::test_client::{TestClient, TestServer, show};
use crate::ServerSettings;
use base::limits::{
    EVALUATION_ROWS_MAX, FRAME_BYTES_MAX, KEY_BYTES_MAX, KEYS_PER_READ_MAX, PIPELINE_DEPTH_MAX,
    SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX, TTL_MS_MAX, UPDATE_BYTES_MAX, VALUE_BYTES_MAX,
};

/// Sends a request of any size and returns its answer.
fn call(client: &mut TestClient, args: &[&[u8]]) -> String {
    client.send(&request(args));
    show(&client.answer().expect("an answer"))
}

/// Encodes a command whose tail is repeated `count` times.
fn repeat_tail(head: &[&'static [u8]], tail: &[&'static [u8]], count: usize) -> Vec<u8> {
    let tails = std::iter::repeat_n(tail, count).flatten().copied();
    request(&head.iter().copied().chain(tails).collect::<Vec<&[u8]>>())
}

/// Returns a client of a node whose data group has a longer log than its directory: [`last_index`]
/// sees only the longest log.
fn connect_warm(server: &TestServer) -> TestClient {
    let mut client = TestClient::new(server.address);
    for _ in 0..16 {
        assert_eq!(client.call(&["SET", "warm", "x"]), "+OK|");
    }
    assert_eq!(client.call(&["DEL", "warm"]), ":1|");
    let before = last_index(&mut client);
    assert_eq!(client.call(&["DEL", "warm"]), ":0|");
    assert_eq!(client.call(&["INCR", "warm"]), ":1|");
    assert_ne!(last_index(&mut client), before, "a write would not be seen");
    assert_eq!(client.call(&["DEL", "warm"]), ":1|");
    client
}

/// Returns counts around a limit, each with true if it must be accepted.
fn around(limit: usize) -> [(usize, bool); 3] {
    [(limit - 1, true), (limit, true), (limit + 1, false)]
}

/// Returns the beginning of an answer, for error messages.
fn excerpt(answer: &str) -> String {
    answer.chars().take(100).collect()
}

/// Returns the last log index that a client can see.
fn last_index(client: &mut TestClient) -> String {
    client.call(&["ROLE"])
}

#[test]
fn key_or_value_beyond_its_limit_is_refused_and_not_logged() {
    let server = TestServer::build();
    let mut client = connect_warm(&server);
    for (length, accepted) in
        [(KEY_BYTES_MAX - 1, true), (KEY_BYTES_MAX, true), (KEY_BYTES_MAX + 1, false)]
    {
        let key = vec![b'k'; length];
        let before = last_index(&mut client);
        let args: [&[&[u8]]; 8] = [
            &[b"SET", &key, b"v"],
            &[b"GET", &key],
            &[b"MSET", b"a", b"1", &key, b"2"],
            &[b"APPEND", &key, b"x"],
            &[b"EXPIRE", &key, b"100"],
            &[b"CREDENZA.TAS", &key, b"ABSENT", b"ABSENT"],
            &[b"CREDENZA.PREFIX", &key],
            &[b"DEL", &key],
        ];
        for args in args {
            let answer = call(&mut client, args);
            let name = String::from_utf8_lossy(args[0]);
            assert_eq!(!answer.starts_with('-'), accepted, "{length} bytes: {name}: {answer}");
            assert!(accepted || answer.contains("at most 32768 bytes"), "{name}: {answer}");
        }
        assert_eq!(last_index(&mut client) == before, !accepted, "what is refused is not logged");
    }
    for (length, accepted) in
        [(VALUE_BYTES_MAX - 1, true), (VALUE_BYTES_MAX, true), (VALUE_BYTES_MAX + 1, false)]
    {
        let value = vec![b'v'; length];
        for command in [&b"SET"[..], b"GETSET", b"APPEND"] {
            call(&mut client, &[b"DEL", b"k"]);
            let before = last_index(&mut client);
            let answer = call(&mut client, &[command, b"k", &value]);
            assert_eq!(!answer.starts_with('-'), accepted, "{length} bytes: {}", excerpt(&answer));
            assert_eq!(
                last_index(&mut client) == before,
                !accepted,
                "what is refused is not logged"
            );
        }
    }
}

#[test]
fn multi_key_command_beyond_step_row_or_key_limit_is_refused() {
    let server = TestServer::build();
    let mut client = connect_warm(&server);
    let sequence: (&[&[u8]], &[&[u8]]) = (&[b"CREDENZA.SEQUENCE"], &[b"2", b"GET", b"a"]);
    let pairs: (&[&[u8]], &[&[u8]]) = (&[b"MSET"], &[b"a", b"1"]);
    let keys: (&[&[u8]], &[&[u8]]) = (&[b"DEL"], &[b"a"]);
    for (head, tail) in [sequence, pairs] {
        for (count, accepted) in around(SEQUENCE_STEPS_MAX) {
            check_default_limit(&mut client, &repeat_tail(head, tail, count), accepted);
        }
    }
    // Each key is looked up while other clients wait.
    for (count, accepted) in around(EVALUATION_ROWS_MAX) {
        check_limit(&mut client, &repeat_tail(keys.0, keys.1, count), accepted, "25000 rows");
        // An existing key would end the command at the first look-up.
        let absent: &[&[u8]] = if accepted { &[b"b", b"1"] } else { &[b"c", b"1"] };
        check_limit(&mut client, &repeat_tail(&[b"MSETNX"], absent, count), accepted, "25000 rows");
    }
    let keys: (&[&[u8]], &[&[u8]]) = (&[b"EXISTS"], &[b"a"]);
    for (count, accepted) in around(KEYS_PER_READ_MAX) {
        check_default_limit(&mut client, &repeat_tail(keys.0, keys.1, count), accepted);
    }
    // A hundred thousand keys in one sequence are within the limit; three times as many exceed it.
    check_default_limit(&mut client, &repeat_tail(pairs.0, pairs.1, 100_000), true);
    check_default_limit(&mut client, &repeat_tail(pairs.0, pairs.1, 300_000), false);
}

fn check_default_limit(client: &mut TestClient, frame: &[u8], accepted: bool) {
    check_limit(client, frame, accepted, "131072");
}

fn check_limit(client: &mut TestClient, frame: &[u8], accepted: bool, text: &str) {
    let name = show(&frame[..frame.len().min(60)]);
    let before = last_index(client);
    client.send(frame);
    let answer = show(&client.answer().expect("an answer"));
    assert_eq!(!answer.starts_with('-'), accepted, "{name}: {}", excerpt(&answer));
    assert!(accepted || answer.contains(text), "{name}: {}", excerpt(&answer));
    assert!(accepted || last_index(client) == before, "{name} is refused and yet logged");
}

#[test]
fn update_beyond_update_bytes_max_is_refused_and_not_logged() {
    let server = TestServer::build();
    let mut client = connect_warm(&server);
    for (bytes, accepted) in around(UPDATE_BYTES_MAX) {
        // Keys of one byte and their values count; a value has at most 8 MiB.
        let value = vec![b'v'; bytes / 5];
        let last = vec![b'v'; bytes / 5 + bytes % 5 - 5];
        let args: [&[u8]; 11] =
            [b"MSET", b"a", &value, b"b", &value, b"c", &value, b"d", &value, b"e", &last];
        let before = last_index(&mut client);
        let answer = call(&mut client, &args);
        assert_eq!(answer == "+OK|", accepted, "{bytes} bytes: {answer}");
        assert!(accepted || answer.contains("33554432"), "{answer}");
        assert_eq!(last_index(&mut client) == before, !accepted, "what is refused is not logged");
    }
}

#[test]
fn watch_beyond_1024_keys_is_refused() {
    let server = TestServer::build();
    for (count, accepted) in around(1_024) {
        let mut client = TestClient::new(server.address);
        let keys: Vec<String> = (0..count).map(|n| format!("k{n}")).collect();
        let args = keys[1..].iter().map(String::as_bytes);
        let frame_args: Vec<&[u8]> = std::iter::once(&b"WATCH"[..]).chain(args).collect();
        assert_eq!(call(&mut client, &frame_args), "+OK|");
        let answer = client.call(&["WATCH", "k0"]);
        assert_eq!(answer == "+OK|", accepted, "{count}: {answer}");
        assert!(accepted || answer.contains("at most 1024 keys"), "{answer}");
    }
}

#[test]
fn mget_of_about_1024_keys_returns_every_value() {
    let server = TestServer::build();
    let mut client = connect_warm(&server);
    assert_eq!(client.call(&["SET", "a", "1"]), "+OK|");
    for (count, _) in around(1_024) {
        client.send(&repeat_tail(&[b"MGET"], &[b"a"], count));
        let answer = show(&client.answer().expect("an answer"));
        assert_eq!(answer, format!("*{count}|{}", "$1|1|".repeat(count)));
    }
}

#[test]
fn ttl_beyond_ttl_ms_max_is_refused_and_not_logged() {
    let server = TestServer::build();
    let mut client = connect_warm(&server);
    for (ms, accepted) in around(TTL_MS_MAX as usize) {
        let before = last_index(&mut client);
        let answer = client.call(&["SET", "k", "v", "PX", &ms.to_string()]);
        assert_eq!(answer == "+OK|", accepted, "{ms}: {answer}");
        assert_eq!(last_index(&mut client) == before, !accepted, "what is refused is not logged");
    }
}

#[test]
fn transaction_beyond_sequence_steps_max_is_aborted() {
    let server = TestServer::build();
    for (count, accepted) in around(SEQUENCE_STEPS_MAX) {
        let mut client = TestClient::new(server.address);
        assert_eq!(client.call(&["MULTI"]), "+OK|");
        let batch = 16_384;
        for done in (0..count).step_by(batch) {
            let now = batch.min(count - done);
            client.send(&request(&[b"TTL", b"a"]).repeat(now));
            for at in done..done + now {
                let answer = show(&client.answer().expect("an answer"));
                let fits = at < SEQUENCE_STEPS_MAX;
                assert_eq!(answer == "+QUEUED|", fits, "command {at}: {answer}");
            }
        }
        let answer = client.call(&["EXEC"]);
        assert_eq!(answer.starts_with(&format!("*{count}|:-2|")), accepted, "{}", excerpt(&answer));
        assert_eq!(answer.starts_with("-EXECABORT"), !accepted);
    }
}

#[test]
fn sequence_beyond_sequence_depth_max_is_refused() {
    let server = TestServer::build();
    let mut client = connect_warm(&server);
    for (depth, accepted) in around(SEQUENCE_DEPTH_MAX) {
        let mut args: Vec<String> = vec!["CREDENZA.SEQUENCE".into(), "2".into()];
        args.extend(["INCR".into(), "deep".into()]);
        for _ in 1..depth {
            let mut outer = vec!["CREDENZA.SEQUENCE".to_string(), args.len().to_string()];
            outer.append(&mut args);
            args = outer;
        }
        let args: Vec<&[u8]> = args.iter().map(|word| word.as_bytes()).collect();
        let answer = call(&mut client, &args);
        assert_eq!(!answer.starts_with('-'), accepted, "depth {depth}: {answer}");
        assert!(accepted || answer.contains("at most 64 deep"), "{answer}");
    }
}

#[test]
fn frame_beyond_frame_bytes_max_is_refused_from_its_header() {
    let server = TestServer::build();
    let head = "*2\r\n$4\r\nECHO\r\n$50331000\r\n".len();
    let most = FRAME_BYTES_MAX - head - 2;
    for (length, accepted) in around(most) {
        let mut client = TestClient::new(server.address);
        let frame = request(&[b"ECHO", &vec![b'x'; length]]);
        if accepted {
            assert_eq!(frame.len(), FRAME_BYTES_MAX + length - most);
            client.send(&frame);
            assert!(client.answer().is_some_and(|answer| answer.len() > length));
        } else {
            client.send(&frame[..head]);
            let answer = show(&client.read_to_end());
            assert!(answer.contains("at most 50331648 bytes"), "{answer}");
        }
    }
}

#[test]
fn pipeline_around_pipeline_depth_max_is_answered_in_order() {
    let server = TestServer::build();
    let mut client = connect_warm(&server);
    let mut wanted = 0;
    for depth in [PIPELINE_DEPTH_MAX - 1, PIPELINE_DEPTH_MAX, PIPELINE_DEPTH_MAX + 1] {
        client.send(&request(&[b"INCR", b"n"]).repeat(depth));
        for _ in 0..depth {
            wanted += 1;
            assert_eq!(show(&client.answer().expect("an answer")), format!(":{wanted}|"));
        }
    }
}

#[test]
fn connection_beyond_limit_is_refused_until_a_client_leaves() {
    let server = TestServer::with_settings(ServerSettings {
        connections_max: 3,
        ..ServerSettings::default()
    });
    let mut clients: Vec<TestClient> = (0..3).map(|_| TestClient::new(server.address)).collect();
    for client in &mut clients {
        assert_eq!(client.call(&["PING"]), "+PONG|");
    }
    let mut late = TestClient::new(server.address);
    late.send(b"*1\r\n$4\r\nPING\r\n");
    assert_eq!(show(&late.read_to_end()), "-ERR max number of clients reached (3)|");
    clients.pop();
    // The place is free once the server has noticed the end.
    let served = (0..1_000).any(|_| {
        let mut client = TestClient::new(server.address);
        client.send(b"*1\r\n$4\r\nPING\r\n");
        std::thread::sleep(std::time::Duration::from_millis(5));
        client.answer().is_some_and(|answer| answer == b"+PONG\r\n")
    });
    assert!(served);
    assert_eq!(clients[0].call(&["PING"]), "+PONG|");
}

#[test]
fn every_byte_is_valid_in_keys_and_values_and_sorts_bytewise() {
    let server = TestServer::build();
    let mut client = connect_warm(&server);
    assert_eq!(call(&mut client, &[b"SET", b"", b"the empty key"]), "+OK|");
    for byte in 0..=255u8 {
        assert_eq!(call(&mut client, &[b"SET", &[byte], &[byte, byte]]), "+OK|");
    }
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(call(&mut client, &[b"SET", &all, &all]), "+OK|");
    for byte in 0..=255u8 {
        client.send(&request(&[b"GET", &[byte]]));
        assert_eq!(client.answer(), Some([b"$2\r\n", &[byte, byte][..], b"\r\n"].concat()));
    }
    client.send(&request(&[b"GET", &all]));
    assert_eq!(client.answer(), Some([b"$256\r\n", &all[..], b"\r\n"].concat()));
    assert_eq!(client.call(&["GET", ""]), "$13|the empty key|");
    let mut keys: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    keys.extend([vec![], all]);
    keys.sort();
    let mut expected = format!("*2\r\n$-1\r\n*{}\r\n", keys.len()).into_bytes();
    for key in keys {
        expected.extend_from_slice(format!("${}\r\n", key.len()).as_bytes());
        expected.extend_from_slice(&[&key[..], b"\r\n"].concat());
    }
    client.send(&request(&[b"CREDENZA.RANGE", b"-", b"+", b"KEYS"]));
    assert_eq!(client.answer(), Some(expected));
}

#[test]
fn queued_transaction_commands_count_against_shared_memory() {
    let server = TestServer::with_settings(ServerSettings {
        buffer_bytes_max: 4 << 20,
        ..ServerSettings::default()
    });
    let value = "x".repeat(60_000);
    let queue = |client: &mut TestClient, most: usize| {
        assert_eq!(client.call(&["MULTI"]), "+OK|");
        let answers = (0..most).map(|_| client.call(&["SET", "k", &value]));
        answers.take_while(|answer| answer == "+QUEUED|").count()
    };
    let mut first = TestClient::new(server.address);
    assert_eq!(queue(&mut first, 40), 40);
    let mut second = TestClient::new(server.address);
    let taken = queue(&mut second, 70);
    assert!((10..40).contains(&taken), "{taken}");
    assert!(second.call(&["EXEC"]).starts_with("-EXECABORT"));
    // A client that queues little needs no share, and a released share is free for others.
    let mut third = TestClient::new(server.address);
    assert_eq!(queue(&mut third, taken), taken);
    assert_eq!(third.call(&["DISCARD"]), "+OK|");
    assert!(first.call(&["EXEC"]).starts_with("*40|+OK|"));
    assert_eq!(queue(&mut second, 60), 60, "a transaction that is over gives all back");
}
