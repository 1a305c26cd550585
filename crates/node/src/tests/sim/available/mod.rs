//! Whole clusters with available buckets in one thread from one seed: the code that serves, with
//! another network, disk, clock and random numbers under it.
//!
//! Three to six nodes share a ring; clients write, replace and delete through any of them while
//! nodes crash, sleep, are cut off, lose rows or whole disks, or come back with an old copy of
//! theirs; and, in some histories, while nodes join and leave the ring, take each other's places,
//! partitions double and halve, and changes are called off midway. Then the trouble ends, and a set
//! of writes says what must be left, and the ring where.
//!
//! Promises: one seed is one history.
//! Never: asks the real time, or waits.
//! Read next: `world.rs`, `directory.rs`, then `judge.rs`. More:
//! `CREDENZA_SEEDS=20000 cargo test -p node sim::available::seeds::whatever -- --nocapture`.

mod clients;
mod directory;
mod ending;
mod faults;
mod guests;
mod hurried;
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
