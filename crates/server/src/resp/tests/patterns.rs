//! Tests of patterns: they match as Redis' do, and none is slow.

use super::test_client::{TestClient, TestServer};
use crate::resp::glob::Glob;
use base::limits::{PATTERN_BYTES_MAX, PATTERNS_MAX};
use proptest::prelude::*;

fn matches(pattern: &str, text: &str) -> bool {
    Glob::new(pattern.as_bytes()).matches(text.as_bytes())
}

/// Matches a pattern by trying everything. Only for tests, because it can take exponential time.
fn reference_matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skip| reference_matches(rest, &text[skip..])),
        [b'?', rest @ ..] => !text.is_empty() && reference_matches(rest, &text[1..]),
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => {
            text.first() == Some(byte) && reference_matches(rest, &text[1..])
        }
    }
}

#[test]
fn glob_matches_as_in_redis() {
    for (pattern, text) in [
        ("*", ""),
        ("*", "abc"),
        ("**", "a"),
        ("a*c", "abbc"),
        ("h?llo", "hallo"),
        ("h[ae]llo", "hello"),
        ("h[^e]llo", "hallo"),
        ("h[a-b]llo", "hbllo"),
        ("h[b-a]llo", "hallo"),
        ("a\\*", "a*"),
        ("a[\\]]", "a]"),
        ("[a-]", "^"),
        ("a[", "a["),
        ("*a*b*c*", "xaxbxcx"),
        ("a\\", "a\\"),
        ("", ""),
        ("*[0-9]", "key7"),
        ("ab*ab", "abab"),
        ("*aab", "aaab"),
        ("a[^]b", "axb"),
    ] {
        let expected = pattern != "a[";
        assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
    }
    for (pattern, text) in [
        ("", "a"),
        ("a", ""),
        ("a", "ab"),
        ("a?", "a"),
        ("ab*ab", "aba"),
        ("[^a]", "a"),
        ("a*b*c", "acb"),
        ("[a-c]", "d"),
        ("a\\*", "ab"),
        ("*a*b", "ba"),
    ] {
        assert!(!matches(pattern, text), "{pattern} {text}");
    }
}

#[test]
fn glob_prefix_is_its_literal_beginning() {
    for (pattern, prefix, plain) in [
        ("user:*", "user:", false),
        ("*x", "", false),
        ("abc", "abc", true),
        ("a?", "a", false),
        ("a\\*b*", "a*b", false),
        ("", "", true),
    ] {
        let glob = Glob::new(pattern.as_bytes());
        assert_eq!((glob.prefix(), glob.is_literal()), (prefix.as_bytes(), plain), "{pattern}");
    }
}

#[test]
fn adversarial_glob_matches_without_backtracking() {
    // Backtracking at every star would take practically forever for the first text, and minutes for
    // the others.
    let text = "a".repeat(10 * 1024);
    assert!(!matches(&format!("{}b", "a*".repeat(5 * 1024)), &text));
    assert!(!matches(&format!("{}b", "*?a".repeat(3 * 1024)), &text));
    assert!(!matches(&format!("*{}b*", "[ab]".repeat(5 * 1024)), &text));
    assert!(!matches(&format!("*{}b*", "a".repeat(5 * 1024)), &text));
    assert!(matches(&format!("{}*", "a*".repeat(5 * 1024)), &text));
}

proptest! {
    #[test]
    fn glob_agrees_with_reference_implementation(
        pattern in "[ab?*\\\\]{0,8}",
        text in "[ab*]{0,10}",
    ) {
        prop_assert_eq!(
            Glob::new(pattern.as_bytes()).matches(text.as_bytes()),
            reference_matches(pattern.as_bytes(), text.as_bytes())
        );
    }
}

#[test]
fn pattern_beyond_length_or_count_limit_is_refused() {
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    let longest = "[x]".repeat(PATTERN_BYTES_MAX / 3) + "*";
    let longer = longest.clone() + "*";
    for before in [&["KEYS"][..], &["CONFIG", "GET"], &["COMMAND", "LIST", "FILTERBY", "PATTERN"]] {
        let command = |pattern| [before, &[pattern]].concat();
        assert!(["*0|", "%0|"].contains(&client.call(&command(&longest)).as_str()));
        let answer = client.call(&command(&longer));
        assert!(answer.starts_with("-ERR a pattern has at most"), "{answer}");
    }
    let scan = client.call(&["SCAN", "0", "MATCH", &longer]);
    assert!(scan.starts_with("-ERR a pattern has at most"), "{scan}");
    let many = |count| [vec!["CONFIG", "GET"], vec!["nothing"; count]].concat();
    assert_eq!(client.call(&many(PATTERNS_MAX)), "*0|");
    let answer = client.call(&many(PATTERNS_MAX + 1));
    assert!(answer.starts_with("-ERR at most"), "{answer}");
}

/// Every command of several steps lets other tasks run before it, and none is a step itself.
#[test]
fn filtered_lists_of_commands_are_answered_one_by_one_and_in_no_transaction() {
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    let filters = [["PATTERN", "credenza.ta*"], ["ACLCAT", "no-such"], ["PATTERN", "[a-b]ppend"]];
    let commands = filters.map(|filter| [&["COMMAND", "LIST", "FILTERBY"][..], &filter].concat());
    let answers = ["*1|$12|credenza.tas|", "*0|", "*1|$6|append|"];
    commands.iter().for_each(|command| client.send_command(command));
    for answer in answers {
        let found = client.answer().map(|bytes| super::test_client::show(&bytes));
        assert_eq!(found.as_deref(), Some(answer));
    }
    for command in &commands {
        assert_eq!(
            (client.call(&["MULTI"]), client.call(command)),
            ("+OK|".into(), "+QUEUED|".into())
        );
        let answer = client.call(&["EXEC"]);
        assert!(answer.starts_with("*1|-ERR 'command|list' is not allowed"), "{answer}");
    }
}
