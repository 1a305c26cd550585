//! Consistent buckets that move between groups while everything goes wrong, in one thread from one
//! seed: the code that serves, from the request to the log, with another network, another disk and
//! another clock under it.
//!
//! Three or four nodes have the directory and two groups; of four, each group is on three. Clients
//! write, read and count through any node, and somebody sends buckets from group to group and calls
//! some back, while nodes crash, sleep and are cut off and masters change. Then the trouble ends:
//! every move must end, and every answer must fit into one order.
//!
//! Promises: one seed is one history.
//! Never: asks the real time, or waits; lets go of the log (snapshots are `../world.rs`'s).
//! Read next: `world.rs`, then `judge.rs`. More of them:
//! `CREDENZA_SEEDS=20000 cargo test -p node sim::moves::seeds::whatever -- --nocapture`.

mod clients;
mod ending;
mod faults;
mod judge;
mod node;
mod seeds;
mod slow;
mod world;
