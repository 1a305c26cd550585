//! The schemas of the OpenAPI document; those of steps are made from the table of operations.
//!
//! Promises: every schema that a route names is here.
//! Never: says more than the front-end reads or writes: `additionalProperties` is false throughout.
//! Read next: `cluster.rs`.

mod checkpoints;
mod cluster;
mod outcomes;
mod places;
mod ring;
pub mod sessions;
mod siblings;
mod status;

use super::json::fields::StepField;
use super::json::operations::{AllowedIn, JsonOperation, OPERATIONS};
use base::Reason;
use base::limits::{KEYS_PER_READ_MAX, PAGE_ROWS_MAX, SEQUENCE_STEPS_MAX, TTL_MS_MAX};
use base::properties::{PROPERTIES, Property, PropertyShape};
pub use checkpoints::CHECKPOINT_PATTERN;
use serde_json::{Map, Value, json};

/// A bucket's full name.
pub const BUCKET_PATTERN: &str =
    "^[a-z0-9][a-z0-9_-]{0,62}/[A-Za-z0-9_~%-][A-Za-z0-9._~%-]{0,254}$";
/// The same, whose type may be left out if it is `default`.
pub const SHORT_BUCKET_PATTERN: &str =
    "^([a-z0-9][a-z0-9_-]{0,62}/)?[A-Za-z0-9_~%-][A-Za-z0-9._~%-]{0,254}$";
/// Standard base64 with padding, in its one form.
pub const BASE64_PATTERN: &str =
    "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

/// A context as it is given out: URL-safe base64 without padding.
pub const CONTEXT_PATTERN: &str =
    "^([A-Za-z0-9_-]{4})*([A-Za-z0-9_-][AQgw]|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048])?$";
/// A context as it is taken: either alphabet of base64, with padding or without.
pub const ANY_CONTEXT_PATTERN: &str = "^([A-Za-z0-9+/_-]{4})*\
    ([A-Za-z0-9+/_-][AQgw](==)?|[A-Za-z0-9+/_-]{2}[AEIMQUYcgkosw048]=?)?$";

/// A member's name.
pub const MEMBER_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$";

