//! Row of the table of settings.

use crate::Settings;

/// Settings that a reload brings into force while the node serves (`cli/reload.rs`). All others
/// wait for a restart.
pub const LIVE: &[&str] =
    &["shutdown_timeout_ms", "http_idle_ms_max", "resp_idle_ms_max", "log_level"];

/// Setting, with all its spellings, help and check.
pub struct SettingRow {
    /// Name: the key in the file. The flag has `-` for `_`; the environment variable is in
    /// capitals.
    pub name: &'static str,
    /// Placeholder of the value in help.
    pub value: &'static str,
    /// Default value, as a user would write it.
    pub default: &'static str,
    /// Description in one line.
    pub doc: &'static str,
    /// Checks a text and stores its value. Fails with what is expected instead.
    pub apply: fn(&mut Settings, &str) -> Result<(), String>,
}

impl SettingRow {
    /// Returns the flag, without its two dashes.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Returns `live` if a reload brings another value into force, else `restart`.
    pub fn reload(&self) -> &'static str {
        if LIVE.contains(&self.name) { "live" } else { "restart" }
    }

    /// Returns true if only this machine may set it, and no request (`local.rs`).
    pub fn is_local(&self) -> bool {
        super::LOCAL.contains(&self.name)
    }

    /// Returns the environment variable.
    pub fn variable(&self) -> String {
        format!("CREDENZA_{}", self.name.to_ascii_uppercase())
    }
}
