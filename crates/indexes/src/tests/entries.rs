//! Entries of records: unions, refusals, counts, and laws of their differences.

use super::documents::{Document, document};
use super::{cases, definition};
use crate::{
    DefinitionSet, Derivation, EntryDifference, IndexDefinition, IndexEntry, IndexField,
    IndexNumber, LivingValue, SkipCounts, Term, ValueType, entries, stored_entries,
};
use base::Reason;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeSet;

type Tags = Vec<(Bytes, Bytes)>;

fn set_of(definitions: impl IntoIterator<Item = IndexDefinition>) -> DefinitionSet {
    let mut set = DefinitionSet::default();
    for definition in definitions {
        set.insert(definition).expect("different ones");
    }
    set
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    pairs.iter().map(|(name, text)| (bytes(name), bytes(text))).collect()
}

fn tag(name: &str, term: Term) -> IndexEntry {
    IndexEntry { field: IndexField::tag(name.as_bytes()).expect("a field"), term }
}

fn declared(number: u32, term: Term) -> IndexEntry {
    IndexEntry { field: IndexField::Declared(IndexNumber(number)), term }
}

fn json(tags: &[(Bytes, Bytes)], text: &str) -> base::Result<Derivation> {
    let value = LivingValue { tags, bytes: text.as_bytes() };
    let set = set_of([
        definition(1, "age", "$.age", ValueType::Int),
        definition(2, "tags", "$.tags[*]", ValueType::String),
    ]);
    let derivation = entries(&set, &[value])?;
    assert_eq!(stored_entries(&set, &[value]), derivation);
    Ok(derivation)
}

