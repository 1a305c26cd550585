//! Schemas of data types.

use super::object;
use api::schema::CONTEXT_PATTERN;
use base::datatype::FieldKind;
use serde_json::{Map, Value, json};

pub(super) fn all(schemas: &mut Map<String, Value>) {
    let context = json!({ "type": "string", "pattern": CONTEXT_PATTERN });
    let kinds = FieldKind::ALL.map(FieldKind::name);
    let typed = object(json!({ "context": context, "type": { "enum": kinds }, "value": {} }));
    schemas.insert("Typed".into(), typed);
    let operation = json!({ "oneOf": [
        { "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX },
        { "enum": ["increment", "decrement"] },
        { "type": "object", "minProperties": 1 },
    ] });
    schemas.insert("TypeOperation".into(), operation);
}
