//! Why the load tool did not do what it was asked.

use base::Kind;
use program::Failure;
use std::fmt;

/// One sentence, and what the caller can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// `Invalid`: mend the request. `Unavailable`: nothing is wrong with it, the server is not
    /// there.
    pub kind: Kind,
    /// What is wrong.
    pub text: String,
}

impl Wrong {
    /// The server could not be reached, or did not stay.
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
