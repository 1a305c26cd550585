//! A whole group in one thread, driven by one seed: replicas with logs, stores and clocks of their
//! own, on a network and disks that fail.
//!
//! Promises: the same seed is the same history; whatever happens, what one replica decided no other
//! contradicts, what was acknowledged stays, and a read sees all that was acknowledged before it;
//! without faults, the group goes on and its members are level.
//! Never: looks into a replica to drive it.

mod disks;
mod faults;
pub mod judge;
mod mutants;
mod processes;
mod seeds;
mod world;
