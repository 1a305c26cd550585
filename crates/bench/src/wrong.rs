//! Errors of the load tool.

use base::Kind;
use program::Failure;
use std::fmt;

/// An error: one sentence, and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// `Invalid`: the request must be corrected. `Unavailable`: the request is correct, the server
    /// could not be reached.
    pub kind: Kind,
    /// Description of the error.
    pub text: String,
}

impl Wrong {
    /// Returns the error of a server that could not be reached or was lost.
    pub fn unreachable(text: impl Into<String>) -> Wrong {
        Wrong { kind: Kind::Unavailable, text: text.into() }
    }
}

impl From<String> for Wrong {
    fn from(text: String) -> Wrong {
        Wrong { kind: Kind::Invalid, text }
    }
}

impl From<&str> for Wrong {
    fn from(text: &str) -> Wrong {
        Wrong::from(text.to_string())
    }
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Failure {
        Failure::new(wrong.kind, wrong.text)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