/// A time to live.
pub fn ttl() -> Value {
    json!({ "oneOf": [
        { "type": "integer", "minimum": 0, "maximum": TTL_MS_MAX },
        { "enum": ["keep", "never", "default"] },
    ] })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A schema that null fits, too. A list of types would say the same, but of an object generators of
/// clients then make no model.
fn maybe(schema: Value) -> Value {
    json!({ "oneOf": [schema, { "type": "null" }] })
}

fn object(properties: Value) -> Value {
    let required: Vec<&String> =
        properties.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    json!({ "type": "object", "required": required, "properties": properties.clone(),
        "additionalProperties": false })
}

/// All schemas by name.
pub fn all(sections: &[String]) -> Value {
    let mut schemas = Map::new();
    requests(&mut schemas);
    schemas.insert("LogLevels".into(), log_levels(sections));
    steps(&mut schemas, "Update", AllowedIn::Reads);
    steps(&mut schemas, "Read", AllowedIn::Updates);
    replies(&mut schemas);
    outcomes::all(&mut schemas);
    status::all(&mut schemas);
    checkpoints::all(&mut schemas);
    cluster::all(&mut schemas);
    ring::all(&mut schemas);
    sessions::all(&mut schemas);
    siblings::all(&mut schemas);
    Value::Object(schemas)
}

fn requests(schemas: &mut Map<String, Value>) {
    let bytes = json!({ "oneOf": [
        { "type": "string" },
        object(json!({ "base64": { "type": "string", "pattern": BASE64_PATTERN } })),
    ] });
    schemas.insert("Bytes".into(), bytes);
    schemas.insert("MaybeBytes".into(), maybe(reference("Bytes")));
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
    schemas.insert("EmptyPrefix".into(), empty_prefix());
    schemas.insert("Emptied".into(), emptied());
    let mut properties = Map::new();
    for property in &PROPERTIES {
        properties.insert(property.name.into(), property_schema(property));
    }
    schemas.insert(
        "Properties".into(),
        json!({ "type": "object", "additionalProperties": false, "properties": &properties }),
    );
    places::all(schemas, properties);
}

/// A part of a prefix that is to be emptied.
fn empty_prefix() -> Value {
    json!({
        "type": "object", "required": ["prefix"], "additionalProperties": false,
        "properties": { "prefix": reference("Bytes"), "continue": continuation() },
    })
}

/// How far it came.
fn emptied() -> Value {
    object(json!({ "removed": { "type": "integer", "minimum": 0 }, "continue": continuation() }))
}

fn continuation() -> Value {
    json!({ "oneOf": [{ "type": "string", "pattern": "^[A-Za-z0-9_-]*$" }, { "type": "null" }] })
}

/// Levels by section; `all` stands for every section when levels are changed.
fn log_levels(sections: &[String]) -> Value {
    let mut properties = Map::new();
    for section in sections.iter().map(String::as_str).chain(["all"]) {
        let levels = ["off", "error", "warn", "info", "debug", "trace"];
        properties.insert(section.into(), json!({ "enum": levels }));
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn property_schema(property: &Property) -> Value {
    let mut schema = match property.shape {
        PropertyShape::Word(words) => json!({ "enum": words }),
        PropertyShape::Number(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        PropertyShape::Quorum => json!({ "anyOf": [
            { "enum": ["one", "quorum", "all"] },
            { "type": "integer", "minimum": 0, "maximum": 255 },
        ] }),
        PropertyShape::Flag => json!({ "type": "boolean" }),
    };
    schema["description"] = property.doc.into();
    schema
}

/// A schema for each operation that may stand here, and one for all of them.
fn steps(schemas: &mut Map<String, Value>, family: &str, but: AllowedIn) {
    let mut all = Vec::new();
    let mut mapping = Map::new();
    for operation in &OPERATIONS {
        let is_read = operation.place != AllowedIn::Updates;
        if operation.place == but || (family == "Read" && !is_read) {
            continue;
        }
        let name = format!("{family}_{}", operation.word);
        schemas.insert(name.clone(), step(operation));
        mapping.insert(operation.word.into(), format!("#/components/schemas/{name}").into());
        all.push(reference(&name));
    }
    let discriminator = json!({ "propertyName": "op", "mapping": mapping });
    schemas.insert(family.into(), json!({ "oneOf": all, "discriminator": discriminator }));
}

fn step(operation: &JsonOperation) -> Value {
    let mut properties = Map::new();
    let mut required = vec![json!("op")];
    properties.insert("op".into(), json!({ "const": operation.word }));
    for field in operation.needs {
        properties.insert(field.name().into(), field_schema(operation.word, *field));
        required.push(field.name().into());
    }
    for field in operation.may {
        properties.insert(field.name().into(), field_schema(operation.word, *field));
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
    let count = json!({ "type": "integer", "minimum": 0 });
    let words: Vec<&str> = Reason::ALL.iter().map(|reason| reason.word()).collect();
    let kinds = ["invalid", "denied", "conflict", "unavailable", "unknown", "corrupt"];
    let detail = object(json!({
        "reason": { "enum": words }, "kind": { "enum": kinds }, "detail": reference("Bytes"),
    }));
    schemas.insert("ErrorDetail".into(), detail);
    schemas.insert("Error".into(), object(json!({ "error": reference("ErrorDetail") })));
    schemas.insert(
        "Row".into(),
        json!({
            "type": "object", "required": ["value", "version"], "additionalProperties": false,
            "properties": {
                "value": reference("Bytes"), "version": count, "expires_in_ms": count },
        }),
    );
    let maybe_row = maybe(reference("Row"));
    let rows = object(json!({ "rows": { "type": "array", "items": maybe_row.clone() } }));
    schemas.insert("Rows".into(), rows);
    schemas.insert(
        "Entry".into(),
        json!({
            "type": "object", "required": ["key"], "additionalProperties": false,
            "properties": { "key": reference("Bytes"), "value": reference("Bytes"),
                "version": count, "expires_in_ms": count },
        }),
    );
    schemas.insert(
        "Page".into(),
        object(json!({
            "entries": { "type": "array", "items": reference("Entry") },
            "more": { "type": "boolean" }, "continue": reference("MaybeBytes"),
        })),
    );
    schemas.insert("Count".into(), object(json!({ "count": count })));
    schemas.insert(
        "ReadReply".into(),
        json!({ "oneOf": [
        object(json!({ "row": maybe_row })),
        reference("Rows"), reference("Page"), reference("Count"),
        object(json!({ "done": { "const": true } })),
    ] }),
    );
    let mut bucket = object(json!({
        "name": { "type": "string", "pattern": BUCKET_PATTERN },
        "id": count, "group": count, "properties": reference("Properties"),
    }));
    bucket["properties"]["moves_to"] = object(json!({ "group": count, "id": count }));
    schemas.insert("BucketReply".into(), bucket);
    schemas.insert(
        "Buckets".into(),
        object(json!({
            "buckets": { "type": "array", "items": reference("BucketReply") },
            "more": { "type": "boolean" },
            "continue": { "type": ["string", "null"] },
        })),
    );
    let of_type = object(json!({
        "name": { "type": "string" }, "properties": reference("Properties"),
    }));
    schemas
        .insert("Types".into(), object(json!({ "types": { "type": "array", "items": of_type } })));
}
