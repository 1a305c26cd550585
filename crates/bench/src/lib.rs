//! Load: the load tool, the core of a successor of Basho Bench; it may drive foreign servers.
//!
//! Promises: under an open load latency counts from the intended start; percentiles are of the
//! whole run; errors are counted by kind and kept out of the latencies; a run can be repeated from
//! its seed.
//! Never: is needed by a crate of the database.
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
mod error;
mod flame;
mod generators;
mod job;
mod load;
mod machine;
mod median;
mod quick;
mod report;
mod suite;

pub use command::{BenchArguments, EXAMPLES, examples_of, run};
pub use error::BenchError;

// Parts that studies in `research/` use: the same keys, mixes, loads and charts.
pub use charts::{Axis, Chart, Scale, Series, short};
pub use config::{Operation, named_mix};
pub use console::print;
pub use generators::{KeyStream, Numbers, SeededRng};
pub use job::measure;
pub use load::{Causality, Collected, new_histogram};
pub use machine::{Machine, allow_many_files};
pub use report::{Percentiles, progress_bar, time_name};
pub use suite::Process;
