//! Simulation of a whole consensus group in one thread, driven by one seed: replicas with their own
//! logs, stores and clocks, on a network and disks that fail.
//!
//! Promises: the same seed produces the same history. Under all faults, no two replicas decide
//! different values at one index, no acknowledged update is lost, and a read sees all updates that
//! were acknowledged before it. Without faults, the group makes progress and its members converge.
//! Never: inspects a replica's state in order to drive it.

mod disks;
mod faults;
pub mod judge;
mod mutants;
mod processes;
mod seeds;
mod world;
