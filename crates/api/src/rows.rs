//! Rows and keys as clients of data read them.

use crate::blob::Blob;
use crate::schema::{CONTEXT_PATTERN, VTAG_PATTERN};
use base::limits::PAGE_ROWS_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Row.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Row")]
pub struct RowReply {
    /// Value of the row.
    pub value: Blob,
    /// Version of the row.
    pub version: u64,
    /// Milliseconds until the row expires; absent if it has no expiry time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// Rows of many keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Rows")]
pub struct RowsReply {
    /// Row of each key, in the order of the keys; null: the key is absent.
    pub rows: Vec<Option<RowReply>>,
}

/// Row of a range, or only its key.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Entry")]
pub struct EntryReply {
    /// Key of the row.
    pub key: Blob,
    /// Value of the row; absent if only keys were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Blob>,
    /// Version of the row; absent if only keys were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Milliseconds until the row expires; absent if it has no expiry time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// Page of rows.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Page")]
pub struct PageReply {
    /// Rows, in the order of the range.
    pub entries: Vec<EntryReply>,
    /// True if more rows may follow.
    pub more: bool,
    /// Last key of the page, to pass as `after` to get the next page; null: last page.
    pub r#continue: Option<Blob>,
}

/// Number of keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Count")]
pub struct KeyCount {
    /// Number of keys.
    pub count: u64,
    /// Number of bytes of all keys and values; absent unless the bucket is counted and its count is
    /// complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Page of keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct KeyPage {
    /// Keys, in order.
    #[schemars(length(max = PAGE_ROWS_MAX))]
    pub keys: Vec<Blob>,
    /// True if more keys may follow.
    pub more: bool,
    /// Last key of the page, to pass as `after` to get the next page; null: last page.
    pub r#continue: Option<Blob>,
}

/// Siblings: the concurrent values of a key.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Siblings")]
pub struct SiblingsReply {
    /// Causal context of these values; a write with this context replaces them.
    #[schemars(regex(pattern = CONTEXT_PATTERN))]
    pub context: String,
    /// Values, newest first.
    pub siblings: Vec<SiblingReply>,
}

/// Value, with its metadata.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Sibling")]
pub struct SiblingReply {
    /// Value; null: a tombstone (the key was deleted).
    pub value: Option<Blob>,
    /// Tag of the value, in Riak's format (vtag).
    #[schemars(regex(pattern = VTAG_PATTERN))]
    pub vtag: String,
    /// Time of the write in milliseconds since 1970 (UTC); 0: unknown.
    pub written_ms: u64,
    /// Media type of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Blob>,
    /// Character set of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charset: Option<Blob>,
    /// Content encoding of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Blob>,
    /// User metadata: pairs of name and text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meta: Vec<[Blob; 2]>,
    /// Secondary index entries: pairs of index name and term.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<[Blob; 2]>,
    /// Links: triples of bucket, key and tag.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<[Blob; 3]>,
}

/// Context of a key after a write.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Stored")]
pub struct StoredReply {
    /// Causal context that covers the write, for the next write of the key.
    #[schemars(regex(pattern = CONTEXT_PATTERN))]
    pub context: String,
}
