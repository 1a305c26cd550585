//! Documentation of commands, as `commands.txt` has it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Documentation of a command.
#[derive(Clone, Copy, Debug)]
pub struct Docs {
    /// Group of commands: `string`, `generic`, ...
    pub group: &'static str,
    /// First version of Redis that had it; for Credenza's own commands, of Credenza.
    pub since: &'static str,
    /// Syntax of its arguments.
    pub syntax: &'static str,
    /// Description in one sentence.
    pub summary: &'static str,
}

static DOCS: LazyLock<BTreeMap<&'static str, Docs>> = LazyLock::new(|| {
    let line = |line: &'static str| {
        let mut parts = line.splitn(5, ';').map(str::trim);
        let mut next = || parts.next().unwrap_or_default();
        let name = next();
        (name, Docs { group: next(), since: next(), syntax: next(), summary: next() })
    };
    let lines = include_str!("commands.txt").lines();
    lines.filter(|line| !line.starts_with('#') && !line.is_empty()).map(line).collect()
});

/// Returns the documentation of a command by its full name; empty if there is none.
pub fn find(full_name: &str) -> Docs {
    let default = Docs { group: "generic", since: "", syntax: "", summary: "" };
    DOCS.get(full_name).copied().unwrap_or(default)
}

/// Returns the names in `commands.txt`.
#[cfg(test)]
pub fn documented() -> impl Iterator<Item = &'static str> {
    DOCS.keys().copied()
}
