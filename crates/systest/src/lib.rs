//! System tests: checks of the source tree, and experiments with real processes and real faults.
//! Not shipped.
//!
//! Promises: an experiment touches only what it made, and removes it again, also when it fails.
//! Never: is imported by another crate; asserts a time that the machine, not the product, decides.
//! Read next: `tidy/mod.rs`, then `server.rs`, `workload/mod.rs`, `documents/mod.rs`,
//! `cluster/mod.rs` and `fault_injection/mod.rs`.

pub mod access;
pub mod bystanders;
pub mod canaries;
pub mod certificates;
pub mod checkers;
pub mod client;
pub mod cluster;
pub mod documents;
pub mod environment;
pub mod fault_injection;
pub mod latencies;
pub mod probes;
pub mod report;
pub mod server;
pub mod tidy;
pub mod workload;
