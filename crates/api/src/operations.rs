//! Work of operators on one node: checkpoints, log levels, prefixes that are emptied.

use crate::blob::Blob;
use crate::schema::{CHECKPOINT_PATTERN, ContinueToken};
use schemars::JsonSchema;
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
