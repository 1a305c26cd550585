//! JavaScript: modules of functions, and scripts that map and reduce.
//!
//! Promises: a call has a realm of its own; a realm has no clock, no randomness, no way to make
//! code from text, and constructors and prototypes that can't be changed; its memory, stack and
//! steps are bounded.
//! Never: loads a module; runs a job of a promise; keeps compiled code, which could only be
//! loaded unchecked.
//! Read next: `realm.rs`, `module.rs` and `verbs.rs`; `script.rs` has the scripts.

mod meter;
mod module;
mod realm;
mod script;
mod script_error;
mod verbs;

pub(crate) use module::{exported_functions, run};
pub use script::{Script, ScriptLimits};
