//! Load generator: one load on one server, from its settings to its report.
//!
//! Knows settings of a run, drivers of servers, generated keys and values, clients and their
//! schedule, readers of feeds, measurements, reports and charts. It knows no command and no suite:
//! `bench` says which loads run, and starts and stops the servers.
//!
//! Promises: under an open load latency counts from the intended start; percentiles are of the
//! whole run; errors are counted by kind and kept out of the latencies; a run can be repeated from
//! its seed.
//! Never: starts a server's program; compares servers; is needed by a crate of the database.
//! Read next: `config/run.rs`, `load/worker.rs`, `drivers/mod.rs`.

pub mod charts;
pub mod config;
pub mod console;
pub mod coupons;
pub mod disk;
pub mod drivers;
pub mod error;
pub mod feeds;
pub mod generators;
pub mod job;
pub mod load;
pub mod machine;
pub mod report;
