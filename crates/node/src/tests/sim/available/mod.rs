//! Simulation of whole clusters with available buckets in one thread from one seed: the product's
//! code on a simulated network, disk, clock and random number generator.
//!
//! Three to six nodes share a ring; clients write, replace and delete through any of them.
//! Meanwhile nodes crash, pause, are cut off, lose rows or whole disks, or return with an old copy
//! of their disk. In some histories nodes also join and leave the ring and replace each other,
//! partitions are doubled and halved, and changes are cancelled midway. Then the trouble ends; a
//! set of writes determines which values must be left, and the ring determines where.
//!
//! Promises: one seed produces one history.
//! Never: reads the real clock, or waits.
//! Read next: `world.rs`, `directory.rs`, then `judge.rs`. More seeds:
//! `CREDENZA_SEEDS=20000 cargo test -p node sim::available::seeds::available -- --nocapture`.

mod clients;
mod directory;
mod ending;
mod faults;
mod feeds;
mod fences;
mod guests;
mod hurried;
mod index_walks;
mod indexed;
mod judge;
mod lists;
mod lives;
mod node;
mod older;
mod owners;
mod passing;
mod seeds;
mod strays;
mod volume;
mod world;
