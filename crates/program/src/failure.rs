//! Failure of a command: one line that names the remedy, and an exit code that tells a script what
//! to do.

use base::{Error, Kind, Reason};
use serde_json::{Value, json};
use std::fmt;

/// Failure of a command.
#[derive(Debug)]
pub struct Failure {
    kind: Option<Kind>,
    /// Reason given by a node. `None`: the failure is the program's own.
    reason: Option<Reason>,
    text: String,
}

/// Result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Builds a failure of this kind from a sentence.
    pub fn new(kind: Kind, text: impl Into<String>) -> Failure {
        Failure { kind: Some(kind), reason: None, text: text.into() }
    }

    /// Appends text to the message.
    pub fn with_suffix(mut self, addition: &str) -> Failure {
        self.text.push_str(addition);
        self
    }

    /// Builds the failure of a command that ran, but whose answer is no (the key does not exist,
    /// say).
    pub fn negative(text: impl Into<String>) -> Failure {
        Failure { kind: None, reason: None, text: text.into() }
    }

    /// Builds the failure of a request that the caller must fix.
    pub fn invalid(text: impl Into<String>) -> Failure {
        Failure::new(Kind::Invalid, text)
    }

    /// Builds the failure to read or write a file.
    pub fn file(doing: &str, path: &std::path::Path, error: &std::io::Error) -> Failure {
        let kind = match error.kind() {
            std::io::ErrorKind::PermissionDenied => Kind::Denied,
            std::io::ErrorKind::StorageFull => Kind::Unavailable,
            _ => Kind::Invalid,
        };
        Failure::new(kind, format!("can't {doing} {}: {error}", path.display()))
    }

    /// Returns what the caller can do. `None`: the command ran, and its answer is no.
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Returns the node's reason. `None`: the failure is the program's own.
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Returns the sentence, without the prefix that names the node's reason.
    pub fn sentence(&self) -> &str {
        let prefix = self.reason.map_or("", Reason::name);
        let stripped = self.text.strip_prefix(prefix).and_then(|text| text.strip_prefix(": "));
        stripped.unwrap_or(&self.text)
    }

    /// Prints the failure to standard error: as a line that begins with the program's name, or as
    /// one JSON object.
    pub fn print(&self, program: &str, as_json: bool) {
        match as_json {
            true => eprintln!("{}", self.json()),
            false => eprintln!("{program}: {self}"),
        }
    }

    /// Returns the failure for programs: its kind, the node's reason if there is one, the sentence,
    /// the exit code.
    fn json(&self) -> Value {
        json!({
            "kind": self.kind.map_or("no", Kind::name),
            "reason": self.reason.map(Reason::name),
            "text": self.text,
            "exit_code": self.exit_code(),
        })
    }

    /// Returns the exit code of the process.
    pub fn exit_code(&self) -> u8 {
        self.kind.map_or(1, Kind::exit_code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let text = match error.reason {
            Reason::NotFound => format!("there is no key `{}`", error.text()),
            Reason::AssertionFailed => format!("an assertion did not hold: {}", error.text()),
            _ => error.to_string(),
        };
        Failure { reason: Some(error.reason), ..Failure::new(error.kind(), text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_is_serialized_as_a_single_json_object() {
        let error = Error::new(Reason::NoSuchBucket, "no bucket `a/b`: create it first");
        assert_eq!(
            Failure::from(error).json(),
            json!({ "kind": "invalid", "reason": "no_such_bucket",
                "text": "no_such_bucket: no bucket `a/b`: create it first", "exit_code": 2 })
        );
        assert_eq!(
            Failure::negative("there is no such key").json(),
            json!({ "kind": "no", "reason": null, "text": "there is no such key", "exit_code": 1 })
        );
    }

    #[test]
    fn error_kinds_map_to_exit_codes_2_to_7() {
        let kinds = Reason::ALL.map(|reason| Failure::from(Error::new(reason, "x")).exit_code());
        let mut codes = kinds.to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes, [2, 3, 4, 5, 6, 7]);
    }
}
