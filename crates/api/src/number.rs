//! Numbers in JSON: ids as hexadecimal digits, and integers with or without a fraction `.0`.

use crate::schema::ID_PATTERN;
use base::{ClusterId, NodeId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// Id of a node or a cluster: 16 hexadecimal digits, since many JSON readers don't keep numbers
/// above 2^53 exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HexId(pub u64);

impl fmt::Display for HexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<NodeId> for HexId {
    fn from(id: NodeId) -> HexId {
        HexId(id.0)
    }
}

impl From<ClusterId> for HexId {
    fn from(id: ClusterId) -> HexId {
        HexId(id.0)
    }
}

impl From<HexId> for NodeId {
    fn from(id: HexId) -> NodeId {
        NodeId(id.0)
    }
}

impl Serialize for HexId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HexId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HexId, D::Error> {
        let digits = Cow::<str>::deserialize(deserializer)?;
        let id = u64::from_str_radix(&digits, 16);
        id.map(HexId).map_err(|_| D::Error::custom("an id must be 16 hexadecimal digits"))
    }
}

impl JsonSchema for HexId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "HexId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": ID_PATTERN })
    }
}

/// Non-negative integer. `7.0` is accepted too, as in JSON Schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Integer(pub u64);

/// 2^53: up to this number a floating point number represents every integer exactly.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

impl Integer {
    /// Converts a floating point number. `None`: it is no integer, negative, or above 2^53.
    pub fn from_float(number: f64) -> Option<Integer> {
        let is_whole = number.fract() == 0.0 && (0.0..=EXACT_FLOAT_MAX).contains(&number);
        is_whole.then_some(Integer(number as u64))
    }

    /// Returns the number as a size, saturated: a larger number exceeds every limit anyway.
    pub fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Serialize for Integer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Integer, D::Error> {
        struct WholeVisitor;
        impl Visitor<'_> for WholeVisitor {
            type Value = Integer;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 to 2^64 - 1")
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Integer, E> {
                Ok(Integer(number))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Integer, E> {
                Integer::from_float(number).ok_or_else(|| E::custom("a number is not an integer"))
            }
        }
        deserializer.deserialize_any(WholeVisitor)
    }
}

impl JsonSchema for Integer {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Whole".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 0, "maximum": u64::MAX })
    }
}
