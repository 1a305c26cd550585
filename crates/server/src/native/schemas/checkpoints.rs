//! Schemas of checkpoints.

use super::object;
use serde_json::{Map, Value, json};

/// A checkpoint's name.
pub const CHECKPOINT_PATTERN: &str = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$";

/// All of them.
pub fn all(schemas: &mut Map<String, Value>) {
    let target = json!({ "type": "string", "pattern": CHECKPOINT_PATTERN });
    schemas.insert("Target".into(), object(json!({ "target": target })));
    schemas.insert("Checkpoint".into(), object(json!({ "target": { "type": "string" } })));
    let count = |words: &str| json!({ "type": "integer", "minimum": 0, "description": words });
    let stored = object(json!({
        "name": { "type": "string" },
        "complete": {
            "type": "boolean",
            "description": "False if it is being made, or was cut short.",
        },
        "created_ms": count("When it was made, in milliseconds since 1970."),
        "bytes": count("Bytes of all its files; tables that the node still has are shared."),
    }));
    let all = json!({ "type": "array", "items": stored });
    schemas.insert("Checkpoints".into(), object(json!({ "checkpoints": all })));
}
