//! Tests of siblings and their contexts, byte for byte.

use super::frames::request;
use super::test_client::{Guest, TestServer, shown};
use base::limits::{CONTEXT_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};

fn guest(server: &TestServer) -> Guest {
    let mut guest = Guest::new(server.address);
    assert_eq!(guest.ask(&["CREDENZA.BUCKET", "available/b"]), "+OK|");
    guest
}

/// Sends a request and returns the bytes of its answer.
fn ask(guest: &mut Guest, words: &[&[u8]]) -> Vec<u8> {
    guest.send(&request(words));
    guest.answer().expect("an answer")
}

/// Parses the bulk string at the beginning of these bytes. Returns the rest with it.
fn bulk(bytes: &[u8]) -> (Option<Vec<u8>>, &[u8]) {
    let end = bytes.iter().position(|&byte| byte == b'\r').expect("a line");
    let (head, rest) = (&bytes[..end], &bytes[end + 2..]);
    match std::str::from_utf8(&head[1..]).expect("a number").parse::<usize>() {
        Ok(length) => (Some(rest[..length].to_vec()), &rest[length + 2..]),
        Err(_) => (None, rest),
    }
}

/// Returns the context and the values in the answer to a `CREDENZA.FETCH`.
fn fetched(answer: &[u8]) -> (Vec<u8>, Vec<Option<Vec<u8>>>) {
    let rest = answer.strip_prefix(b"*2\r\n").unwrap_or_else(|| panic!("{}", shown(answer)));
    let (context, rest) = bulk(rest);
    let end = rest.iter().position(|&byte| byte == b'\r').expect("a line");
    let count: usize = std::str::from_utf8(&rest[1..end]).expect("text").parse().expect("a count");
    let (mut values, mut rest) = (Vec::new(), &rest[end + 2..]);
    for _ in 0..count {
        let (value, behind) = bulk(rest);
        values.push(value);
        rest = behind;
    }
    assert!(rest.is_empty(), "{}", shown(answer));
    (context.expect("a context"), values)
}

#[test]
fn values_and_keys_may_be_any_bytes_and_what_was_seen_is_replaced() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    let key = b"\r\n\x00k\xff";
    let large = vec![b'\n'; 100_000];
    for value in [&b"*2\r\n$-1\r\n"[..], b"", &large] {
        let stored = ask(&mut guest, &[b"CREDENZA.STORE", key, value]);
        assert!(bulk(&stored).0.is_some_and(|context| !context.is_empty()));
    }
    let (context, mut values) = fetched(&ask(&mut guest, &[b"CREDENZA.FETCH", key]));
    values.sort();
    assert_eq!(values, [Some(vec![]), Some(large), Some(b"*2\r\n$-1\r\n".to_vec())]);
    let words: [&[u8]; 5] = [b"credenza.store", key, b"one", b"context", &context];
    let after = ask(&mut guest, &words);
    let (context, values) = fetched(&ask(&mut guest, &[b"CREDENZA.FETCH", key]));
    assert_eq!(values, [Some(b"one".to_vec())]);
    assert_eq!(bulk(&after).0, Some(context), "who has seen all before and wrote has seen all");
}

#[test]
fn the_error_of_a_key_with_siblings_names_what_to_do() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    for value in ["1", "2"] {
        guest.ask(&["CREDENZA.STORE", "k", value]);
    }
    for command in ["GET", "MGET", "STRLEN"] {
        let answer = guest.ask(&[command, "k"]);
        assert!(answer.starts_with("-SIBLINGS this key has 2 values"), "{answer}");
        assert!(answer.contains("CREDENZA.FETCH") && answer.contains("CREDENZA.STORE"), "{answer}");
    }
    assert_eq!(guest.ask(&["CREDENZA.ALTER", "available/b", "siblings_max", "2"]), "+OK|");
    let answer = guest.ask(&["CREDENZA.STORE", "k", "3"]);
    assert!(answer.starts_with("-SIBLINGS") && answer.contains("CONTEXT"), "{answer}");
}

