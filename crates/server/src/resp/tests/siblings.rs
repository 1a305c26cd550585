//! Tests of siblings and their contexts, byte for byte.

use super::frames::request;
use super::test_client::{TestClient, TestServer, show};
use base::limits::{CONTEXT_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};

fn connect(server: &TestServer) -> TestClient {
    let mut client = TestClient::new(server.address);
    assert_eq!(client.call(&["CREDENZA.BUCKET", "available/b"]), "+OK|");
    client
}

/// Sends a request and returns the bytes of its answer.
fn call(client: &mut TestClient, args: &[&[u8]]) -> Vec<u8> {
    client.send(&request(args));
    client.answer().expect("an answer")
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
fn parse_fetch(answer: &[u8]) -> (Vec<u8>, Vec<Option<Vec<u8>>>) {
    let rest = answer.strip_prefix(b"*2\r\n").unwrap_or_else(|| panic!("{}", show(answer)));
    let (context, rest) = bulk(rest);
    let end = rest.iter().position(|&byte| byte == b'\r').expect("a line");
    let count: usize = std::str::from_utf8(&rest[1..end]).expect("text").parse().expect("a count");
    let (mut values, mut rest) = (Vec::new(), &rest[end + 2..]);
    for _ in 0..count {
        let (value, remaining) = bulk(rest);
        values.push(value);
        rest = remaining;
    }
    assert!(rest.is_empty(), "{}", show(answer));
    (context.expect("a context"), values)
}

#[test]
fn store_with_context_replaces_siblings_and_blind_store_adds_them() {
    let server = TestServer::build();
    let mut client = connect(&server);
    let key = b"\r\n\x00k\xff";
    let large = vec![b'\n'; 100_000];
    for value in [&b"*2\r\n$-1\r\n"[..], b"", &large] {
        let stored = call(&mut client, &[b"CREDENZA.STORE", key, value]);
        assert!(bulk(&stored).0.is_some_and(|context| !context.is_empty()));
    }
    let (context, mut values) = parse_fetch(&call(&mut client, &[b"CREDENZA.FETCH", key]));
    values.sort();
    assert_eq!(values, [Some(vec![]), Some(large), Some(b"*2\r\n$-1\r\n".to_vec())]);
    let args: [&[u8]; 5] = [b"credenza.store", key, b"one", b"context", &context];
    let after = call(&mut client, &args);
    let (context, values) = parse_fetch(&call(&mut client, &[b"CREDENZA.FETCH", key]));
    assert_eq!(values, [Some(b"one".to_vec())]);
    assert_eq!(bulk(&after).0, Some(context), "who has seen all before and wrote has seen all");
}

#[test]
fn siblings_error_names_the_commands_that_resolve_siblings() {
    let server = TestServer::build();
    let mut client = connect(&server);
    for value in ["1", "2"] {
        client.call(&["CREDENZA.STORE", "k", value]);
    }
    for command in ["GET", "MGET", "STRLEN"] {
        let answer = client.call(&[command, "k"]);
        assert!(answer.starts_with("-SIBLINGS this key has 2 concurrent values"), "{answer}");
        assert!(answer.contains("CREDENZA.FETCH") && answer.contains("CREDENZA.STORE"), "{answer}");
    }
    assert_eq!(client.call(&["CREDENZA.ALTER", "available/b", "siblings_max", "2"]), "+OK|");
    let answer = client.call(&["CREDENZA.STORE", "k", "3"]);
    assert!(answer.starts_with("-SIBLINGS") && answer.contains("CONTEXT"), "{answer}");
}

#[test]
fn pipelined_stores_and_fetches_are_answered_in_order() {
    let server = TestServer::build();
    let mut client = connect(&server);
    let mut requests = Vec::new();
    let names: Vec<String> = (0..400).map(|n| format!("k{}", n % 130)).collect();
    for (n, name) in names.iter().enumerate() {
        let (name, value) = (name.as_bytes(), n.to_string());
        requests.extend(request(&[b"CREDENZA.STORE", name, value.as_bytes()]));
        requests.extend(request(&[b"CREDENZA.FETCH", name]));
        requests.extend(request(&[b"EXISTS", name]));
    }
    client.send(&requests);
    for n in 0..names.len() {
        assert!(client.answer().expect("an answer").starts_with(b"$"), "{n}");
        let (_, values) = parse_fetch(&client.answer().expect("an answer"));
        let expected = (0..=n).rev().filter(|before| before % 130 == n % 130);
        let mut expected: Vec<_> = expected.map(|n| Some(n.to_string().into_bytes())).collect();
        let mut values = values;
        values.sort();
        expected.sort();
        assert_eq!(values, expected, "{n}");
        assert_eq!(show(&client.answer().expect("an answer")), ":1|");
    }
}

#[test]
fn pipelined_stores_share_syncs_only_across_distinct_keys() {
    let server = TestServer::build();
    let mut client = connect(&server);
    client.call(&["CREDENZA.STORE", "warm", "x"]);
    let mut syncs = |key: fn(usize) -> String| {
        let before = server.sample("credenza_log_syncs_total");
        let mut requests = Vec::new();
        for n in 0..160 {
            requests.extend(request(&[b"CREDENZA.REMOVE", key(n).as_bytes()]));
            requests.extend(request(&[b"CREDENZA.STORE", key(n).as_bytes(), b"v"]));
        }
        client.send(&requests);
        for n in 0..320 {
            assert!(client.answer().expect("an answer").starts_with(b"$"), "{n}");
        }
        server.sample("credenza_log_syncs_total") - before
    };
    let (apart, same) = (syncs(|n| format!("k{n}")), syncs(|_| "k".into()));
    assert!(same >= 160.0, "each has to be firm before the next begins: {same} syncs");
    assert!(apart <= same * 0.75, "they are under way together: {apart} syncs beside {same}");
}

#[test]
fn oversized_argument_or_foreign_context_writes_nothing() {
    let server = TestServer::build();
    let mut client = connect(&server);
    let (value, key) = (vec![b'v'; VALUE_BYTES_MAX + 1], vec![b'k'; KEY_BYTES_MAX + 1]);
    let context = vec![b'c'; CONTEXT_BYTES_MAX + 1];
    let refusals: [(&[&[u8]], &str); 5] = [
        (&[b"CREDENZA.STORE", b"k", &value], "string exceeds maximum"),
        (&[b"CREDENZA.STORE", &key, b"v"], "a key has at most"),
        (&[b"CREDENZA.FETCH", &key], "a key has at most"),
        (&[b"CREDENZA.STORE", b"k", b"v", b"CONTEXT", &context], "a context has at most"),
        (&[b"CREDENZA.REMOVE", b"k", b"CONTEXT", &context[1..]], "as it was returned"),
    ];
    for (args, wanted) in refusals {
        let answer = show(&call(&mut client, args));
        assert!(answer.starts_with("-ERR") && answer.contains(wanted), "{wanted}: {answer}");
    }
    // A context of another key is refused, too.
    let foreign_context =
        bulk(&call(&mut client, &[b"CREDENZA.STORE", b"other", b"v"])).0.expect("a context");
    let answer =
        show(&call(&mut client, &[b"CREDENZA.STORE", b"k", b"v", b"CONTEXT", &foreign_context]));
    assert!(answer.starts_with("-ERR") && answer.contains("this key"), "{answer}");
    assert_eq!(client.call(&["EXISTS", "k"]), ":0|");
}
