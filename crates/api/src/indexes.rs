//! Declared indexes of buckets, and rows that queries of indexes return.

use crate::blob::Blob;
use crate::rows::SiblingReply;
use crate::schema::{CONTEXT_PATTERN, one_of};
use base::index::{IndexDescription, IndexSpec, IndexState};
use base::limits::{INDEXES_PER_BUCKET_MAX, PAGE_ROWS_MAX};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Name of a declared index: no name of a tag's field (`..._bin`, `..._int`) is one.
const INDEX_NAME_PATTERN: &str = "^(?!.*_(bin|int)$)[a-z0-9][a-z0-9_-]{0,62}$";

/// Index to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewIndex {
    /// Name of the index within its bucket.
    #[schemars(regex(pattern = INDEX_NAME_PATTERN))]
    pub name: String,
    /// JSONPath (RFC 9535, without filters) to the indexed nodes of a value.
    pub path: String,
    /// Type of the indexed nodes; a node of another type is not in the index.
    #[schemars(schema_with = "value_type")]
    pub r#type: String,
    /// Format of the values.
    #[serde(default = "default_format")]
    #[schemars(schema_with = "format")]
    pub format: String,
    /// True if no two keys may have the same term; only in a consistent bucket.
    #[serde(default)]
    pub unique: bool,
    /// True if a value without a term is refused.
    #[serde(default)]
    pub strict: bool,
}

impl From<NewIndex> for IndexSpec {
    fn from(index: NewIndex) -> IndexSpec {
        let NewIndex { name, path, r#type, format, unique, strict } = index;
        let (is_unique, is_strict) = (unique, strict);
        IndexSpec { name, path, value_type: r#type, format, is_unique, is_strict }
    }
}

/// Declared index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Index")]
pub struct IndexReply {
    /// Name of the index within its bucket.
    #[schemars(regex(pattern = INDEX_NAME_PATTERN))]
    pub name: String,
    /// Number of the index; no other index ever has it.
    pub number: u32,
    /// JSONPath to the indexed nodes of a value, in canonical form.
    pub path: String,
    /// Type of the indexed nodes.
    #[schemars(schema_with = "value_type")]
    pub r#type: String,
    /// Format of the values.
    #[schemars(schema_with = "format")]
    pub format: String,
    /// True if no two keys may have the same term.
    pub unique: bool,
    /// True if a value without a term is refused.
    pub strict: bool,
    /// State of the index; only one that is ready answers queries.
    #[schemars(schema_with = "state")]
    pub state: String,
    /// Number of records that are in the index; absent unless it is being built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Estimated number of records; absent unless it is being built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Cause why the index could not be built; absent unless it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl From<&IndexDescription> for IndexReply {
    fn from(index: &IndexDescription) -> IndexReply {
        let IndexSpec { name, path, value_type, format, is_unique, is_strict } = &index.spec;
        let progress = match &index.state {
            IndexState::Building(progress) => Some(*progress),
            IndexState::Ready | IndexState::Failed(_) | IndexState::Dropping => None,
        };
        let cause = match &index.state {
            IndexState::Failed(cause) => Some(cause.clone()),
            IndexState::Building(_) | IndexState::Ready | IndexState::Dropping => None,
        };
        IndexReply {
            name: name.clone(),
            number: index.number,
            path: path.clone(),
            r#type: value_type.clone(),
            format: format.clone(),
            unique: *is_unique,
            strict: *is_strict,
            state: index.state.name().into(),
            done: progress.map(|progress| progress.done),
            total: progress.map(|progress| progress.total),
            cause,
        }
    }
}

/// Declared indexes of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Indexes {
    /// Declared indexes, ordered by name.
    #[schemars(length(max = INDEXES_PER_BUCKET_MAX))]
    pub indexes: Vec<IndexReply>,
}

impl From<&[IndexDescription]> for Indexes {
    fn from(indexes: &[IndexDescription]) -> Indexes {
        Indexes { indexes: indexes.iter().map(IndexReply::from).collect() }
    }
}

/// Page of an index.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IndexPage")]
pub struct IndexPageReply {
    /// Rows, ordered by term and key.
    #[schemars(length(max = PAGE_ROWS_MAX))]
    pub rows: Vec<IndexRowReply>,
    /// True if partitions did not answer, as the query allows: rows may be missing.
    pub partial: bool,
    /// True if more rows may follow.
    pub more: bool,
    /// Continuation to pass as `after` to get the next page; null: last page.
    pub r#continue: Option<String>,
}

/// Row of an index. A key stands once for each of its terms.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IndexRow")]
pub struct IndexRowReply {
    /// Key of the record.
    pub key: Blob,
    /// Text of the term; absent if only keys were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<Blob>,
    /// Value of the record, in a consistent bucket; absent unless records were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Blob>,
    /// Version of the record, in a consistent bucket; absent unless records were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Milliseconds until the record expires; absent if it has no expiry time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// Causal context of the values, in an available bucket; absent unless records were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = CONTEXT_PATTERN))]
    pub context: Option<String>,
    /// Values of the record, newest first, in an available bucket; absent unless records were
    /// requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub siblings: Option<Vec<SiblingReply>>,
}

fn default_format() -> String {
    "json".into()
}

fn value_type(_: &mut SchemaGenerator) -> Schema {
    one_of(&["int", "float", "string", "bytes", "bool"])
}

fn format(_: &mut SchemaGenerator) -> Schema {
    one_of(&["json", "msgpack"])
}

fn state(_: &mut SchemaGenerator) -> Schema {
    one_of(&["building", "ready", "failed", "dropping"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::index::BuildProgress;
    use serde_json::json;

    fn spec() -> IndexSpec {
        IndexSpec {
            name: "by-count".into(),
            path: "$.count".into(),
            value_type: "int".into(),
            format: "json".into(),
            is_unique: false,
            is_strict: true,
        }
    }

    #[test]
    fn new_index_needs_a_name_a_path_and_a_type() {
        let read = |value| serde_json::from_value::<NewIndex>(value);
        let full = json!({ "name": "by-count", "path": "$.count", "type": "int", "strict": true });
        assert_eq!(read(full.clone()).map(IndexSpec::from).expect("it is complete"), spec());
        for field in ["name", "path", "type"] {
            let mut lacking = full.clone();
            lacking.as_object_mut().expect("an object").remove(field);
            assert!(read(lacking).is_err(), "{field}");
        }
        let mut unknown = full;
        unknown["collation"] = "de".into();
        assert!(read(unknown).is_err(), "a wish that nobody would notice is refused");
    }

    #[test]
    fn index_reply_has_progress_or_cause_only_in_their_states() {
        let progress = BuildProgress { done: 7, total: 9 };
        for (state, name, done, cause) in [
            (IndexState::Building(progress), "building", Some(7), None),
            (IndexState::Ready, "ready", None, None),
            (IndexState::Failed("two keys".into()), "failed", None, Some("two keys")),
            (IndexState::Dropping, "dropping", None, None),
        ] {
            let reply = IndexReply::from(&IndexDescription { number: 3, spec: spec(), state });
            assert_eq!((&*reply.state, reply.done, reply.cause.as_deref()), (name, done, cause));
            assert_eq!(reply.total, done.map(|_| 9));
            let states = crate::schema::all()["Index"]["properties"]["state"]["enum"].clone();
            assert!(states.as_array().is_some_and(|all| all.contains(&name.into())), "{states}");
            let json = serde_json::to_value(&reply).expect("it is JSON");
            assert_eq!(serde_json::from_value::<IndexReply>(json).expect("it reads back"), reply);
        }
    }
}
