//! Evaluation of paths: equal to a naive walk over a value tree, in both formats.

use super::cases;
use super::documents::{Document, document};
use crate::{JsonPath, Selection, Selector, Slice, Term, ValueFormat, ValueType, select};
use base::codec::Malformed;
use proptest::prelude::*;
use serde_json::Value;

/// Returns the nodes that a path selects in a value tree, in which the last duplicate has won.
fn naive_nodes<'a>(selectors: &[Selector], node: &'a Value) -> Vec<&'a Value> {
    let Some((selector, rest)) = selectors.split_first() else { return vec![node] };
    let children: Vec<&Value> = match (selector, node) {
        (Selector::Name(name), Value::Object(members)) => members.get(name).into_iter().collect(),
        (Selector::Index(index), Value::Array(nodes)) => {
            nodes.get(*index as usize).into_iter().collect()
        }
        (Selector::FromEnd(distance), Value::Array(nodes)) => {
            let index = nodes.len().checked_sub(*distance as usize);
            index.map(|index| &nodes[index]).into_iter().collect()
        }
        (Selector::Slice(Slice { start, end, step }), Value::Array(nodes)) => {
            let end = end.map_or(nodes.len(), |end| nodes.len().min(end as usize));
            (*start as usize..end).step_by(*step as usize).map(|index| &nodes[index]).collect()
        }
        (Selector::Wildcard, Value::Array(nodes)) => nodes.iter().collect(),
        (Selector::Wildcard, Value::Object(members)) => members.values().collect(),
        _ => Vec::new(),
    };
    children.into_iter().flat_map(|child| naive_nodes(rest, child)).collect()
}

fn naive_term(value_type: ValueType, node: &Value) -> Option<Term> {
    match (value_type, node) {
        (ValueType::Int, Value::Number(number)) => number.as_i64().map(Term::int),
        (ValueType::Float, Value::Number(number)) => number.as_f64().and_then(Term::float),
        (ValueType::String, Value::String(text)) => Some(Term::string(text)),
        (ValueType::Bool, Value::Bool(value)) => Some(Term::bool(*value)),
        _ => None,
    }
}

fn naive_selection(path: &JsonPath, value_type: ValueType, json: &str) -> Selection {
    let tree = serde_json::from_str(json).expect("JSON");
    let nodes = naive_nodes(path.selectors(), &tree);
    let terms: Vec<_> = nodes.iter().filter_map(|node| naive_term(value_type, node)).collect();
    let mistyped = nodes.len() - terms.len();
    Selection {
        nodes: nodes.len() as u64,
        mistyped: mistyped as u64,
        terms: terms.into_iter().collect(),
        is_oversized: false,
    }
}

