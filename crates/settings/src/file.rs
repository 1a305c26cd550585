//! Settings file: TOML, one key per setting.

use crate::renames::current_name;
use crate::{SettingRow, TABLE};
use base::nearest;
use program::{Failure, Outcome};
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Key of a settings file.
pub struct FileSetting {
    /// The setting's name.
    pub name: String,
    /// The value as text.
    pub text: String,
    /// Number of the key's line, from 1.
    pub line: usize,
}

/// Reads a settings file.
pub fn read_file(path: &Path) -> Outcome<Vec<FileSetting>> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error))?;
    parse_file(&text)
        .map_err(|(line, what)| Failure::invalid(format!("{}:{line}: {what}", path.display())))
}

/// Returns the line number of an offset in a text, from 1.
pub fn line_of(text: &str, offset: usize) -> usize {
    1 + text[..offset.min(text.len())].matches('\n').count()
}

/// Parses TOML. An error has its line number.
pub fn parse_table(text: &str) -> Result<DeTable<'_>, (usize, String)> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        (line, error.message().to_string())
    })?;
    Ok(table.into_inner())
}

/// Parses a settings file. Fails with the line number on an unknown key, a repeated key or a table.
pub fn parse_file(text: &str) -> Result<Vec<FileSetting>, (usize, String)> {
    let table = parse_table(text)?;
    let mut lines = Vec::new();
    for (key, value) in &table {
        let line = line_of(text, key.span().start);
        if !TABLE.iter().any(|row| row.name == key.get_ref()) {
            return Err((line, unknown_key_message(key.get_ref())));
        }
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Boolean(value) => value.to_string(),
            _ => {
                let message =
                    format!("`{key}` wants a text, a number or true or false", key = key.get_ref());
                return Err((line, message));
            }
        };
        lines.push(FileSetting { name: key.get_ref().to_string(), text, line });
    }
    Ok(lines)
}

/// Returns the complaint about an unknown key, with the setting that is probably meant.
pub fn unknown_key_message(key: &str) -> String {
    if let Some(name) = current_name(key) {
        return format!(
            "setting `{key}` is now called `{name}` (`credenza settings migrate FILE` renames it)"
        );
    }
    let common_prefix = |row: &&SettingRow| {
        row.name.bytes().zip(key.bytes()).take_while(|(ours, theirs)| ours == theirs).count()
    };
    let by_prefix = || TABLE.iter().max_by_key(common_prefix).filter(|row| common_prefix(row) >= 3);
    let similar = nearest(key, TABLE.iter().map(|row| row.name));
    let similar = similar.or_else(|| by_prefix().map(|row| row.name));
    let hint = similar.map(|name| format!(", is `{name}` meant?")).unwrap_or_default();
    format!("unknown setting `{key}`{hint} (`credenza settings` lists all)")
}
