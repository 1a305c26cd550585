//! Definitions: names, bytes, and sets of them.

use super::{cases, definition};
use crate::{
    DefinitionSet, IndexDefinition, IndexName, IndexNumber, JsonPath, ValueFormat, ValueType,
};
use base::{Consistency, Reason};
use proptest::prelude::*;

#[test]
fn names_are_plain_and_not_those_of_tags() {
    let longest = "x".repeat(63);
    for name in ["a", "0", "by-name", "by_name", "int", "bin", "_int"[1..].as_ref(), &longest] {
        assert_eq!(IndexName::parse(name).expect(name).as_str(), name);
    }
    let longer = "x".repeat(64);
    for name in ["", "A", "_a", "-a", "a b", "é", "$key", "age_int", "x_bin", "a.b", &longer] {
        let error = IndexName::parse(name).expect_err(name);
        assert_eq!(error.reason, Reason::Malformed, "{name}");
    }
}

fn any_definition() -> impl Strategy<Value = IndexDefinition> {
    let value_type = prop::sample::select(&ValueType::ALL[..]);
    let paths = ["$", "$.a.b[*].c", "$['x y'][-3]", "$[2:9:4].*"];
    (
        any::<u32>(),
        "[a-z][a-z-]{0,20}",
        prop::sample::select(paths.to_vec()),
        value_type,
        any::<[bool; 3]>(),
    )
        .prop_map(|(number, name, path, value_type, [is_json, is_unique, is_strict])| {
            let is_json = is_json && value_type != ValueType::Bytes;
            IndexDefinition {
                format: if is_json { ValueFormat::Json } else { ValueFormat::MessagePack },
                is_unique,
                is_strict,
                ..definition(number, &name, path, value_type)
            }
        })
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn definitions_round_trip_in_one_form(
        definition in any_definition(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = definition.encode();
        prop_assert_eq!(IndexDefinition::decode(&bytes), Ok(definition));
        for end in 0..bytes.len() {
            prop_assert!(IndexDefinition::decode(&bytes[..end]).is_err(), "cut at {}", end);
        }
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(other) = IndexDefinition::decode(&bytes) {
            prop_assert_eq!(other.encode(), bytes);
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(definition) = IndexDefinition::decode(&bytes) {
            prop_assert_eq!(definition.encode(), bytes);
        }
    }
}

#[test]
fn definition_with_a_path_in_another_form_is_malformed() {
    let bytes = definition(1, "a", "$.b", ValueType::Int).encode();
    let front = &bytes[..bytes.len() - 7];
    let other = [front, &[6, 0, 0, 0], b"$['b']"].concat();
    assert!(IndexDefinition::decode(&other).is_err());
    assert!(JsonPath::parse("$['b']").is_ok());
}

#[test]
fn definitions_are_checked_against_format_and_bucket() {
    let plain = definition(1, "a", "$.a", ValueType::Int);
    assert_eq!(plain.check(Consistency::Available), Ok(()));
    let unique = IndexDefinition { is_unique: true, ..plain.clone() };
    assert_eq!(unique.check(Consistency::Consistent), Ok(()));
    let error = unique.check(Consistency::Available).expect_err("siblings");
    assert_eq!(error.reason, Reason::NotSupported);
    let bytes = IndexDefinition { value_type: ValueType::Bytes, ..plain };
    let error = bytes.check(Consistency::Consistent).expect_err("JSON has no bytes");
    assert_eq!(error.reason, Reason::Malformed);
    let packed = IndexDefinition { format: ValueFormat::MessagePack, ..bytes.clone() };
    assert_eq!(packed.check(Consistency::Consistent), Ok(()));
    assert!(IndexDefinition::decode(&bytes.encode()).is_err(), "such a definition is never kept");
}

#[test]
fn set_has_each_name_and_number_once() {
    let mut set = DefinitionSet::default();
    assert!(set.is_empty());
    set.insert(definition(7, "a", "$.a", ValueType::Int)).expect("the first");
    set.insert(definition(3, "b", "$.b", ValueType::Int)).expect("another");
    for taken in
        [definition(8, "a", "$.c", ValueType::Int), definition(7, "c", "$", ValueType::Int)]
    {
        let error = set.insert(taken).expect_err("taken");
        assert_eq!(error.reason, Reason::AlreadyExists);
    }
    let numbers: Vec<_> = set.iter().map(|each| each.number).collect();
    assert_eq!(numbers, [IndexNumber(3), IndexNumber(7)]);
    assert_eq!(set.by_name("a").map(|each| each.number), Some(IndexNumber(7)));
    assert_eq!(set.remove(IndexNumber(7)).map(|each| each.name.to_string()), Some("a".into()));
    assert_eq!((set.get(IndexNumber(7)), set.by_name("a")), (None, None));
}

#[test]
fn names_of_types_and_formats_are_read_back() {
    for each in ValueType::ALL {
        assert_eq!(ValueType::parse(each.name()), Ok(each));
    }
    for each in ValueFormat::ALL {
        assert_eq!(ValueFormat::parse(each.name()), Ok(each));
    }
    assert!(ValueType::parse("INT").is_err() && ValueFormat::parse("xml").is_err());
}
