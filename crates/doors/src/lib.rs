//! One folder per client language; each only translates.
//!
//! Promises: every door enforces the limits of `base::limits` before it allocates.
//! Never: imports `logic` or `store`; keeps state beyond a connection; does more than translate.
//! Read next: `listener.rs`, then `resp/mod.rs`.

mod log_levels;
pub mod native;
pub mod resp;

pub use log_levels::LogLevels;
