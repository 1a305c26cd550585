//! Paths: texts that are read, texts that are refused with a position, and the form kept of them.

use super::cases;
use crate::{JsonPath, Selector, Slice};
use base::Reason;
use proptest::prelude::*;

fn name(name: &str) -> Selector {
    Selector::Name(name.into())
}

fn slice(start: u64, end: Option<u64>, step: u64) -> Selector {
    Selector::Slice(Slice { start, end, step })
}

#[test]
fn paths_are_read_and_shown_in_one_form() {
    let examples = [
        ("$", "$", vec![]),
        ("$.a.b[*].c", "$.a.b[*].c", vec![name("a"), name("b"), Selector::Wildcard, name("c")]),
        ("$['a']", "$.a", vec![name("a")]),
        ("$[\"a b\"]", "$['a b']", vec![name("a b")]),
        ("$.*", "$[*]", vec![Selector::Wildcard]),
        ("$[0]", "$[0]", vec![Selector::Index(0)]),
        ("$[-1]", "$[-1]", vec![Selector::FromEnd(1)]),
        ("$[1:5:2]", "$[1:5:2]", vec![slice(1, Some(5), 2)]),
        ("$[:]", "$[0:]", vec![slice(0, None, 1)]),
        ("$[:3]", "$[0:3]", vec![slice(0, Some(3), 1)]),
        ("$[ 2 : : 3 ]", "$[2::3]", vec![slice(2, None, 3)]),
        ("$ .a [ 'b' ]", "$.a.b", vec![name("a"), name("b")]),
        ("$.größe_1", "$.größe_1", vec![name("größe_1")]),
        ("$['']", "$['']", vec![name("")]),
        ("$['1a']", "$['1a']", vec![name("1a")]),
        ("$[\"'\\\"\\\\\\/\\n\\u00e9\"]", "$['\\'\"\\\\/\\né']", vec![name("'\"\\/\né")]),
        ("$['\\u0001\\uD83D\\uDE00']", "$['\\u0001😀']", vec![name("\u{1}😀")]),
        ("$[9007199254740991]", "$[9007199254740991]", vec![Selector::Index((1 << 53) - 1)]),
    ];
    for (text, shown, selectors) in examples {
        let path = JsonPath::parse(text).expect(text);
        assert_eq!(path.selectors(), selectors, "{text}");
        assert_eq!(path.to_string(), shown, "{text}");
        assert_eq!(JsonPath::parse(shown), Ok(path), "{text}");
    }
}

#[test]
fn refused_paths_name_the_byte() {
    let malformed = [
        ("", 0),
        ("a", 0),
        ("$a", 1),
        ("$ ", 2),
        ("$.", 2),
        ("$. a", 2),
        ("$.1a", 2),
        ("$.a-b", 3),
        ("$[", 2),
        ("$[]", 2),
        ("$[a]", 2),
        ("$[1", 3),
        ("$[01]", 2),
        ("$[-0]", 3),
        ("$[-]", 3),
        ("$[1 2]", 4),
        ("$[1:2:3:4]", 7),
        ("$['a]", 5),
        ("$['a\n']", 4),
        ("$['\\x']", 4),
        ("$['\\\"']", 4),
        ("$['\\u12']", 7),
        ("$['\\uD800']", 5),
        ("$['\\uD800\\n']", 5),
        ("$['\\uD800\\u0041']", 5),
        ("$['\\uDC00']", 5),
        ("$[9007199254740992]", 2),
        ("$.a.é.", 7),
    ];
    for (text, at) in malformed {
        let error = JsonPath::parse(text).expect_err(text);
        assert_eq!(error.reason, Reason::Malformed, "{text}: {error}");
        assert!(error.text().contains(&format!("at byte {at}:")), "{text}: {error}");
    }
    let not_supported = [
        ("$..a", 2),
        ("$..*", 2),
        ("$.a..[0]", 4),
        ("$[?@.a]", 2),
        ("$['a','b']", 5),
        ("$[0, 1]", 3),
        ("$[-2:]", 2),
        ("$[:-1]", 2),
        ("$[::-1]", 2),
        ("$[::0]", 2),
    ];
    for (text, at) in not_supported {
        let error = JsonPath::parse(text).expect_err(text);
        assert_eq!(error.reason, Reason::NotSupported, "{text}: {error}");
        assert!(error.text().contains(&format!("at byte {at}:")), "{text}: {error}");
    }
}

#[test]
fn singular_paths_have_no_wildcard_and_no_slice() {
    for (text, is_singular) in
        [("$", true), ("$.a[0][-1]", true), ("$.a[*]", false), ("$[0:1]", false), ("$.*.a", false)]
    {
        assert_eq!(JsonPath::parse(text).expect(text).is_singular(), is_singular, "{text}");
    }
}

fn selector() -> impl Strategy<Value = Selector> {
    prop_oneof![
        "[a-z_]{1,4}".prop_map(Selector::Name),
        "[\u{0}-\u{20}'\"\\\\a😀é\u{7f}]{0,4}".prop_map(Selector::Name),
        (0_u64..1 << 53).prop_map(Selector::Index),
        (1_u64..=64).prop_map(Selector::FromEnd),
        (0_u64..9, prop::option::of(0_u64..9), 1_u64..4)
            .prop_map(|(start, end, step)| slice(start, end, step)),
        Just(Selector::Wildcard),
    ]
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn paths_round_trip(selectors in prop::collection::vec(selector(), 0..6)) {
        let path = JsonPath::new(selectors);
        prop_assert_eq!(JsonPath::parse(&path.to_string()), Ok(path));
    }

    #[test]
    fn any_text_is_read_or_refused(
        text in prop_oneof!["\\$?[.*\\[\\]'\"\\\\ua0-9:, é-]{0,12}", ".{0,8}"],
    ) {
        if let Ok(path) = JsonPath::parse(&text) {
            prop_assert_eq!(JsonPath::parse(&path.to_string()), Ok(path));
        }
    }
}
