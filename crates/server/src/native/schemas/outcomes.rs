//! Schemas of the outcomes of updates.

use super::{object, reference};
use serde_json::{Map, Value, json};

/// Schemas of one kind of reply: references, and the value of `outcome` that selects each.
#[derive(Default)]
struct Family {
    all: Vec<Value>,
    mapping: Map<String, Value>,
}

impl Family {
    /// Adds the outcome with this name and these fields.
    fn add(&mut self, schemas: &mut Map<String, Value>, word: &str, fields: Value) {
        let mut properties = json!({ "outcome": { "const": word } });
        for (name, schema) in fields.as_object().into_iter().flatten() {
            properties[name] = schema.clone();
        }
        let name = format!("Outcome_{word}");
        self.all.push(reference(&name));
        self.mapping.insert(word.into(), format!("#/components/schemas/{name}").into());
        schemas.insert(name, object(properties));
    }

    fn schema(&self) -> Value {
        let discriminator = json!({ "propertyName": "outcome", "mapping": self.mapping });
        json!({ "oneOf": self.all, "discriminator": discriminator })
    }
}

/// Adds all schemas. Each outcome has a name of its own: the outcome of a sequence, whose steps may
/// be sequences, refers to itself, and client generators follow only references between models.
pub(super) fn all(schemas: &mut Map<String, Value>) {
    let count = json!({ "type": "integer", "minimum": 0 });
    let flag = json!({ "type": "boolean" });
    let steps = json!({ "type": "array", "items": reference("StepReply") });
    let mut family = Family::default();
    for (word, fields) in [
        ("done", json!({})),
        ("applied", json!({ "applied": flag })),
        ("existed", json!({ "existed": flag })),
        ("old", json!({ "old": reference("MaybeBytes") })),
        ("swapped", json!({ "written": flag, "old": reference("MaybeBytes") })),
        ("count", json!({ "count": count })),
        ("number", json!({ "number": { "type": "integer" } })),
        ("text", json!({ "text": reference("Bytes") })),
        ("length", json!({ "length": count })),
        ("read", json!({ "read": reference("ReadReply") })),
        ("steps", json!({ "steps": steps })),
        ("applied_at", json!({ "applied_at": count })),
    ] {
        family.add(schemas, word, fields);
    }
    schemas.insert("Updated".into(), family.schema());
    family.add(schemas, "error", json!({ "error": reference("ErrorDetail") }));
    schemas.insert("StepReply".into(), family.schema());
}
