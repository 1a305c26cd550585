//! Program: what every program here does before and after its work: it reads the words of its
//! command line, says a failure, and ends with an exit code.
//!
//! Promises: a failure is one line, or one JSON object for those who ask for it, also where the
//! words can't be read; its exit code says what the caller can do.
//! Never: knows a command; does a program's work.
//! Read next: `run.rs`, then `failure.rs`.

mod beside;
mod failure;
mod run;
mod words;

pub use beside::beside_this_program;
pub use failure::{Failure, Outcome};
pub use run::run;
pub use words::{FormerWords, complaint};
