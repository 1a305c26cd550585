//! Tests of commands with several keys of an available bucket.

use super::frames::request;
use super::test_client::{Guest, TestServer, shown};

fn guest(server: &TestServer) -> Guest {
    let mut guest = Guest::new(server.address);
    assert_eq!(guest.ask(&["CREDENZA.BUCKET", "available/b"]), "+OK|");
    guest
}

/// Sends a command with the keys of these numbers.
fn ask(guest: &mut Guest, command: &str, keys: impl Iterator<Item = usize>) -> String {
    let keys: Vec<String> = keys.map(|key| format!("k{key}")).collect();
    let words: Vec<&[u8]> = std::iter::once(command)
        .chain(keys.iter().map(|key| &key[..]))
        .map(str::as_bytes)
        .collect();
    guest.send(&request(&words));
    shown(&guest.answer().expect("an answer"))
}

#[test]
fn each_is_answered_in_its_place_whether_it_is_there_or_not() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    for key in (0..300).step_by(3) {
        assert_eq!(guest.ask(&["SET", &format!("k{key}"), &format!("v{key}")]), "+OK|");
    }
    let value = |key: usize| match key % 3 {
        0 if key < 300 => format!("${}|v{key}|", format!("v{key}").len()),
        _ => "$-1|".into(),
    };
    // More keys than run concurrently, repeated keys, and more keys than one request may read.
    for keys in [vec![3, 1, 3, 0], (0..300).rev().collect(), (0..2_500).collect()] {
        let wanted: String = keys.iter().copied().map(value).collect();
        let found = ask(&mut guest, "MGET", keys.iter().copied());
        assert_eq!(found, format!("*{}|{wanted}", keys.len()));
    }
    assert_eq!(ask(&mut guest, "EXISTS", (0..300).chain(0..300)), ":200|");
    assert_eq!(ask(&mut guest, "TOUCH", (0..100).rev()), ":34|");
    assert_eq!(ask(&mut guest, "EXISTS", 301..310), ":0|");
}

#[test]
fn many_are_set_and_deleted_by_one_command() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    let pairs: Vec<[String; 2]> =
        (0..300).map(|key| [format!("k{key}"), format!("v{key}")]).collect();
    let mut words: Vec<&[u8]> = vec![b"MSET"];
    words.extend(pairs.iter().flatten().map(String::as_bytes));
    guest.send(&request(&words));
    assert_eq!(shown(&guest.answer().expect("an answer")), "+OK|");
    assert_eq!(guest.ask(&["MGET", "k0", "k299", "k300"]), "*3|$2|v0|$4|v299|$-1|");
    // Of a repeated key only the last value remains, without siblings.
    for _ in 0..20 {
        assert_eq!(guest.ask(&["MSET", "a", "1", "b", "2", "a", "3", "a", "4"]), "+OK|");
        assert_eq!(guest.ask(&["MGET", "a", "b"]), "*2|$1|4|$1|2|");
        assert_eq!(guest.ask(&["DEL", "a", "b", "a", "c"]), ":2|");
        assert_eq!(guest.ask(&["EXISTS", "a", "b"]), ":0|");
    }
    assert_eq!(ask(&mut guest, "UNLINK", (0..310).step_by(2)), ":150|");
    assert_eq!(ask(&mut guest, "EXISTS", 0..310), ":150|");
    // Commands with a condition, or that are atomic, are refused.
    for words in [&["MSETNX", "x", "1", "y", "2"][..], &["RENAME", "k1", "x"]] {
        let answer = guest.ask(words);
        assert!(answer.starts_with("-ERR in an available bucket"), "{answer}");
    }
    assert_eq!(guest.ask(&["EXISTS", "x", "y", "k1"]), ":1|");
}

#[test]
fn nothing_is_written_of_a_batch_with_a_value_that_is_too_large() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    let large = vec![b'x'; base::limits::VALUE_BYTES_MAX + 1];
    guest.send(&request(&[b"MSET", b"a", b"1", b"b", &large]));
    let answer = shown(&guest.answer().expect("an answer"));
    assert!(answer.starts_with("-ERR string exceeds maximum allowed size"), "{answer}");
    assert_eq!(guest.ask(&["EXISTS", "a", "b"]), ":0|");
}

#[test]
fn all_values_together_have_a_limit() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    let megabyte = "m".repeat(1 << 20);
    assert_eq!(guest.ask(&["SET", "k0", &megabyte]), "+OK|");
    let most = base::limits::VALUES_BYTES_MAX >> 20;
    let found = ask(&mut guest, "MGET", std::iter::repeat_n(0, most));
    assert_eq!(found.len(), format!("*{most}|").len() + most * (10 + (1 << 20)));
    let refused = ask(&mut guest, "MGET", std::iter::repeat_n(0, most + 1));
    assert!(refused.starts_with("-ERR"), "{}", &refused[..80.min(refused.len())]);
}
