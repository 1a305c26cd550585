//! Tests of index entries: laws against naive twins, examples, limits and kept bytes.

mod continuation;
mod definitions;
mod documents;
mod entries;
mod golden;
mod key_queries;
mod layout;
mod limits;
mod paths;
mod queries;
mod riak;
mod selection;
mod term_ranges;
mod terms;

use crate::{IndexDefinition, IndexName, IndexNumber, JsonPath, Term, ValueFormat, ValueType};
use proptest::prelude::*;

/// Returns the settings of a property with so many cases; failures are told, not kept in files.
fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(count) }
}

/// Returns byte strings of few, telling bytes: zeros, marks of escapes, and their neighbours.
fn telling_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0), Just(1), Just(2), Just(0xFE), Just(0xFF), Just(b'a')];
    prop::collection::vec(byte, 0..6)
}

/// Returns terms of every kind.
fn any_term() -> impl Strategy<Value = Term> {
    prop_oneof![
        "-?[0-9]{1,30}".prop_map(|text| Term::tag_integer(text.as_bytes()).expect("digits")),
        telling_bytes().prop_map(|bytes| Term::tag_bytes(&bytes).expect("short")),
        any::<i64>().prop_map(Term::int),
        any::<f64>().prop_filter_map("NaN has no term", Term::float),
        ".{0,6}".prop_map(|text| Term::string(&text)),
        (1_000_usize..1_100).prop_map(|length| Term::string(&"é".repeat(length / 2))),
        telling_bytes().prop_map(|bytes| Term::bytes(&bytes)),
        (1_000_usize..1_100).prop_map(|length| Term::bytes(&vec![0; length])),
        any::<bool>().prop_map(Term::bool),
    ]
}

/// Returns a definition over JSON that is neither unique nor strict.
fn definition(number: u32, name: &str, path: &str, value_type: ValueType) -> IndexDefinition {
    IndexDefinition {
        number: IndexNumber(number),
        name: IndexName::parse(name).expect("a name"),
        path: JsonPath::parse(path).expect("a path"),
        value_type,
        format: ValueFormat::Json,
        is_unique: false,
        is_strict: false,
    }
}

/// Returns bytes as hexadecimal text, as the kept examples show them.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
