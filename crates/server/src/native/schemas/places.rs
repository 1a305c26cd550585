//! Schemas of where buckets live, and of their moves.

use super::{BUCKET_PATTERN, maybe, object};
use base::limits::GROUP_VOTERS_MAX;
use serde_json::{Map, Value, json};

/// All of them; `properties` are a bucket's.
pub fn all(schemas: &mut Map<String, Value>, mut properties: Map<String, Value>) {
    // Group 0 holds no buckets.
    let group = json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX });
    let replicas = json!({ "type": "integer", "minimum": 1, "maximum": GROUP_VOTERS_MAX });
    properties.insert("group".into(), group.clone());
    properties.insert("replicas".into(), replicas);
    let both = json!({ "required": ["group", "replicas"] });
    let new = json!({
        "type": "object", "additionalProperties": false, "properties": properties, "not": both,
    });
    schemas.insert("NewBucket".into(), new);
    schemas.insert("MoveTo".into(), object(json!({ "group": group })));
    let count = json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
    let progress = object(json!({
        "phase": { "enum": ["waiting", "copying", "catching_up", "sealed"] },
        "rows": count, "rows_total": count, "bytes": count, "bytes_total": count,
        "recopied": count, "remaining": count, "waits_for": { "type": "string" },
    }));
    let maybe_group = json!({ "type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX });
    let seen = object(json!({
        "name": { "type": "string", "pattern": BUCKET_PATTERN },
        "group": group, "to": maybe_group, "progress": maybe(progress),
    }));
    schemas.insert("Move".into(), seen);
}
