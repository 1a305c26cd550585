//! Program shell: what every program of this workspace does before and after its work. It parses
//! the command line, with its sizes and times and its files of secrets, reports a failure, and ends
//! with an exit code.
//!
//! Promises: a failure is one line, or one JSON object where the command line asks for it, even if
//! the rest of the line can't be parsed; the exit code says what the caller can do.
//! Never: knows a command; does a program's work.
//! Read next: `run.rs`, then `failure.rs`.

mod executables;
mod failure;
mod run;
pub mod secret_file;
pub mod units;
mod usage_error;

pub use executables::sibling_program;
pub use failure::{Failure, Outcome};
pub use run::run;
pub use usage_error::{RemovedArgumentHint, format_usage_error};
