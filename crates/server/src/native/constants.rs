//! Types of constants in the OpenAPI document.
//!
//! `{"const": "*"}` is complete JSON Schema. But generators of clients drop an operation that has a
//! parameter without a type, so constants, and lists of them, get one.

use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Adds the type to every schema that has constants and no type.
pub fn add_types(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            // A property may be named `const` or `enum`: then its value is a schema.
            let constants = match (fields.get("const"), fields.get("enum")) {
                (Some(constant), _) if !constant.is_object() => std::slice::from_ref(constant),
                (_, Some(Value::Array(list))) => &list[..],
                _ => &[],
            };
            let types: BTreeSet<_> = constants.iter().map(type_of).collect();
            if !types.is_empty() {
                let types = match types.first() {
                    Some(single) if types.len() == 1 => json!(single),
                    _ => json!(types),
                };
                fields.entry("type").or_insert(types);
            }
            fields.values_mut().for_each(add_types);
        }
        Value::Array(items) => items.iter_mut().for_each(add_types),
        _ => {}
    }
}

fn type_of(constant: &Value) -> &'static str {
    match constant {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_constants_get_a_type_and_other_schemas_do_not() {
        let mut schema = json!({
            "const": "*", "oneOf": [{ "enum": ["a", "b"] }, { "enum": [false, null] }],
            "properties": { "const": { "const": 1 }, "enum": { "minimum": 0 }, "x": {} },
            "items": { "type": "string", "enum": ["c"] },
        });
        add_types(&mut schema);
        let expected = json!({
            "const": "*", "type": "string",
            "oneOf": [
                { "enum": ["a", "b"], "type": "string" },
                { "enum": [false, null], "type": ["boolean", "null"] },
            ],
            "properties": {
                "const": { "const": 1, "type": "integer" }, "enum": { "minimum": 0 }, "x": {},
            },
            "items": { "type": "string", "enum": ["c"] },
        });
        assert_eq!(schema, expected);
    }
}
