//! Tests of `CREDENZA.INDEX` on rows: pages by terms, continuations, and the states of an index.

use super::test_client::{TestClient, TestServer};
use std::time::{Duration, Instant};

/// Longest wait for a state.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls until the answer is as wanted; returns it.
fn wait_for(client: &mut TestClient, args: &[&str], is_wanted: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let answer = client.call(args);
        if is_wanted(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{args:?}: {answer}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn range(client: &mut TestClient, args: &[&str]) -> String {
    client.call(&[&["CREDENZA.INDEX", "RANGE"], args].concat())
}

#[test]
fn index_returns_pages_of_keys_terms_and_records() {
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    for (key, count) in [("a", 7), ("b", -3), ("c", 12), ("d", 7)] {
        assert_eq!(client.call(&["SET", key, &format!("{{\"count\":{count}}}")]), "+OK|");
    }
    let create = ["CREDENZA.INDEX", "CREATE", "by-count", "PATH", "$.count", "TYPE", "INT"];
    assert_eq!(client.call(&create), "+OK|");
    let status = ["CREDENZA.INDEX", "STATUS", "by-count"];
    let ready = wait_for(&mut client, &status, |answer| answer.contains("|ready|"));
    let expected = "*16|$4|name|$8|by-count|$6|number|$1|1|$4|path|$7|$.count|$4|type|$3|int|\
                    $6|format|$4|json|$6|unique|$5|false|$6|strict|$5|false|$5|state|$5|ready|";
    assert_eq!(ready, expected);
    assert_eq!(client.call(&["CREDENZA.INDEX", "LIST"]), format!("*1|{expected}"));
    for (args, expected) in [
        (&["-", "+"][..], "*2|$-1|*4|$1|b|$1|a|$1|d|$1|c|"),
        (&["[-3", "(12", "TERMS"], "*2|$-1|*6|$1|b|$2|-3|$1|a|$1|7|$1|d|$1|7|"),
        (&["EQUALS", "12", "RECORDS"], "*2|$-1|*3|$1|c|$2|12|$12|{\"count\":12}|"),
        (&["(12", "+"], "*2|$-1|*0|"),
        (&["(7", "(7", "REV"], "*2|$-1|*0|"),
    ] {
        let args = [&["by-count"], args].concat();
        assert_eq!(range(&mut client, &args), expected, "{args:?}");
    }
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let mut args = vec!["by-count", "-", "+", "REV", "LIMIT", "1"];
        if !after.is_empty() {
            args.extend(["AFTER", &after]);
        }
        let page = range(&mut client, &args);
        let parts: Vec<&str> = page.split('|').collect();
        let has_more = parts[1] != "$-1";
        let rows = &parts[if has_more { 3 } else { 2 }..];
        found.extend(rows.get(2).filter(|_| rows[0] == "*1").map(|key| key.to_string()));
        if !has_more {
            break;
        }
        after = parts[2].into();
    }
    assert_eq!(found, ["c", "d", "a", "b"]);
    for (args, expected) in [
        (&["EQUALS", "seven"][..], "-ERR the term of an `int` index is an integer of 64 bits|"),
        (&["PREFIX", "1"], "-ERR only an index of strings or bytes is queried by prefix: use a r"),
        (&["-", "+", "AFTER", "x"], "-ERR the continuation is not one that a query returned"),
    ] {
        let answer = range(&mut client, &[&["by-count"], args].concat());
        assert!(answer.starts_with(expected), "{args:?}: {answer}");
    }
    assert_eq!(client.call(&["CREDENZA.INDEX", "DROP", "by-count"]), "+OK|");
    let refused = range(&mut client, &["by-count", "-", "+"]);
    assert!(refused.starts_with("-NOINDEX no index `by-count`"), "{refused}");
    wait_for(&mut client, &status, |answer| answer.starts_with("-NOINDEX"));
}

#[test]
fn index_of_an_available_bucket_returns_siblings_and_says_whether_rows_are_missing() {
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    assert_eq!(client.call(&["CREDENZA.BUCKET", "available/b"]), "+OK|");
    for (key, value) in [("one", "{\"n\":1}"), ("two", "{\"n\":2}"), ("two", "{\"n\":3}")] {
        assert!(client.call(&["CREDENZA.STORE", key, value]).starts_with('$'), "{key}");
    }
    let create = ["CREDENZA.INDEX", "CREATE", "by-n", "PATH", "$.n", "TYPE", "INT"];
    assert_eq!(client.call(&create), "+OK|");
    let status = ["CREDENZA.INDEX", "STATUS", "by-n"];
    wait_for(&mut client, &status, |answer| answer.contains("|ready|"));
    assert_eq!(range(&mut client, &["by-n", "-", "+"]), "*2|$-1|*3|$3|one|$3|two|$3|two|");
    // One value or several: the form is that of a fetch.
    for (key, term) in [("one", "1"), ("two", "3")] {
        let found = client.call(&["CREDENZA.FETCH", key]);
        let page = range(&mut client, &["by-n", "EQUALS", term, "RECORDS"]);
        assert_eq!(page, format!("*2|$-1|*3|$3|{key}|$1|{term}|{found}"));
    }
    for (options, partial) in [
        (&["R", "ONE"][..], ""),
        (&["r", "quorum", "timeout", "5000"], ""),
        (&["PARTIAL"], ":0|"),
        (&["R", "2", "PARTIAL", "TIMEOUT", "5000"], ":0|"),
    ] {
        let parts = if partial.is_empty() { 2 } else { 3 };
        let page = range(&mut client, &[&["by-n", "EQUALS", "2"], options].concat());
        assert_eq!(page, format!("*{parts}|$-1|*1|$3|two|{partial}"), "{options:?}");
    }
    let refused = range(&mut client, &["by-n", "-", "+", "R", "200"]);
    assert!(refused.starts_with("-ERR"), "no bucket has so many copies: {refused}");
}
