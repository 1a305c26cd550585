//! Simulation of consistent buckets that move between groups under faults, in one thread from one
//! seed: the product's code, from the request to the log, on a simulated network, disk and clock.
//!
//! Three or four nodes have the directory and two groups; of four nodes, each group is on three.
//! Clients write, read and count through any node. Buckets are moved between the groups, and some
//! moves are cancelled, while nodes crash, pause and are cut off, and masters change. Then the
//! trouble ends: every move must end, and every answer must fit into one order.
//!
//! Promises: one seed produces one history.
//! Never: reads the real clock, or waits; truncates the log (`../world.rs` tests snapshots).
//! Read next: `world.rs`, then `judge.rs`. More seeds:
//! `CREDENZA_SEEDS=20000 cargo test -p node sim::moves::seeds::bucket_move -- --nocapture`.

mod clients;
mod counted;
mod declared;
mod ending;
mod faults;
mod fed;
mod idle;
mod indexed;
mod judge;
mod node;
mod seeds;
mod slow;
mod world;
