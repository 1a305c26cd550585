//! Tests of patterns: they match as Redis' do, and none is slow.

use super::test_client::{Guest, TestServer};
use crate::resp::glob::Glob;
use base::limits::{PATTERN_BYTES_MAX, PATTERNS_MAX};
use proptest::prelude::*;

fn fits(pattern: &str, text: &str) -> bool {
    Glob::new(pattern.as_bytes()).fits(text.as_bytes())
}

/// Matches a pattern by trying everything. Only for tests, because it can take exponential time.
fn naive(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skip| naive(rest, &text[skip..])),
        [b'?', rest @ ..] => !text.is_empty() && naive(rest, &text[1..]),
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => {
            text.first() == Some(byte) && naive(rest, &text[1..])
        }
    }
}

#[test]
fn patterns_fit_as_in_redis() {
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
        assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
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
        assert!(!fits(pattern, text), "{pattern} {text}");
    }
}

#[test]
fn what_a_pattern_begins_with_bounds_the_walk() {
    for (pattern, prefix, plain) in [
        ("user:*", "user:", false),
        ("*x", "", false),
        ("abc", "abc", true),
        ("a?", "a", false),
        ("a\\*b*", "a*b", false),
        ("", "", true),
    ] {
        let glob = Glob::new(pattern.as_bytes());
        assert_eq!((glob.prefix(), glob.is_plain()), (prefix.as_bytes(), plain), "{pattern}");
    }
}

#[test]
fn patterns_made_to_be_slow_are_not() {
    // Backtracking at every star would take practically forever for the first text, and minutes for
    // the others.
    let text = "a".repeat(10 * 1024);
    assert!(!fits(&format!("{}b", "a*".repeat(5 * 1024)), &text));
    assert!(!fits(&format!("{}b", "*?a".repeat(3 * 1024)), &text));
    assert!(!fits(&format!("*{}b*", "[ab]".repeat(5 * 1024)), &text));
    assert!(!fits(&format!("*{}b*", "a".repeat(5 * 1024)), &text));
    assert!(fits(&format!("{}*", "a*".repeat(5 * 1024)), &text));
}

proptest! {
    #[test]
    fn patterns_fit_what_the_naive_twin_fits(pattern in "[ab?*\\\\]{0,8}", text in "[ab*]{0,10}") {
        prop_assert_eq!(
            Glob::new(pattern.as_bytes()).fits(text.as_bytes()),
            naive(pattern.as_bytes(), text.as_bytes())
        );
    }
}

#[test]
fn patterns_end_exactly_at_their_limits() {
    let server = TestServer::build();
    let mut guest = Guest::new(server.address);
    let longest = "[x]".repeat(PATTERN_BYTES_MAX / 3) + "*";
    let longer = longest.clone() + "*";
    for before in [&["KEYS"][..], &["CONFIG", "GET"], &["COMMAND", "LIST", "FILTERBY", "PATTERN"]] {
        let ask = |pattern| [before, &[pattern]].concat();
        assert!(["*0|", "%0|"].contains(&guest.ask(&ask(&longest)).as_str()));
        let answer = guest.ask(&ask(&longer));
        assert!(answer.starts_with("-ERR a pattern has at most"), "{answer}");
    }
    let scan = guest.ask(&["SCAN", "0", "MATCH", &longer]);
    assert!(scan.starts_with("-ERR a pattern has at most"), "{scan}");
    let many = |count| [vec!["CONFIG", "GET"], vec!["nothing"; count]].concat();
    assert_eq!(guest.ask(&many(PATTERNS_MAX)), "*0|");
    let answer = guest.ask(&many(PATTERNS_MAX + 1));
    assert!(answer.starts_with("-ERR at most"), "{answer}");
}
