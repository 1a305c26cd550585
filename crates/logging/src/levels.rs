//! Sections of the log and their levels.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};
use tracing::Level;

/// Sections of the log, each with its own level. `other` holds events of third-party libraries.
pub const SECTIONS: [&str; 9] =
    ["log", "store", "consensus", "node", "server", "resp", "http", "app", "other"];
const OTHER: usize = SECTIONS.len() - 1;

/// Returns the section of an event's target as an index in [`SECTIONS`]. A target is the path of
/// the module that logs, unless the event names another. Every request logs, so the search is for
/// one character: a search for `::` takes 300 instructions more, a twentieth of a read.
pub fn section_of(target: &str) -> usize {
    let (first, rest) = target.split_once(':').unwrap_or((target, ""));
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    match first {
        "log" => 0,
        "store" if is_in(rest, "log") => 0,
        "store" => 1,
        "consensus" | "replication" | "replica_state" => 2,
        "node" | "replica_host" | "usage" | "bucket_moves" | "peers" | "metadata" | "dynamo"
        | "runtime" | "transport" => 3,
        "server" if is_in(rest, "resp") => 5,
        "server" if is_in(rest, "native") => 6,
        "server" | "arakoon" => 4,
        "resp" => 5,
        "http" => 6,
        "credenza" | "app" | "settings" | "logging" | "client" => 7,
        _ => OTHER,
    }
}

/// Returns true if a path begins with this module.
fn is_in(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns a level as a number: 0 off, 1 error, ... 5 trace.
pub fn level_number(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

const LEVEL_NAMES: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Returns the word of a level.
pub fn level_name(number: u8) -> &'static str {
    LEVEL_NAMES.get(usize::from(number)).copied().unwrap_or("trace")
}

/// Level of every section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels(pub [u8; SECTIONS.len()]);

impl Default for Levels {
    /// Returns `info`, and `warn` for third-party libraries.
    fn default() -> Levels {
        let mut levels = [3; SECTIONS.len()];
        levels[OTHER] = 2;
        Levels(levels)
    }
}

impl Levels {
    /// Sets the level of one section, or of `all`.
    pub fn set(&mut self, section: &str, word: &str) -> Result<(), String> {
        let number = LEVEL_NAMES.iter().position(|known| *known == word).map(|index| index as u8);
        let Some(number) = number else {
            return Err(format!("`{word}` is no level; there are {}", LEVEL_NAMES.join(", ")));
        };
        if section == "all" {
            self.0 = [number; SECTIONS.len()];
            self.0[OTHER] = number.min(2);
            return Ok(());
        }
        let Some(index) = SECTIONS.iter().position(|known| *known == section) else {
            if section == "doors" {
                return Err("the section `doors` is now called `server`".into());
            }
            return Err(format!(
                "`{section}` is no section; there are all, {}",
                SECTIONS.join(", ")
            ));
        };
        self.0[index] = number;
        Ok(())
    }
}

impl FromStr for Levels {
    type Err = String;

    /// Parses `info`, or `info,node=debug,store=warn`.
    fn from_str(text: &str) -> Result<Levels, String> {
        let mut levels = Levels::default();
        for part in text.split(',').map(str::trim) {
            let (section, level) = part.split_once('=').unwrap_or(("all", part));
            levels.set(section, level)?;
        }
        Ok(levels)
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, section) in SECTIONS.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{section}={}", level_name(self.0[index]))?;
        }
        Ok(())
    }
}

/// Levels in force. They may be changed while other threads read them.
#[derive(Default)]
pub struct LevelsInForce([AtomicU8; SECTIONS.len()]);

impl LevelsInForce {
    /// Returns the level of a section.
    pub fn of(&self, section: usize) -> u8 {
        self.0[section].load(Ordering::Relaxed)
    }

    /// Returns all levels.
    pub fn all(&self) -> Levels {
        Levels(std::array::from_fn(|section| self.of(section)))
    }

    /// Replaces the levels.
    pub fn replace(&self, levels: &Levels) {
        for (current, level) in self.0.iter().zip(levels.0) {
            current.store(level, Ordering::Relaxed);
        }
    }
}
