//! Load: the load tool, the core of a successor of Basho Bench; it may drive foreign servers.
//!
//! Knows the commands of the tool and its suites: it starts servers, puts the same load on each in
//! turn, and writes the pages that compare them. `load_generator` has the load itself.
//!
//! Promises: servers of a suite are compared on one machine, in turn, under the same load.
//! Never: is needed by a crate of the database; knows a protocol or measures a request itself.
//! Read next: `command.rs`, then `suite/mod.rs`.

#[cfg(test)]
mod charted;
mod codec;
mod command;
mod flame;
mod median;
mod quick;
mod suite;

pub use command::{BenchArguments, EXAMPLES, examples_of, run};
// A study in `research/` starts servers as suites do.
pub use suite::Process;
