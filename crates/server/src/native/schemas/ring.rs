//! Schemas of the ring's changes.

use super::{MEMBER_PATTERN, object};
use serde_json::{Map, Value, json};

/// All of them.
pub fn all(schemas: &mut Map<String, Value>) {
    let name = json!({ "type": "string", "pattern": MEMBER_PATTERN });
    // No rack is one of its own.
    let rack = json!({ "anyOf": [name, { "type": "string", "maxLength": 0 }] });
    let maybe_rack = json!({ "anyOf": [rack, { "type": "null" }] });
    let wish = |word: &str, required: &[&str], fields: Value| {
        let mut properties = fields;
        properties["change"] = json!({ "enum": [word] });
        let mut required = required.to_vec();
        required.push("change");
        json!({
            "type": "object", "additionalProperties": false, "required": required,
            "properties": properties,
        })
    };
    let change = json!({ "oneOf": [
        wish("join", &["node"], json!({ "node": name, "rack": maybe_rack })),
        wish("leave", &["node"], json!({ "node": name })),
        wish("replace", &["node", "by"], json!({ "node": name, "by": name, "rack": maybe_rack })),
        wish("rack", &["node", "rack"], json!({ "node": name, "rack": rack })),
        wish("double", &[], json!({})),
        wish("halve", &[], json!({})),
    ] });
    schemas.insert("RingChange".into(), change.clone());
    let count = json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
    let maybe = json!({ "type": ["integer", "null"], "minimum": 0, "maximum": u64::MAX });
    let epoch = json!({
        "type": "object", "additionalProperties": false, "properties": { "epoch": maybe },
    });
    schemas.insert("RingEpoch".into(), epoch);
    let text = json!({ "type": "string" });
    let list = |of: Value| json!({ "type": "array", "items": of });
    let load = object(json!({
        "node": text, "before": maybe, "after": maybe, "replicas_before": count,
        "replicas_after": count,
    }));
    let one = object(json!({ "partition": count, "from": text, "to": text }));
    let plan = object(json!({
        "epoch": count, "changes": list(change), "loads": list(load), "moves": list(one),
        "replicas_sent": count, "replicas": count, "bytes": count, "warnings": list(text.clone()),
        "refused": { "type": ["string", "null"] },
    }));
    schemas.insert("RingPlan".into(), plan);
    let transfer = object(json!({
        "node": text, "receiving": count, "received": count, "rows": count, "bytes": count,
        "bytes_left": maybe, "bytes_per_second": count, "eta_ms": maybe, "clearing": count,
        "waits_for": text,
    }));
    let transfers = object(json!({ "epoch": count, "remaining": count, "nodes": list(transfer) }));
    schemas.insert("RingTransfers".into(), transfers);
}