#[test]
fn tags_and_declared_indexes_of_one_value_are_united() {
    let tags = tags(&[("Colour_BIN", "green"), ("colour_bin", "green"), ("ripe_int", "-7")]);
    let derivation = json(&tags, r#"{"age":30,"tags":["x","y","x"]}"#).expect("fine");
    let expected = BTreeSet::from([
        tag("colour_bin", Term::tag_bytes(b"green").expect("short")),
        tag("ripe_int", Term::tag_integer(b"-7").expect("a number")),
        declared(1, Term::int(30)),
        declared(2, Term::string("x")),
        declared(2, Term::string("y")),
    ]);
    assert_eq!(derivation.entries, expected);
    assert!(derivation.skipped.is_empty());
}

#[test]
fn places_without_an_entry_are_counted_by_reason() {
    let skipped = |text: &str| json(&[], text).expect("nothing is strict").skipped;
    let counts = |number, counts| (IndexNumber(number), counts);
    let absent = SkipCounts { absent: 1, ..SkipCounts::default() };
    assert_eq!(skipped(r#"{"tags":[]}"#), [counts(1, absent)].into());
    let mistyped = |mistyped| SkipCounts { mistyped, ..SkipCounts::default() };
    let text = r#"{"age":"x","tags":[1,"a",null]}"#;
    assert_eq!(skipped(text), [counts(1, mistyped(1)), counts(2, mistyped(2))].into());
    let unreadable = SkipCounts { unreadable: 1, ..SkipCounts::default() };
    assert_eq!(skipped("x"), [counts(1, unreadable), counts(2, unreadable)].into());
}

#[test]
fn siblings_are_united_and_a_record_without_living_values_has_none() {
    let set = set_of([definition(1, "age", "$.age", ValueType::Int)]);
    let tags = [tags(&[("a_bin", "x")]), tags(&[("a_bin", "y")])];
    let values = [
        LivingValue { tags: &tags[0], bytes: br#"{"age":1}"# },
        LivingValue { tags: &tags[1], bytes: br#"{"age":2}"# },
        LivingValue { tags: &tags[0], bytes: b"no JSON" },
    ];
    let derivation = entries(&set, &values).expect("fine");
    let terms: Vec<_> = derivation.entries.iter().map(|entry| entry.term.text()).collect();
    assert_eq!(terms, ["x", "y", "1", "2"].map(Bytes::from));
    assert_eq!(derivation.skipped[&IndexNumber(1)].unreadable, 1);
    assert_eq!(entries(&set, &[]), Ok(Derivation::default()));
}

#[test]
fn strict_index_refuses_values_without_a_term() {
    let strict = |path, value_type| {
        let plain = definition(9, "by-age", path, value_type);
        set_of([IndexDefinition { is_strict: true, ..plain }])
    };
    let derive = |set: &DefinitionSet, bytes: &'static [u8]| {
        entries(set, &[LivingValue { tags: &[], bytes }])
    };
    let singular = strict("$.age", ValueType::Int);
    assert!(derive(&singular, br#"{"age":1}"#).is_ok());
    for value in [&b"x"[..], b"{}", br#"{"age":"1"}"#, br#"{"age":null}"#] {
        let error = derive(&singular, value).expect_err("refused");
        assert_eq!(error.reason, Reason::Malformed);
        assert!(error.text().contains("by-age"), "{error}");
        let stored = stored_entries(&singular, &[LivingValue { tags: &[], bytes: value }]);
        assert!(stored.entries.is_empty(), "a stored value is counted, not refused");
    }
    let several = strict("$.ages[*]", ValueType::Int);
    assert!(derive(&several, br#"{"ages":[]}"#).is_ok(), "several nodes, or none");
    assert!(derive(&several, br#"{"ages":[1,"2"]}"#).is_err());
}

#[test]
fn refused_tags_are_left_out_of_stored_records() {
    for (name, text, reason) in [
        ("a_int", "x", Reason::NotANumber),
        ("a", "x", Reason::Malformed),
        ("a\0_bin", "x", Reason::Malformed),
    ] {
        let tags = tags(&[(name, text), ("b_bin", "y")]);
        let value = LivingValue { tags: &tags, bytes: b"" };
        let error = entries(&DefinitionSet::default(), &[value]).expect_err("refused");
        assert_eq!(error.reason, reason);
        let stored = stored_entries(&DefinitionSet::default(), &[value]);
        let other = tag("b_bin", Term::tag_bytes(b"y").expect("short"));
        assert_eq!(stored.entries, BTreeSet::from([other]));
        assert_eq!(stored.skipped_tags.mistyped, 1);
    }
}

#[test]
fn data_without_definitions_is_not_read() {
    let value = LivingValue { tags: &[], bytes: &[0xFF; 64] };
    assert_eq!(entries(&DefinitionSet::default(), &[value]), Ok(Derivation::default()));
}

fn entry() -> impl Strategy<Value = IndexEntry> {
    (0_u32..3, -3_i64..3).prop_map(|(number, term)| declared(number, Term::int(term)))
}

fn definitions() -> Vec<IndexDefinition> {
    vec![
        definition(1, "a", "$.a", ValueType::Int),
        definition(2, "b", "$.*", ValueType::Float),
        definition(3, "c", "$[-1].a", ValueType::String),
        definition(4, "d", "$[*][*]", ValueType::Bool),
    ]
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn difference_leads_from_before_to_after(
        before in prop::collection::btree_set(entry(), 0..9),
        after in prop::collection::btree_set(entry(), 0..9),
    ) {
        let difference = EntryDifference::between(&before, &after);
        let mut entries = before.clone();
        difference.apply(&mut entries);
        prop_assert_eq!(&entries, &after);
        prop_assert_eq!(difference.is_empty(), before == after);
        prop_assert!(difference.removed.iter().all(|entry| !after.contains(entry)));
        prop_assert!(difference.added.iter().all(|entry| !before.contains(entry)));
        let back = EntryDifference::between(&after, &before);
        prop_assert_eq!((back.removed, back.added), (difference.added, difference.removed));
    }

    #[test]
    fn definitions_and_siblings_do_not_depend_on_each_other(
        documents in prop::collection::vec(
            prop_oneof![document().prop_map(|tree: Document| tree.json()), ".{0,4}"],
            0..4,
        ),
    ) {
        let values: Vec<_> = documents
            .iter()
            .map(|text| LivingValue { tags: &[], bytes: text.as_bytes() })
            .collect();
        let together = stored_entries(&set_of(definitions()), &values);
        let mut united = BTreeSet::new();
        for definition in definitions() {
            let number = definition.number;
            let set = set_of([definition]);
            for value in &values {
                united.append(&mut stored_entries(&set, &[*value]).entries);
            }
            let alone = stored_entries(&set, &values);
            prop_assert_eq!(alone.skipped.get(&number), together.skipped.get(&number));
        }
        prop_assert_eq!(&united, &together.entries);
        let mut reversed = values.clone();
        reversed.reverse();
        prop_assert_eq!(stored_entries(&set_of(definitions()), &reversed), together);
    }
}
