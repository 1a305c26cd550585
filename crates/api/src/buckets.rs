//! Buckets and their types: properties, where buckets live, and their moves.

use crate::number::Whole;
use crate::schema::{BUCKET_PATTERN, BucketGroup, one_of};
use base::limits::GROUP_VOTERS_MAX;
use base::properties::{PROPERTIES, Properties, Property, PropertyShape};
use base::reply::BucketDescription;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Properties of a bucket or a type, by name: numbers, words, true and false.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BucketProperties(pub Map<String, Value>);

impl BucketProperties {
    /// Returns a property as text; none if it is not there.
    pub fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(shown)
    }

    /// Returns all properties as texts.
    pub fn texts(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(name, value)| (name.as_str(), shown(value)))
    }
}

fn shown(value: &Value) -> String {
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
        let shown = properties.shown();
        BucketProperties(shown.map(|property| (property.name.into(), value(property))).collect())
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

/// A bucket that is to be made: its properties, and `group` or `replicas` among them.
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
            "description": "The group that it is made in.",
        });
        let replicas = json!({
            "type": "integer", "minimum": 1, "maximum": GROUP_VOTERS_MAX,
            "description": "It is made in the group of so many voters with the fewest buckets.",
        });
        properties.extend([("group".into(), group), ("replicas".into(), replicas)]);
        json_schema!({
            "type": "object", "properties": properties,
            "not": { "required": ["group", "replicas"] },
        })
    }
}

/// A bucket.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct BucketReply {
    /// Type and name.
    #[schemars(regex(pattern = BUCKET_PATTERN))]
    pub name: String,
    /// Its number in its group.
    pub id: u32,
    /// The group that it lives in.
    pub group: u32,
    /// The group that it moves to; left out: it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_to: Option<MovesTo>,
    /// Its properties.
    pub properties: BucketProperties,
}

/// Target of a bucket's move.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct MovesTo {
    /// The group.
    pub group: u32,
    /// The number that the bucket will have there.
    pub id: u32,
}

/// A page of buckets.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Buckets {
    /// The buckets, in the order of their names.
    pub buckets: Vec<BucketReply>,
    /// True if there may be more.
    pub more: bool,
    /// The last bucket, which the next page begins behind; null: there are no more.
    pub r#continue: Option<String>,
}

/// Bucket types.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Types {
    /// The types, in the order of their names.
    pub types: Vec<BucketType>,
}

/// A bucket type.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct BucketType {
    /// Its name.
    pub name: String,
    /// Properties that buckets of it begin with.
    pub properties: BucketProperties,
}

/// Move of a bucket that is to begin.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveTo {
    /// The group that it moves to.
    #[schemars(with = "BucketGroup")]
    pub group: Whole,
}

/// Home of a bucket, and its move.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Move")]
pub struct BucketMove {
    /// The bucket's type and name.
    #[schemars(regex(pattern = BUCKET_PATTERN))]
    pub name: String,
    /// The group that it lives in.
    #[schemars(with = "BucketGroup")]
    pub group: u32,
    /// The group that it moves to; null: it stays.
    #[schemars(with = "Option<BucketGroup>")]
    pub to: Option<u32>,
    /// Progress of its move, as the master of its group knows it; null: that is unknown now.
    pub progress: Option<BucketMoveProgress>,
}

/// Progress of a bucket's move.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MoveProgress")]
pub struct BucketMoveProgress {
    /// Phase of the move.
    #[schemars(schema_with = "phase")]
    pub phase: String,
    /// Rows that were copied.
    pub rows: u64,
    /// Rows to be copied, estimated.
    pub rows_total: u64,
    /// Bytes that were copied.
    pub bytes: u64,
    /// Bytes to be copied, estimated.
    pub bytes_total: u64,
    /// Rows that changed meanwhile and were copied again.
    pub recopied: u64,
    /// Changed rows that are still to be copied.
    pub remaining: u64,
    /// Condition that it waits for; empty: nothing.
    pub waits_for: String,
}

impl From<&BucketDescription> for BucketReply {
    fn from(bucket: &BucketDescription) -> BucketReply {
        BucketReply {
            name: bucket.name.full().into(),
            id: bucket.id.0,
            group: bucket.group.0,
            moves_to: bucket.moving.map(|to| MovesTo { group: to.group.0, id: to.id.0 }),
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
    fn properties_are_numbers_words_and_flags() {
        let properties = BucketProperties::from(&Properties::default());
        assert!(properties.0["ttl_ms"].is_u64(), "{properties:?}");
        assert!(properties.0["sync"].is_string(), "{properties:?}");
        assert_eq!(properties.text("ttl_ms").as_deref(), Some("0"));
        assert_eq!(properties.text("colour"), None);
        let names: Vec<_> = properties.texts().map(|(name, _)| name.to_string()).collect();
        let shown: Vec<_> = Properties::default().shown().map(|it| it.name.to_string()).collect();
        assert_eq!(names, shown);
    }
}
