//! Small blocking clients of both doors, for tests.
//!
//! Promises: a client tells apart what was acknowledged, what was refused and what stays unknown.
//! Never: retries by itself; hides bytes it did not expect.
//! Read next: `resp.rs`, then `http.rs`.

mod http;
mod resp;

pub use http::{Answer, Http, encoded};
pub use resp::{Resp, Word, command};

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Acknowledged.
    Ok,
    /// Refused: surely nothing happened.
    Fail,
    /// It may have happened.
    Info,
}
