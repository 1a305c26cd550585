//! Buckets and their types: properties, where buckets live, and their moves.

use crate::number::Integer;
use crate::schema::{BUCKET_PATTERN, BucketGroup, one_of};
use base::limits::GROUP_VOTERS_MAX;
use base::properties::{PROPERTIES, Properties, Property, PropertyShape};
use base::reply::BucketDescription;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Properties of a bucket or a bucket type, by name. Values are numbers, strings or booleans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BucketProperties(pub Map<String, Value>);

impl BucketProperties {
    /// Returns a property as text. `None`: there is no such property.
    pub fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(value_text)
    }

    /// Returns all properties as texts.
    pub fn texts(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value_text(value)))
    }
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

impl From<&Properties> for BucketProperties {
    fn from(properties: &Properties) -> BucketProperties {
        let value = |Property { get, shape, .. }: &Property| {
            let text = get(properties);
            match text.parse::<u64>() {
                Ok(number) => number.into(),
                Err(_) if *shape == PropertyShape::Flag => (text == "true").into(),
                Err(_) => Value::from(text),
            }
        };
        let applicable = properties.applicable();
        BucketProperties(
            applicable.map(|property| (property.name.into(), value(property))).collect(),
        )
    }
}

impl JsonSchema for BucketProperties {
    fn schema_name() -> Cow<'static, str> {
        "Properties".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "properties": property_schemas() })
    }
}

fn property_schemas() -> Map<String, Value> {
    PROPERTIES.iter().map(|property| (property.name.into(), property_schema(property))).collect()
}

fn property_schema(property: &Property) -> Value {
    let mut schema = match property.shape {
        PropertyShape::Word(values) => json!({ "enum": values }),
        PropertyShape::Number(min, max) => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
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

/// Bucket to create: its properties, and optionally `group` or `replicas`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NewBucket(pub Map<String, Value>);

impl JsonSchema for NewBucket {
    fn schema_name() -> Cow<'static, str> {
        "NewBucket".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties = property_schemas();
        let group = json!({
            "type": "integer", "minimum": 1, "maximum": u32::MAX,
            "description": "Number of the group in which to create the bucket.",
        });
        let replicas = json!({
            "type": "integer", "minimum": 1, "maximum": GROUP_VOTERS_MAX,
            "description": "Number of voters; the bucket is created in the group of that size with \
                            the fewest buckets.",
        });
        properties.extend([("group".into(), group), ("replicas".into(), replicas)]);
        json_schema!({
            "type": "object", "properties": properties,
            "not": { "required": ["group", "replicas"] },
        })
    }
}

/// Bucket.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct BucketReply {
    /// Full name: `TYPE/BUCKET`.
    #[schemars(regex(pattern = BUCKET_PATTERN))]
    pub name: String,
    /// Number of the bucket in its group.
    pub id: u32,
    /// Number of the bucket's group.
    pub group: u32,
    /// Target of the bucket's move; absent if the bucket is not moving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_to: Option<MoveTarget>,
    /// Properties of the bucket.
    pub properties: BucketProperties,
}

/// Target of a bucket's move.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MovesTo")]
pub struct MoveTarget {
    /// Number of the target group.
    pub group: u32,
    /// Number of the bucket in the target group.
    pub id: u32,
}

/// Page of buckets.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Buckets {
    /// Buckets, ordered by name.
    pub buckets: Vec<BucketReply>,
    /// True if more buckets may follow.
    pub more: bool,
    /// Name of the last bucket of the page, to pass as `after` to get the next page; null: last
    /// page.
    pub r#continue: Option<String>,
}

/// Bucket types.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Types {
    /// Bucket types, ordered by name.
    pub types: Vec<BucketType>,
}

/// Bucket type.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct BucketType {
    /// Name of the type.
    pub name: String,
    /// Initial properties of buckets of this type.
    pub properties: BucketProperties,
}

/// Bucket move to start.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "MoveTo", deny_unknown_fields)]
pub struct MoveRequest {
    /// Number of the target group.
    #[schemars(with = "BucketGroup")]
    pub group: Integer,
}

/// Group of a bucket, and the progress of its move.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Move")]
pub struct BucketMove {
    /// Full name of the bucket: `TYPE/BUCKET`.
    #[schemars(regex(pattern = BUCKET_PATTERN))]
    pub name: String,
    /// Number of the bucket's group.
    #[schemars(with = "BucketGroup")]
    pub group: u32,
    /// Number of the target group; null: the bucket is not moving.
    #[schemars(with = "Option<BucketGroup>")]
    pub to: Option<u32>,
    /// Progress of the move, reported by the master of the bucket's group; null: unknown at
    /// present.
    pub progress: Option<BucketMoveProgress>,
}

/// Progress of a bucket's move.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MoveProgress")]
pub struct BucketMoveProgress {
    /// Phase of the move.
    #[schemars(schema_with = "phase")]
    pub phase: String,
    /// Number of rows copied.
    pub rows: u64,
    /// Estimated number of rows to copy.
    pub rows_total: u64,
    /// Number of bytes copied.
    pub bytes: u64,
    /// Estimated number of bytes to copy.
    pub bytes_total: u64,
    /// Number of rows that changed during the move and were copied again.
    pub recopied: u64,
    /// Number of changed rows that are not copied yet.
    pub remaining: u64,
    /// Condition that the move waits for; empty: none.
    pub waits_for: String,
}

impl From<&BucketDescription> for BucketReply {
    fn from(bucket: &BucketDescription) -> BucketReply {
        BucketReply {
            name: bucket.name.full().into(),
            id: bucket.id.0,
            group: bucket.group.0,
            moves_to: bucket.moving.map(|to| MoveTarget { group: to.group.0, id: to.id.0 }),
            properties: (&bucket.properties).into(),
        }
    }
}

fn phase(_: &mut SchemaGenerator) -> Schema {
    one_of(&["waiting", "copying", "catching_up", "sealed"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_properties_keep_json_types_and_order() {
        let properties = BucketProperties::from(&Properties::default());
        assert!(properties.0["ttl_ms"].is_u64(), "{properties:?}");
        assert!(properties.0["sync"].is_string(), "{properties:?}");
        assert_eq!(properties.text("ttl_ms").as_deref(), Some("0"));
        assert_eq!(properties.text("colour"), None);
        let names: Vec<_> = properties.texts().map(|(name, _)| name.to_string()).collect();
        let expected: Vec<_> =
            Properties::default().applicable().map(|property| property.name.to_string()).collect();
        assert_eq!(names, expected);
    }
}
