//! Rows and keys as clients of data read them.

use crate::blob::Blob;
use crate::schema::{CONTEXT_PATTERN, VTAG_PATTERN};
use base::limits::PAGE_ROWS_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A row.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Row")]
pub struct RowReply {
    /// The value.
    pub value: Blob,
    /// Version of the row.
    pub version: u64,
    /// Milliseconds until it expires; left out: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// Rows of many keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Rows")]
pub struct RowsReply {
    /// A row for each key, in their order; null: there is none.
    pub rows: Vec<Option<RowReply>>,
}

/// A row of a range, or its key alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Entry")]
pub struct EntryReply {
    /// The key.
    pub key: Blob,
    /// The value; left out: keys alone were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Blob>,
    /// Version of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Milliseconds until it expires; left out: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// A page of rows.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Page")]
pub struct PageReply {
    /// The rows, in the order of the range.
    pub entries: Vec<EntryReply>,
    /// True if there may be more.
    pub more: bool,
    /// The last key, which the next page begins behind; null: there are no more.
    pub r#continue: Option<Blob>,
}

/// A number of keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Count")]
pub struct KeyCount {
    /// The number.
    pub count: u64,
}

/// A page of keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct KeyPage {
    /// The keys, in order.
    #[schemars(length(max = PAGE_ROWS_MAX))]
    pub keys: Vec<Blob>,
    /// True if there may be more.
    pub more: bool,
    /// The last key, which the next page begins behind; null: there are no more.
    pub r#continue: Option<Blob>,
}

/// Values of a key that were written without knowledge of each other.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Siblings")]
pub struct SiblingsReply {
    /// Context of these values: a write that shows it replaces them.
    #[schemars(regex(pattern = CONTEXT_PATTERN))]
    pub context: String,
    /// The values, the newest first.
    pub siblings: Vec<SiblingReply>,
}

/// A value, with what was stored beside it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Sibling")]
pub struct SiblingReply {
    /// The value; null: it was deleted.
    pub value: Option<Blob>,
    /// Tag of the value, as Riak names values.
    #[schemars(regex(pattern = VTAG_PATTERN))]
    pub vtag: String,
    /// Time at which it was written, in milliseconds since 1970; 0: unknown.
    pub written_ms: u64,
    /// Media type of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Blob>,
    /// Character set of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charset: Option<Blob>,
    /// Encoding of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Blob>,
    /// Names and texts of metadata.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meta: Vec<[Blob; 2]>,
    /// Names and terms of indexes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<[Blob; 2]>,
    /// Buckets, keys and tags of links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<[Blob; 3]>,
}

/// Context of a key after a write.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Stored")]
pub struct StoredReply {
    /// The context.
    #[schemars(regex(pattern = CONTEXT_PATTERN))]
    pub context: String,
}
