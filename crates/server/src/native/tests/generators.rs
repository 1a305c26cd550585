//! Tests that the OpenAPI document avoids forms at which client generators drop an operation or its
//! result type. An end-to-end test runs one of these generators.

use super::document;
use serde_json::Value;

/// Returns the references in a schema, at any depth.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            let reference = reference.and_then(|text| text.rsplit('/').next()).map(String::from);
            reference.into_iter().chain(fields.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn openapi_document_avoids_forms_that_client_generators_drop() {
    /// Fails on a cycle of references without an object in it.
    fn assert_acyclic(name: &str, schemas: &Value, way: &mut Vec<String>) {
        assert!(!way.iter().any(|known| known == name), "{way:?} leads back to {name}");
        if schemas[name]["type"] == "object" {
            return;
        }
        way.push(name.into());
        references(&schemas[name]).iter().for_each(|next| assert_acyclic(next, schemas, way));
        way.pop();
    }
    fn walk(schema: &Value) {
        if let Value::Object(fields) = schema {
            let types = fields.get("type").map(Value::to_string).unwrap_or_default();
            let (is_object, is_list) = (types.contains("\"object\""), types.starts_with('['));
            assert!(!(is_object && is_list), "a model or null is `oneOf`: {schema}");
            let has_both = fields.contains_key("properties") && fields.contains_key("anyOf");
            assert!(!has_both, "a model is no union: {schema}");
            fields.values().for_each(walk);
        }
        schema.as_array().into_iter().flatten().for_each(walk);
    }
    let document = document();
    let schemas = &document["components"]["schemas"];
    for name in schemas.as_object().expect("schemas").keys() {
        assert_acyclic(name, schemas, &mut Vec::new());
    }
    walk(&document);
    for operation in document["paths"].as_object().expect("paths").values() {
        let operations = operation.as_object().expect("methods").values();
        for parameter in operations.flat_map(|one| one["parameters"].as_array()).flatten() {
            let schema = &parameter["schema"];
            assert!(schema["type"].is_string() || schema["oneOf"].is_array(), "{parameter}");
        }
    }
}
