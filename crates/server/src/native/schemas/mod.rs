//! Schemas of the OpenAPI document. Those of the control plane come from the structs of `api`,
//! those of steps from the table of operations; this folder has those of rows.
//!
//! Promises: every schema that a route names exists.
//! Never: allows more than the front-end reads or writes: `additionalProperties` is always false.
//! Read next: `outcomes.rs`.

mod datatypes;
mod outcomes;
pub mod sessions;

use super::json::fields::StepField;
use super::json::operations::{AllowedIn, JsonOperation, OPERATIONS};
use base::limits::{KEYS_PER_READ_MAX, PAGE_ROWS_MAX, SEQUENCE_STEPS_MAX, TTL_MS_MAX};
use serde_json::{Map, Value, json};

/// Pattern of a bucket's full name, whose type may be omitted if it is `default`.
pub const SHORT_BUCKET_PATTERN: &str =
    "^([a-z0-9][a-z0-9_-]{0,62}/)?[A-Za-z0-9_~%-][A-Za-z0-9._~%-]{0,254}$";
/// Pattern of a context in requests: either alphabet of base64, with padding or without.
pub const ANY_CONTEXT_PATTERN: &str = "^([A-Za-z0-9+/_-]{4})*\
    ([A-Za-z0-9+/_-][AQgw](==)?|[A-Za-z0-9+/_-]{2}[AEIMQUYcgkosw048]=?)?$";

