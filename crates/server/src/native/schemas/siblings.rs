//! Schemas of available buckets: siblings, contexts, data types, pages of keys.

use super::{CONTEXT_PATTERN, object, reference};
use base::datatype::FieldKind;
use base::limits::PAGE_ROWS_MAX;
use serde_json::{Map, Value, json};

pub(super) fn all(schemas: &mut Map<String, Value>) {
    let context = || json!({ "type": "string", "pattern": CONTEXT_PATTERN });
    let list = |length: usize| {
        let bytes = reference("Bytes");
        let items = json!({
            "type": "array", "items": bytes, "minItems": length, "maxItems": length,
        });
        json!({ "type": "array", "items": items })
    };
    let sibling = json!({
        "type": "object", "required": ["value", "vtag", "written_ms"],
        "additionalProperties": false,
        "properties": {
            "value": reference("MaybeBytes"),
            "vtag": { "type": "string", "pattern": "^[0-9A-Za-z]{22}$" },
            "written_ms": { "type": "integer", "minimum": 0 },
            "content_type": reference("Bytes"),
            "charset": reference("Bytes"),
            "encoding": reference("Bytes"),
            "meta": list(2),
            "indexes": list(2),
            "links": list(3),
        },
    });
    schemas.insert("Sibling".into(), sibling);
    let siblings = json!({ "type": "array", "items": reference("Sibling") });
    schemas
        .insert("Siblings".into(), object(json!({ "context": context(), "siblings": siblings })));
    schemas.insert("Stored".into(), object(json!({ "context": context() })));
    let keys = json!({ "type": "array", "items": reference("Bytes"), "maxItems": PAGE_ROWS_MAX });
    let page = json!({
        "keys": keys, "more": { "type": "boolean" }, "continue": reference("MaybeBytes"),
    });
    schemas.insert("KeyPage".into(), object(page));
    let kinds = FieldKind::ALL.map(FieldKind::word);
    let typed = object(json!({ "context": context(), "type": { "enum": kinds }, "value": {} }));
    schemas.insert("Typed".into(), typed);
    let operation = json!({ "oneOf": [
        { "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX },
        { "enum": ["increment", "decrement"] },
        { "type": "object", "minProperties": 1 },
    ] });
    schemas.insert("TypeOperation".into(), operation);
}
