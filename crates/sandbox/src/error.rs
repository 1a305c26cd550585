//! Errors of calls.

use crate::limits::{CallLimits, ERROR_TEXT_BYTES_MAX, FunctionLimit};
use std::error::Error;
use std::fmt;

/// Reason for which a call did nothing.
#[derive(Debug)]
pub enum FunctionError {
    /// The code has no such entry.
    NoSuchFunction {
        /// Name of the entry.
        entry: String,
    },
    /// The function says that it failed.
    Failed {
        /// Number that its author chose; at least 1.
        code: i32,
        /// Text of its author.
        text: String,
    },
    /// The engine ended the function: a trap, an exception that nothing caught, or code that does
    /// not compile.
    Trapped {
        /// Description of the trap.
        text: String,
    },
    /// The function needed more than it was given.
    Limit {
        /// The limit.
        limit: FunctionLimit,
        /// Its value.
        most: u64,
    },
    /// The database refused a verb.
    Host(HostError),
}

impl FunctionError {
    /// Returns its reason as clients see it. `None`: the reason of the database's error is shown.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            FunctionError::NoSuchFunction { .. } => Some("no_such_function"),
            FunctionError::Failed { .. } | FunctionError::Trapped { .. } => Some("function_failed"),
            FunctionError::Limit { .. } => Some("function_limit"),
            FunctionError::Host(_) => None,
        }
    }

    /// Returns the error of a trap; a long text is cut.
    pub(crate) fn trapped(text: impl Into<String>) -> FunctionError {
        FunctionError::Trapped { text: cut(text.into(), ERROR_TEXT_BYTES_MAX) }
    }

    /// Returns the error of a call that reaches a limit.
    pub(crate) fn exceeded(limit: FunctionLimit, limits: &CallLimits) -> FunctionError {
        FunctionError::Limit { limit, most: limits.most(limit) }
    }

    /// Returns the error that the author of a function chose; a long text is cut.
    pub(crate) fn failed(code: i32, text: impl Into<String>) -> FunctionError {
        FunctionError::Failed { code: code.max(1), text: cut(text.into(), ERROR_TEXT_BYTES_MAX) }
    }
}

impl fmt::Display for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FunctionError::NoSuchFunction { entry } => {
                write!(f, "the function has no entry \"{entry}\": list its entries")
            }
            FunctionError::Failed { code, text } => {
                write!(f, "the function failed with code {code}: {text}")
            }
            FunctionError::Trapped { text } => write!(f, "the function was ended: {text}"),
            FunctionError::Limit { limit, most } => write!(
                f,
                "the function reached its limit \"{}\" of {most}: let it do less in a call, or \
                 raise the limit of the pack",
                limit.name()
            ),
            FunctionError::Host(error) => write!(f, "{error}"),
        }
    }
}

impl Error for FunctionError {}

/// Error of the database, which ends the call. The function can't catch it.
#[derive(Debug)]
pub struct HostError(Box<dyn Error + Send + Sync>);

impl HostError {
    /// Wraps an error of the caller.
    pub fn new(error: impl Error + Send + Sync + 'static) -> HostError {
        HostError(Box::new(error))
    }

    /// Returns the error of the caller, if it is of this type.
    pub fn downcast<E: Error + 'static>(self) -> Result<E, HostError> {
        self.0.downcast::<E>().map(|error| *error).map_err(HostError)
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Failure of a call, with what it used until then.
#[derive(Debug)]
pub struct CallFailure {
    /// The reason.
    pub error: FunctionError,
    /// Usage until then.
    pub usage: CallUsage,
}

/// Usage of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallUsage {
    /// Fuel.
    pub fuel: u64,
    /// Calls of the database.
    pub host_calls: u32,
}

/// Returns the longest front of a text that is no longer than so many bytes.
pub(crate) fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
    text
}
