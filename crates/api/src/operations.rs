//! Work of operators on one node: checkpoints, log levels, prefixes that are emptied.

use crate::blob::Blob;
use crate::schema::{CHECKPOINT_PATTERN, ContinueToken};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A checkpoint that is to be made.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Target")]
pub struct CheckpointTarget {
    /// Its name.
    #[schemars(regex(pattern = CHECKPOINT_PATTERN))]
    pub target: String,
}

/// A checkpoint that was made.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// Its folder.
    pub target: String,
}

/// Checkpoints of a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoints {
    /// The checkpoints, in the order of their names.
    pub checkpoints: Vec<StoredCheckpoint>,
}

/// A checkpoint in a node's data directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct StoredCheckpoint {
    /// Its name.
    pub name: String,
    /// False if it is being made, or was cut short.
    pub complete: bool,
    /// Time at which it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// Bytes of all its files; tables that the node still has are shared.
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

/// A part of a prefix that is to be emptied.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyPrefix {
    /// The prefix.
    pub prefix: Blob,
    /// `continue` of the call before; null: from the first key on.
    #[schemars(with = "Option<ContinueToken>")]
    pub r#continue: Option<String>,
}

/// Progress in emptying a prefix.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Emptied {
    /// Keys that were deleted.
    pub removed: u64,
    /// Token with which the next call goes on; null: the prefix is empty.
    #[schemars(with = "Option<ContinueToken>")]
    pub r#continue: Option<String>,
}
