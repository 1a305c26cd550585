//! Judges of what clients saw: may a correct store have answered so?
//!
//! Promises: a judge gives one of three answers: it holds, it does not (and where), or it could not
//! be decided within the work it was allowed. No answer is never taken for a good one.
//! Never: asks the server; believes a history in which one client speaks twice at once.
//! Read next: `calls.rs` (what a history is), `linear.rs`, then `search.rs`; `replay/` judges by
//! the log that decided; `causal.rs` judges the available buckets.

mod calls;
pub mod causal;
mod linear;
pub mod replay;
mod search;
pub mod transactions;

pub use calls::{CallOperation, CallOutcome, CallValue, ClientCall};
pub use linear::{LinearReport, LinearVerdict, Violation, check};
