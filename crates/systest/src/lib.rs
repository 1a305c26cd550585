//! System tests: checks of the source tree, and experiments with real processes and real faults.
//! Not shipped.
//!
//! Promises: an experiment touches only what it made, and removes it again, also when it fails.
//! Never: is imported by another crate; asserts a time that the machine, not the product, decides.
//! Read next: `tidy/mod.rs`, then `server.rs`, `load.rs`, `recorder/mod.rs` and `rigs/mod.rs`.

pub mod attentive;
pub mod checkers;
pub mod client;
pub mod everyday;
pub mod history;
pub mod load;
pub mod orders;
pub mod probes;
pub mod recorder;
pub mod report;
pub mod rigs;
pub mod server;
pub mod tidy;
pub mod transactor;
