//! Feeds of changes: pages, events, and the messages between them.

use crate::blob::Blob;
use crate::rows::SiblingReply;
use crate::schema::{CONTEXT_PATTERN, one_of};
use base::limits::{FEED_TOKEN_BYTES_MAX, PAGE_ROWS_MAX};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Page of a feed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FeedPage")]
pub struct FeedPageReply {
    /// Events, those of each key in the order of its changes. A page may have none, though more
    /// follow.
    #[schemars(length(max = PAGE_ROWS_MAX))]
    pub events: Vec<FeedEventReply>,
    /// Token of the place behind the page, to pass as `from` to get the next page.
    #[schemars(length(max = FEED_TOKEN_BYTES_MAX))]
    pub token: String,
    /// True if nothing more was decided when the page was read.
    pub level: bool,
    /// True if the changes behind the token of the request are no longer kept: the page begins at
    /// the start, and a key that does not come before the next page that is level is gone.
    pub restart: bool,
}

/// Event of a feed: a change of a key.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FeedEvent")]
pub struct FeedEventReply {
    /// Kind of the change: the key has a new record, or was deleted or has expired.
    #[schemars(schema_with = "kind")]
    pub event: String,
    /// Key that changed.
    pub key: Blob,
    /// Version of the record, in a consistent bucket; of a deleted one, a version at or above that
    /// of every earlier record of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Value of the record, in a consistent bucket; absent unless values were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Blob>,
    /// Milliseconds until the record expires; absent if it has no expiry time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// Causal context of the values, in an available bucket; absent unless values were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = CONTEXT_PATTERN))]
    pub context: Option<String>,
    /// Values of the record, newest first, in an available bucket; absent unless values were
    /// requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub siblings: Option<Vec<SiblingReply>>,
    /// True if the reader may have had the event before, because another replica answers now;
    /// absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// Message of a stream of a feed about the events before or behind it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FeedToken")]
pub struct FeedTokenReply {
    /// Kind of the message. `level`: nothing more was decided. `token`: more follows. `restart`:
    /// a key that does not come before the next `level` is gone.
    #[schemars(schema_with = "token_kind")]
    pub event: String,
    /// Token of the place behind the messages before this one; absent for `restart`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = FEED_TOKEN_BYTES_MAX))]
    pub token: Option<String>,
}

fn kind(_: &mut SchemaGenerator) -> Schema {
    one_of(&["put", "delete"])
}

fn token_kind(_: &mut SchemaGenerator) -> Schema {
    one_of(&["restart", "level", "token"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::feed::FeedEventKind;
    use serde_json::json;

    #[test]
    fn feed_event_is_read_with_and_without_its_optional_fields() {
        let delete: FeedEventReply =
            serde_json::from_value(json!({ "event": "delete", "key": "a" })).expect("complete");
        assert_eq!((delete.version, delete.value, delete.again), (None, None, false));
        let put = json!({ "event": "put", "key": "a", "value": "v", "version": 3, "again": true });
        let read: FeedEventReply = serde_json::from_value(put.clone()).expect("complete");
        assert_eq!(serde_json::to_value(&read).expect("JSON"), put);
        assert!(serde_json::from_value::<FeedEventReply>(json!({ "event": "put" })).is_err());
        let kinds = &crate::schema::all()["FeedEvent"]["properties"]["event"]["enum"];
        let names = [FeedEventKind::Put, FeedEventKind::Delete].map(FeedEventKind::name);
        assert_eq!(*kinds, json!(names));
    }
}
