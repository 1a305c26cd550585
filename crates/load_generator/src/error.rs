//! Errors of the load tool.

use base::Kind;
use program::Failure;
use std::fmt;

/// An error: one sentence, and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchError {
    /// `Invalid`: the request must be corrected. `Unavailable`: the request is correct, the server
    /// could not be reached.
    pub kind: Kind,
    /// Description of the error.
    pub text: String,
}

impl BenchError {
    /// Returns the error of a server that could not be reached, or whose connection was lost.
    pub fn unavailable(text: impl Into<String>) -> BenchError {
        BenchError { kind: Kind::Unavailable, text: text.into() }
    }
}

impl From<String> for BenchError {
    fn from(text: String) -> BenchError {
        BenchError { kind: Kind::Invalid, text }
    }
}

impl From<&str> for BenchError {
    fn from(text: &str) -> BenchError {
        BenchError::from(text.to_string())
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Failure {
        Failure::new(error.kind, error.text)
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
