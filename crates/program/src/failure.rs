//! Failure of a command: one line that names the remedy, and an exit code that tells a script what
//! it can do.

use base::{Error, Kind, Reason};
use serde_json::{Value, json};
use std::fmt;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    kind: Option<Kind>,
    /// The node's reason, where a node answered with one.
    reason: Option<Reason>,
    text: String,
}

/// What a command gives.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Of this kind, with a sentence.
    pub fn new(kind: Kind, text: impl Into<String>) -> Failure {
        Failure { kind: Some(kind), reason: None, text: text.into() }
    }

    /// With more words behind it.
    pub fn and(mut self, words: &str) -> Failure {
        self.text.push_str(words);
        self
    }

    /// Nothing went wrong, but the answer is no (there is no such key, say).
    pub fn no(text: impl Into<String>) -> Failure {
        Failure { kind: None, reason: None, text: text.into() }
    }

    /// The request itself must be mended.
    pub fn invalid(text: impl Into<String>) -> Failure {
        Failure::new(Kind::Invalid, text)
    }

    /// A file could not be read or written.
    pub fn file(doing: &str, path: &std::path::Path, error: &std::io::Error) -> Failure {
        let kind = match error.kind() {
            std::io::ErrorKind::PermissionDenied => Kind::Denied,
            std::io::ErrorKind::StorageFull => Kind::Unavailable,
            _ => Kind::Invalid,
        };
        Failure::new(kind, format!("can't {doing} {}: {error}", path.display()))
    }

    /// What the caller can do; none when nothing went wrong.
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Why, in a node's words; none where the tool itself says so.
    pub fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// Says it on standard error: in a line that begins with the program's name, or as one JSON
    /// object.
    pub fn print(&self, program: &str, as_json: bool) {
        match as_json {
            true => eprintln!("{}", self.json()),
            false => eprintln!("{program}: {self}"),
        }
    }

    /// For programs: the kind, which says what to do; the node's reason, where a node gave one; the
    /// sentence; the exit code.
    fn json(&self) -> Value {
        json!({
            "kind": self.kind.map_or("no", Kind::word),
            "reason": self.reason.map(Reason::word),
            "text": self.text,
            "exit_code": self.exit_code(),
        })
    }

    /// The process' exit code.
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
    fn a_failure_is_one_object_for_programs() {
        let error = Error::new(Reason::NoSuchBucket, "no bucket `a/b`: create it first");
        assert_eq!(
            Failure::from(error).json(),
            json!({ "kind": "invalid", "reason": "no_such_bucket",
                "text": "no_such_bucket: no bucket `a/b`: create it first", "exit_code": 2 })
        );
        assert_eq!(
            Failure::no("there is no such key").json(),
            json!({ "kind": "no", "reason": null, "text": "there is no such key", "exit_code": 1 })
        );
    }

    #[test]
    fn every_kind_has_an_exit_code_of_its_own() {
        let kinds = Reason::ALL.map(|reason| Failure::from(Error::new(reason, "x")).exit_code());
        let mut codes = kinds.to_vec();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes, [2, 3, 4, 5, 6, 7]);
    }
}
