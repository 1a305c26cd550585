//! Reload of the settings: what changed, and what waits for a restart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Outcome of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Reloaded")]
pub struct ReloadReply {
    /// Settings with another value, which is in force now.
    pub changed: Vec<SettingChange>,
    /// Settings with another value, which will be in force after a restart.
    pub waiting: Vec<SettingChange>,
    /// Files that were read again beside the settings, in words.
    pub renewed: Vec<String>,
}

/// Change of a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingChange {
    /// Name of the setting.
    pub setting: String,
    /// Value before, as it was written.
    pub from: String,
    /// Value now, as it is written.
    pub to: String,
}