#[test]
fn they_go_beside_each_other_in_a_pipeline_and_answers_keep_their_order() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    let mut requests = Vec::new();
    let names: Vec<String> = (0..400).map(|n| format!("k{}", n % 130)).collect();
    for (n, name) in names.iter().enumerate() {
        let (name, value) = (name.as_bytes(), n.to_string());
        requests.extend(request(&[b"CREDENZA.STORE", name, value.as_bytes()]));
        requests.extend(request(&[b"CREDENZA.FETCH", name]));
        requests.extend(request(&[b"EXISTS", name]));
    }
    guest.send(&requests);
    for n in 0..names.len() {
        assert!(guest.answer().expect("an answer").starts_with(b"$"), "{n}");
        let (_, values) = fetched(&guest.answer().expect("an answer"));
        let wanted = (0..=n).rev().filter(|before| before % 130 == n % 130);
        let mut wanted: Vec<_> = wanted.map(|n| Some(n.to_string().into_bytes())).collect();
        let mut values = values;
        values.sort();
        wanted.sort();
        assert_eq!(values, wanted, "{n}");
        assert_eq!(shown(&guest.answer().expect("an answer")), ":1|");
    }
}

#[test]
fn stores_of_keys_of_their_own_share_a_sync() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    guest.ask(&["CREDENZA.STORE", "warm", "x"]);
    let mut syncs = |key: fn(usize) -> String| {
        let before = server.sample("credenza_log_syncs_total");
        let mut requests = Vec::new();
        for n in 0..160 {
            requests.extend(request(&[b"CREDENZA.REMOVE", key(n).as_bytes()]));
            requests.extend(request(&[b"CREDENZA.STORE", key(n).as_bytes(), b"v"]));
        }
        guest.send(&requests);
        for n in 0..320 {
            assert!(guest.answer().expect("an answer").starts_with(b"$"), "{n}");
        }
        server.sample("credenza_log_syncs_total") - before
    };
    let (apart, same) = (syncs(|n| format!("k{n}")), syncs(|_| "k".into()));
    assert!(same >= 160.0, "each has to be firm before the next begins: {same} syncs");
    assert!(apart <= same * 0.75, "they are under way together: {apart} syncs beside {same}");
}

#[test]
fn limits_are_looked_at_before_anything_is_asked() {
    let server = TestServer::build();
    let mut guest = guest(&server);
    let (value, key) = (vec![b'v'; VALUE_BYTES_MAX + 1], vec![b'k'; KEY_BYTES_MAX + 1]);
    let context = vec![b'c'; CONTEXT_BYTES_MAX + 1];
    let refusals: [(&[&[u8]], &str); 5] = [
        (&[b"CREDENZA.STORE", b"k", &value], "string exceeds maximum"),
        (&[b"CREDENZA.STORE", &key, b"v"], "a key has at most"),
        (&[b"CREDENZA.FETCH", &key], "a key has at most"),
        (&[b"CREDENZA.STORE", b"k", b"v", b"CONTEXT", &context], "a context has at most"),
        (&[b"CREDENZA.REMOVE", b"k", b"CONTEXT", &context[1..]], "as it was given"),
    ];
    for (words, wanted) in refusals {
        let answer = shown(&ask(&mut guest, words));
        assert!(answer.starts_with("-ERR") && answer.contains(wanted), "{wanted}: {answer}");
    }
    // A context of another key is refused, too.
    let seen = bulk(&ask(&mut guest, &[b"CREDENZA.STORE", b"other", b"v"])).0.expect("a context");
    let answer = shown(&ask(&mut guest, &[b"CREDENZA.STORE", b"k", b"v", b"CONTEXT", &seen]));
    assert!(answer.starts_with("-ERR") && answer.contains("this very key"), "{answer}");
    assert_eq!(guest.ask(&["EXISTS", "k"]), ":0|");
}
