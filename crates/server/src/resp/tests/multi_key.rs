//! Tests of commands with several keys of an available bucket.

use super::frames::request;
use super::test_client::{TestClient, TestServer, show};

fn connect(server: &TestServer) -> TestClient {
    let mut client = TestClient::new(server.address);
    assert_eq!(client.call(&["CREDENZA.BUCKET", "available/b"]), "+OK|");
    client
}

/// Sends a command with the keys of these numbers.
fn call(client: &mut TestClient, command: &str, keys: impl Iterator<Item = usize>) -> String {
    let keys: Vec<String> = keys.map(|key| format!("k{key}")).collect();
    let args: Vec<&[u8]> = std::iter::once(command)
        .chain(keys.iter().map(|key| &key[..]))
        .map(str::as_bytes)
        .collect();
    client.send(&request(&args));
    show(&client.answer().expect("an answer"))
}

#[test]
fn multi_key_reads_report_present_and_absent_keys_in_order() {
    let server = TestServer::build();
    let mut client = connect(&server);
    for key in (0..300).step_by(3) {
        assert_eq!(client.call(&["SET", &format!("k{key}"), &format!("v{key}")]), "+OK|");
    }
    let value = |key: usize| match key % 3 {
        0 if key < 300 => format!("${}|v{key}|", format!("v{key}").len()),
        _ => "$-1|".into(),
    };
    // More keys than run concurrently, repeated keys, and more keys than one request may read.
    for keys in [vec![3, 1, 3, 0], (0..300).rev().collect(), (0..2_500).collect()] {
        let wanted: String = keys.iter().copied().map(value).collect();
        let found = call(&mut client, "MGET", keys.iter().copied());
        assert_eq!(found, format!("*{}|{wanted}", keys.len()));
    }
    assert_eq!(call(&mut client, "EXISTS", (0..300).chain(0..300)), ":200|");
    assert_eq!(call(&mut client, "TOUCH", (0..100).rev()), ":34|");
    assert_eq!(call(&mut client, "EXISTS", 301..310), ":0|");
}

#[test]
fn mset_and_del_apply_to_many_and_repeated_keys() {
    let server = TestServer::build();
    let mut client = connect(&server);
    let pairs: Vec<[String; 2]> =
        (0..300).map(|key| [format!("k{key}"), format!("v{key}")]).collect();
    let mut args: Vec<&[u8]> = vec![b"MSET"];
    args.extend(pairs.iter().flatten().map(String::as_bytes));
    client.send(&request(&args));
    assert_eq!(show(&client.answer().expect("an answer")), "+OK|");
    assert_eq!(client.call(&["MGET", "k0", "k299", "k300"]), "*3|$2|v0|$4|v299|$-1|");
    // Of a repeated key only the last value remains, without siblings.
    for _ in 0..20 {
        assert_eq!(client.call(&["MSET", "a", "1", "b", "2", "a", "3", "a", "4"]), "+OK|");
        assert_eq!(client.call(&["MGET", "a", "b"]), "*2|$1|4|$1|2|");
        assert_eq!(client.call(&["DEL", "a", "b", "a", "c"]), ":2|");
        assert_eq!(client.call(&["EXISTS", "a", "b"]), ":0|");
    }
    assert_eq!(call(&mut client, "UNLINK", (0..310).step_by(2)), ":150|");
    assert_eq!(call(&mut client, "EXISTS", 0..310), ":150|");
    // Commands with a condition, or that are atomic, are refused.
    for args in [&["MSETNX", "x", "1", "y", "2"][..], &["RENAME", "k1", "x"]] {
        let answer = client.call(args);
        assert!(answer.starts_with("-ERR available bucket"), "{answer}");
    }
    assert_eq!(client.call(&["EXISTS", "x", "y", "k1"]), ":1|");
}

#[test]
fn mset_with_an_oversized_value_writes_nothing() {
    let server = TestServer::build();
    let mut client = connect(&server);
    let large = vec![b'x'; base::limits::VALUE_BYTES_MAX + 1];
    client.send(&request(&[b"MSET", b"a", b"1", b"b", &large]));
    let answer = show(&client.answer().expect("an answer"));
    assert!(answer.starts_with("-ERR string exceeds maximum allowed size"), "{answer}");
    assert_eq!(client.call(&["EXISTS", "a", "b"]), ":0|");
}

#[test]
fn mget_beyond_values_bytes_max_is_refused() {
    let server = TestServer::build();
    let mut client = connect(&server);
    let megabyte = "m".repeat(1 << 20);
    assert_eq!(client.call(&["SET", "k0", &megabyte]), "+OK|");
    let most = base::limits::VALUES_BYTES_MAX >> 20;
    let found = call(&mut client, "MGET", std::iter::repeat_n(0, most));
    assert_eq!(found.len(), format!("*{most}|").len() + most * (10 + (1 << 20)));
    let refused = call(&mut client, "MGET", std::iter::repeat_n(0, most + 1));
    assert!(refused.starts_with("-ERR"), "{}", &refused[..80.min(refused.len())]);
}
