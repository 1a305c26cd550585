//! Simulation of consistent groups in one thread from one seed: the product's code on the engine in
//! the crate `sim`. One to three groups share each node's log, store and disk.
//!
//! What `logic`'s simulator proves of the protocol, this one tries on everything around it: the
//! driver, the records of the log, the values' bytes, tickets, leases as reads feel them, recovery.
//! A crash leaves what a power cut may leave of the log, and of the store what was flushed. Disks
//! fail, and processes end and leave the system its memory.
//!
//! Promises: one seed is one history.
//! Never: asks the real time, or waits.
//! Read next: `world.rs`, then `judge.rs`. More of them:
//! `CREDENZA_SEEDS=20000 cargo test -p node sim::seeds::whatever -- --nocapture`; one again, in all
//! suites: `./check seed N`.

mod available;
mod behind;
mod clients;
mod costs;
mod ending;
mod errors;
mod faults;
mod flavours;
mod judge;
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
