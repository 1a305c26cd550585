//! Work of operators on one node: checkpoints, log levels, slow requests, prefixes that are
//! emptied.

use crate::blob::Blob;
use crate::schema::{CHECKPOINT_PATTERN, ContinueToken, one_of};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Checkpoint to create.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Target")]
pub struct CheckpointTarget {
    /// Name of the checkpoint.
    #[schemars(regex(pattern = CHECKPOINT_PATTERN))]
    pub target: String,
}

/// Checkpoint that was created.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// Path of the checkpoint's folder.
    pub target: String,
}

/// Checkpoints of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoints {
    /// Checkpoints, ordered by name.
    pub checkpoints: Vec<StoredCheckpoint>,
}

/// Checkpoint in a node's data directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct StoredCheckpoint {
    /// Name of the checkpoint.
    pub name: String,
    /// False if the checkpoint is being created, or its creation was interrupted.
    pub complete: bool,
    /// Creation time in milliseconds since 1970 (UTC).
    pub created_ms: u64,
    /// Size of all its files in bytes; tables that the node still uses share their space.
    pub bytes: u64,
}

/// Levels of the log by section.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SectionLevels(pub Map<String, Value>);

impl SectionLevels {
    /// Returns sections with their levels.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(section, level)| (section.as_str(), level.as_str().unwrap_or_default()))
    }
}

impl FromIterator<(String, String)> for SectionLevels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(levels: I) -> SectionLevels {
        SectionLevels(levels.into_iter().map(|(section, level)| (section, level.into())).collect())
    }
}

/// Slow log of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SlowRequests {
    /// Slowest requests above the setting `slow_ms`, the slowest first; at most 1,000.
    pub requests: Vec<SlowRequest>,
}

/// Slow request, or several that were read and answered together.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SlowRequest {
    /// Number of the entry; later ones have higher numbers.
    pub id: u64,
    /// Time of the answer in milliseconds since 1970 (UTC).
    pub at_ms: u64,
    /// Time from the end of their reading to the end of their answer in microseconds.
    pub took_us: u64,
    /// Parts of that time.
    pub stages: SlowStages,
    /// Protocol of the client.
    pub protocol: String,
    /// Command or kind of operation; of several requests, that of the first.
    pub command: String,
    /// Full name of the bucket; empty: none.
    pub bucket: String,
    /// Digest of the key, keyed by a secret of the node's process: 16 hexadecimal digits; null: no
    /// single key.
    pub key_digest: Option<String>,
    /// Number of requests.
    pub requests: u64,
    /// Address of the client; null: unknown.
    pub client: Option<String>,
}

/// Stages of a slow request, each with its time in microseconds; sums of requests that were read
/// together.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SlowStages {
    /// Translation and evaluation, with the rows that it read, and what no other stage counts.
    pub evaluate_us: u64,
    /// Wait until its updates were decided and applied.
    pub decide_us: u64,
    /// Parts of `decide_us`, of the log entry that it waited for last; null: unknown.
    pub entry: Option<EntryStages>,
    /// Wait for replies of other nodes, of the replicas of an available bucket, of long reads.
    pub reply_us: u64,
    /// Wait until the connection took the answer.
    pub send_us: u64,
}

/// Stages of a log entry, each with its time in milliseconds, from its first update on.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EntryStages {
    /// Time in which it gathered updates, or waited for earlier entries.
    pub batch_ms: u64,
    /// Then it waited for the log of this node, or was decided before.
    pub log_ms: u64,
    /// Then it waited for the logs of other members.
    pub replicas_ms: u64,
    /// Then its rows were written into the store's memory.
    pub apply_ms: u64,
}

/// Keys that most requests of a node concern, from a sample of the last minute.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HotKeys {
    /// Keys with more than a 64th of the accesses to a busy bucket, the most frequent first.
    pub keys: Vec<HotKey>,
}

/// Key that many requests concern.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HotKey {
    /// Full name of the bucket.
    pub bucket: String,
    /// Kind of access.
    #[schemars(schema_with = "key_access")]
    pub access: String,
    /// Beginning of the key, at most 128 bytes; null: the caller may not read it.
    pub key: Option<Blob>,
    /// Digest of the key, as the slow log has it: 16 hexadecimal digits.
    pub key_digest: String,
    /// Length of the key in bytes.
    pub key_bytes: u64,
    /// Share of the key in all accesses of this kind to the bucket, in thousandths.
    pub share_permille: u64,
    /// Estimated accesses a second.
    pub per_second: u64,
}

fn key_access(_: &mut SchemaGenerator) -> Schema {
    one_of(&["reads", "writes"])
}

/// Prefix to empty, and the position to resume from.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyPrefix {
    /// Prefix of the keys to delete.
    pub prefix: Blob,
    /// `continue` of the previous call; null: start at the first key.
    #[schemars(with = "Option<ContinueToken>")]
    pub r#continue: Option<String>,
}

/// Progress in emptying a prefix.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Emptied")]
pub struct EmptyPrefixProgress {
    /// Number of keys deleted by this call.
    pub removed: u64,
    /// Token to pass as `continue` to the next call; null: the prefix is empty.
    #[schemars(with = "Option<ContinueToken>")]
    pub r#continue: Option<String>,
}