fn selector() -> impl Strategy<Value = Selector> {
    prop_oneof![
        4 => "[abc]".prop_map(Selector::Name),
        2 => Just(Selector::Wildcard),
        1 => (0_u64..4).prop_map(Selector::Index),
        1 => (1_u64..4).prop_map(Selector::FromEnd),
        1 => (0_u64..3, prop::option::of(0_u64..5), 1_u64..3)
            .prop_map(|(start, end, step)| Selector::Slice(Slice { start, end, step })),
    ]
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn selection_equals_naive_walk_in_both_formats(
        document in document(),
        selectors in prop::collection::vec(selector(), 0..4),
        value_type in prop::sample::select(&ValueType::ALL[..]),
    ) {
        let path = JsonPath::new(selectors);
        let json = document.json();
        let expected = naive_selection(&path, value_type, &json);
        let selection = select(&path, value_type, ValueFormat::Json, json.as_bytes());
        prop_assert_eq!(selection.as_ref(), Ok(&expected), "{} in {}", path, json);
        let mut bytes = Vec::new();
        document.put_message_pack(&mut bytes);
        let selection = select(&path, value_type, ValueFormat::MessagePack, &bytes);
        prop_assert_eq!(selection.as_ref(), Ok(&expected), "{} in {} packed", path, json);
        for end in 0..bytes.len() {
            let cut = select(&path, value_type, ValueFormat::MessagePack, &bytes[..end]);
            prop_assert!(cut.is_err(), "cut at {}", end);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        selectors in prop::collection::vec(selector(), 0..4),
        value_type in prop::sample::select(&ValueType::ALL[..]),
    ) {
        let path = JsonPath::new(selectors);
        for format in ValueFormat::ALL {
            if let Ok(selection) = select(&path, value_type, format, &bytes) {
                prop_assert!(selection.terms.len() as u64 + selection.mistyped <= selection.nodes);
            }
        }
    }
}

fn select_json(path: &str, value_type: ValueType, json: &str) -> Result<Selection, Malformed> {
    let path = JsonPath::parse(path).expect(path);
    select(&path, value_type, ValueFormat::Json, json.as_bytes())
}

fn select_packed(path: &str, value_type: ValueType, bytes: &[u8]) -> Result<Selection, Malformed> {
    let path = JsonPath::parse(path).expect(path);
    select(&path, value_type, ValueFormat::MessagePack, bytes)
}

/// Returns the terms and the number of mistyped nodes.
fn summary(selection: Result<Selection, Malformed>) -> (Vec<Term>, u64) {
    let selection = selection.expect("readable");
    (selection.terms.into_iter().collect(), selection.mistyped)
}

#[test]
fn last_duplicate_member_counts() {
    let int = |json: &str, path: &str| summary(select_json(path, ValueType::Int, json));
    assert_eq!(int(r#"{"a":1,"a":2}"#, "$.a"), (vec![Term::int(2)], 0));
    assert_eq!(int(r#"{"a":{"b":1},"a":{"c":2}}"#, "$.a.b"), (vec![], 0));
    assert_eq!(int(r#"{"a":[1,2],"b":3,"a":4}"#, "$.*"), (vec![Term::int(3), Term::int(4)], 0));
    assert_eq!(int(r#"{"a":1,"\u0061":"x"}"#, "$.a"), (vec![], 1), "names after escapes");
}

#[test]
fn types_do_not_mix() {
    let json = r#"{"v":[1, 1.0, "1", true, null, [1], {"v":1}, 9223372036854775808, 1e2]}"#;
    let terms = |value_type| summary(select_json("$.v[*]", value_type, json));
    assert_eq!(terms(ValueType::Int), (vec![Term::int(1)], 8));
    let float = |number| Term::float(number).expect("a number");
    let floats = vec![float(1.0), float(100.0), float(9_223_372_036_854_775_808.0)];
    assert_eq!(terms(ValueType::Float), (floats, 5));
    assert_eq!(terms(ValueType::String), (vec![Term::string("1")], 8));
    assert_eq!(terms(ValueType::Bool), (vec![Term::bool(true)], 8));
    assert_eq!(terms(ValueType::Bytes), (vec![], 9));
}

#[test]
fn json_that_is_not_one_value_is_refused() {
    for json in ["", " ", "{", r#"{"a":1} 2"#, r#"{"a":}"#, "{'a':1}", "\u{feff}{}", r#"{"a":01}"#]
    {
        assert!(select_json("$.a", ValueType::Int, json).is_err(), "{json}");
    }
    assert!(select_json("$.a", ValueType::Int, " {\"b\" : [1, {}]}\n").is_ok());
}

#[test]
fn parts_beside_the_path_are_checked_for_syntax_alone() {
    let json = r#"{"far":1e999,"a":7}"#;
    assert_eq!(summary(select_json("$.a", ValueType::Int, json)), (vec![Term::int(7)], 0));
    assert!(select_json("$.far", ValueType::Float, json).is_err(), "no number of 64 bits");
}

#[test]
fn message_pack_has_bytes_extensions_and_other_names() {
    // {"a": bin 00 ff}
    let bytes = [0x81, 0xA1, b'a', 0xC4, 2, 0, 0xFF];
    let expected = (vec![Term::bytes(&[0, 0xFF])], 0);
    assert_eq!(summary(select_packed("$.a", ValueType::Bytes, &bytes)), expected);
    assert_eq!(summary(select_packed("$.a", ValueType::String, &bytes)), (vec![], 1));
    // A string that is not UTF-8 counts as bytes.
    let invalid = [0x81, 0xA1, b'a', 0xA1, 0xFF];
    assert_eq!(summary(select_packed("$.a", ValueType::String, &invalid)), (vec![], 1));
    // {"a": extension, nil: 1, 2: 3, [4]: 5, {}: 6, bin "a": 7, extension: 8, "\xff": 9}
    let mixed = [
        &[0x88, 0xA1, b'a', 0xD6, 1, 9, 9, 9, 9, 0xC0, 1, 2, 3, 0x91, 4, 5][..],
        &[0x80, 6, 0xC4, 1, b'a', 7, 0xD4, 1, 1, 8, 0xA1, 0xFF, 9],
    ];
    let mixed = mixed.concat();
    assert_eq!(summary(select_packed("$.a", ValueType::Int, &mixed)), (vec![], 1));
    assert_eq!(summary(select_packed("$.*", ValueType::Int, &mixed)), (vec![], 1));
    // NaN has no term.
    let nan = [&[0xCB][..], &f64::NAN.to_be_bytes()].concat();
    assert_eq!(summary(select_packed("$", ValueType::Float, &nan)), (vec![], 1));
    // A number of 32 bits is the number of 64 bits that it equals.
    let single = [&[0xCA][..], &0.1_f32.to_be_bytes()].concat();
    let term = Term::float(f64::from(0.1_f32)).expect("a number");
    assert_eq!(summary(select_packed("$", ValueType::Float, &single)), (vec![term], 0));
    for trailing in [vec![1, 0xC0], vec![1, 0xC1], vec![0xC1], vec![]] {
        assert!(select_packed("$", ValueType::Int, &trailing).is_err(), "{trailing:?}");
    }
    let claim = [0x81, 0xA1, b'a', 0xDB, 0xFF, 0xFF, 0xFF, 0xFF];
    assert!(select_packed("$.a", ValueType::String, &claim).is_err(), "nothing is allocated");
}

#[test]
fn generated_documents_repeat_members() {
    let tree = Document::Object(vec![
        ("a".into(), Document::Integer(1)),
        ("a".into(), Document::Large(u64::MAX)),
    ]);
    assert_eq!(tree.json(), r#"{"a" : 1, "a" : 18446744073709551615}"#);
}
