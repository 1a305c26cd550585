//! Row of the table of settings.

use super::Settings;

/// One setting.
pub struct SettingRow {
    /// Its name: the key in the file; the flag is the same with `-`, the environment variable the
    /// same in capitals.
    pub name: &'static str,
    /// What a value looks like, for help.
    pub value: &'static str,
    /// The default, as one would write it.
    pub default: &'static str,
    /// One line: what it does.
    pub doc: &'static str,
    /// Checks a text and takes it, or says what is wanted instead.
    pub take: fn(&mut Settings, &str) -> Result<(), String>,
}

impl SettingRow {
    /// The flag, without its two dashes.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("CREDENZA_{}", self.name.to_ascii_uppercase())
    }
}