/// Returns the schema of a time to live.
pub fn ttl() -> Value {
    json!({ "oneOf": [
        { "type": "integer", "minimum": 0, "maximum": TTL_MS_MAX },
        { "enum": ["keep", "never", "default"] },
    ] })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Returns a schema that also allows null. A list of types would mean the same, but client
/// generators create no model of an object for it.
fn nullable(schema: Value) -> Value {
    json!({ "oneOf": [schema, { "type": "null" }] })
}

fn object(properties: Value) -> Value {
    let required: Vec<&String> =
        properties.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    json!({ "type": "object", "required": required, "properties": properties.clone(),
        "additionalProperties": false })
}

/// Returns all schemas by name.
pub fn all(sections: &[String]) -> Value {
    let mut schemas = api::schema::all();
    requests(&mut schemas);
    schemas.insert("LogLevels".into(), log_levels(sections));
    steps(&mut schemas, "Update", AllowedIn::Reads);
    steps(&mut schemas, "Read", AllowedIn::Updates);
    replies(&mut schemas);
    outcomes::all(&mut schemas);
    sessions::all(&mut schemas);
    datatypes::all(&mut schemas);
    Value::Object(schemas)
}

fn requests(schemas: &mut Map<String, Value>) {
    schemas.insert("MaybeBytes".into(), nullable(reference("Bytes")));
    let steps = json!({
        "type": "array", "items": reference("Update"), "maxItems": SEQUENCE_STEPS_MAX,
    });
    let modes = ["all_or_nothing", "synced", "each_alone", "batch"];
    let mode = json!({ "enum": modes, "default": "all_or_nothing" });
    schemas.insert("Steps".into(), steps);
    schemas.insert("Mode".into(), mode);
    schemas.insert(
        "Sequence".into(),
        json!({ "oneOf": [
        reference("Steps"),
        { "type": "object", "required": ["steps"], "additionalProperties": false,
          "properties": { "steps": reference("Steps"), "mode": reference("Mode") } },
    ] }),
    );
    let keys = json!({
        "type": "array", "items": reference("Bytes"), "maxItems": KEYS_PER_READ_MAX,
    });
    schemas.insert("Keys".into(), keys);
    schemas.insert(
        "MultiGet".into(),
        json!({
            "type": "object", "required": ["keys"], "additionalProperties": false,
            "properties": { "keys": reference("Keys"), "require_all": { "type": "boolean" } },
        }),
    );
    schemas.insert("Prefix".into(), object(json!({ "prefix": reference("Bytes") })));
}

/// Returns the schema of log levels by section; in a change, `all` means every section.
fn log_levels(sections: &[String]) -> Value {
    let mut properties = Map::new();
    for section in sections.iter().map(String::as_str).chain(["all"]) {
        let levels = ["off", "error", "warn", "info", "debug", "trace"];
        properties.insert(section.into(), json!({ "enum": levels }));
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// Adds a schema for each operation allowed in this list, and one for all of them.
fn steps(schemas: &mut Map<String, Value>, family: &str, excluded: AllowedIn) {
    let mut all = Vec::new();
    let mut mapping = Map::new();
    for operation in &OPERATIONS {
        let is_read = operation.allowed_in != AllowedIn::Updates;
        if operation.allowed_in == excluded || (family == "Read" && !is_read) {
            continue;
        }
        let name = format!("{family}_{}", operation.op);
        schemas.insert(name.clone(), step(operation));
        mapping.insert(operation.op.into(), format!("#/components/schemas/{name}").into());
        all.push(reference(&name));
    }
    let discriminator = json!({ "propertyName": "op", "mapping": mapping });
    schemas.insert(family.into(), json!({ "oneOf": all, "discriminator": discriminator }));
}

fn step(operation: &JsonOperation) -> Value {
    let mut properties = Map::new();
    let mut required = vec![json!("op")];
    properties.insert("op".into(), json!({ "const": operation.op }));
    for field in operation.required {
        properties.insert(field.name().into(), field_schema(operation.op, *field));
        required.push(field.name().into());
    }
    for field in operation.optional {
        properties.insert(field.name().into(), field_schema(operation.op, *field));
    }
    json!({ "type": "object", "description": operation.doc, "required": required,
        "properties": properties, "additionalProperties": false })
}

fn field_schema(operation: &str, field: StepField) -> Value {
    let version = json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
    match (field, operation) {
        (
            StepField::Key
            | StepField::Value
            | StepField::Prefix
            | StepField::From
            | StepField::To
            | StepField::After,
            _,
        ) => reference("Bytes"),
        (StepField::Expected | StepField::Wanted, _) => reference("MaybeBytes"),
        (StepField::Ttl, _) => ttl(),
        (StepField::When, "set_if") => json!({ "enum": ["always", "absent", "present"] }),
        (StepField::When, _) => json!({ "enum": ["always", "absent"], "default": "always" }),
        (StepField::Version, "assert_version") => json!({ "oneOf": [version, { "type": "null" }] }),
        (StepField::Version, _) => version,
        (StepField::Missing, _) => json!({ "enum": ["skipped", "fails"], "default": "skipped" }),
        (StepField::Keys, _) => reference("Keys"),
        (StepField::Delta, "add_float") => json!({ "type": "number" }),
        (StepField::Delta, _) => {
            json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX })
        }
        (StepField::Offset, _) => json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX }),
        (StepField::OnlyWhen, _) => json!({
            "enum": ["always", "has_none", "has_one", "later", "sooner", "has_later"],
            "default": "always" }),
        (StepField::Steps, _) => reference("Steps"),
        (StepField::Mode, _) => reference("Mode"),
        (
            StepField::RequireAll
            | StepField::FromExclusive
            | StepField::ToInclusive
            | StepField::Reverse,
            _,
        ) => {
            json!({ "type": "boolean", "default": false })
        }
        (StepField::Limit, _) => {
            json!({ "type": "integer", "minimum": 1, "maximum": PAGE_ROWS_MAX })
        }
        (StepField::Want, _) => json!({ "enum": ["keys", "entries"], "default": "entries" }),
        (StepField::Op, _) => json!({ "type": "string" }),
    }
}

fn replies(schemas: &mut Map<String, Value>) {
    schemas.insert(
        "ReadReply".into(),
        json!({ "oneOf": [
        object(json!({ "row": nullable(reference("Row")) })),
        reference("Rows"), reference("Page"), reference("Count"),
        object(json!({ "done": { "const": true } })),
    ] }),
    );
}
