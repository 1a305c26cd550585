//! Deepest nesting of values.

use crate::limits::MESSAGE_PACK_NESTING_MAX;
use crate::{JsonPath, ValueFormat, ValueType, select};

#[test]
fn message_pack_is_nested_up_to_its_limit() {
    let path = JsonPath::parse("$.a").expect("a path");
    let nested = |depth: usize| [&vec![0x91; depth][..], &[1]].concat();
    let read = |bytes: &[u8]| select(&path, ValueType::Int, ValueFormat::MessagePack, bytes);
    assert!(read(&nested(MESSAGE_PACK_NESTING_MAX)).is_ok());
    assert!(read(&nested(MESSAGE_PACK_NESTING_MAX + 1)).is_err());
    assert!(read(&nested(4_000_000)).is_err());
}

#[test]
fn json_beside_the_path_is_nested_at_any_depth() {
    let path = JsonPath::parse("$.a").expect("a path");
    let depth = 1_000_000;
    let deep = ["[".repeat(depth), "]".repeat(depth)].concat();
    let json = format!(r#"{{"deep":{deep},"a":7,"b":{deep}}}"#);
    let selection = select(&path, ValueType::Int, ValueFormat::Json, json.as_bytes());
    assert_eq!(selection.expect("readable").terms.len(), 1);
    let open = "[".repeat(depth);
    assert!(select(&path, ValueType::Int, ValueFormat::Json, open.as_bytes()).is_err());
}

#[test]
fn deep_value_at_the_end_of_the_path_is_mistyped() {
    let path = JsonPath::parse("$.a").expect("a path");
    let depth = 1_000_000;
    let json = format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let selection = select(&path, ValueType::Int, ValueFormat::Json, json.as_bytes());
    assert_eq!(selection.expect("readable").mistyped, 1);
}
