//! Simulation of consistent groups in one thread from one seed: the product's code on the engine in
//! the crate `sim`. One to three groups share each node's log, store and disk.
//!
//! `logic`'s simulator tests the protocol; this one tests the code around it: the driver, log
//! records, payloads, tickets, leases of reads, recovery. A crash leaves a state of the log that a
//! power failure may leave, and of the trees what was flushed. Disks fail, and processes end while
//! the machine keeps its page cache.
//!
//! Promises: one seed produces one history.
//! Never: reads the real clock, or waits.
//! Read next: `world.rs`, then `judge.rs`. More seeds: `CREDENZA_SEEDS=20000 cargo test -p node
//! sim::seeds::consistent -- --nocapture`; one seed again, in all suites: `./check seed N`.

mod available;
mod behind;
mod clients;
mod costs;
mod counted;
mod dropped;
mod ending;
mod errors;
mod failover;
mod faults;
mod fed;
mod flavours;
mod indexed;
mod installing;
mod judge;
mod links;
mod moves;
mod mutants;
mod network;
mod node;
mod process;
mod rot;
mod rows;
mod seeds;
mod snapshots;
mod steps;
mod transport;
mod world;

pub(crate) use indexed::definition as index_definition;
pub(crate) use transport::{Outbox, outbox_peers};
