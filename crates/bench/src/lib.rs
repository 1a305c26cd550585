//! Load: the load tool, the core of a successor of Basho Bench; it may drive foreign servers.
//!
//! Promises: under an open load latency counts from the intended start; percentiles are of the
//! whole run; errors are counted by kind and kept out of the latencies; a run can be repeated from
//! its seed.
//! Never: is needed by a room of the database.
//! Read next: `config/run.rs`, `load/worker.rs`, `drivers/mod.rs`.

#[cfg(test)]
mod charted;
mod charts;
mod codec;
mod command;
mod config;
mod console;
mod disk;
mod drivers;
mod dvv;
mod generators;
mod job;
mod load;
mod machine;
mod median;
mod program;
mod quick;
mod report;
mod suite;
mod wrong;

pub use command::{BenchArguments, EXAMPLES, examples_of, run};
pub use wrong::Wrong;
