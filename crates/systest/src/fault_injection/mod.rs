//! Fault injection into real processes: file systems that lose power or fill up, system calls that
//! fail, networks that delay and lose, clocks that jump, limits, damaged files.
//!
//! Promises: a mount, network, group or trace is removed when it is dropped, and the remains of a
//! killed run are removed by the next.
//! Never: touches a device, mount, group, namespace or process that the test did not make; changes
//! the machine's clock.
//! Read next: `mount.rs`, then `trace.rs`, `network.rs` and `../cluster/mod.rs`.

mod clock;
mod corrupt;
pub mod file_damage;
mod group;
mod mount;
mod network;
mod switch;
mod trace;

pub use clock::NodeClock;
pub use group::{DiskGroup, MemoryGroup};
pub use mount::{FileSystem, Frozen, Mount};
pub use network::Network;
pub use switch::{Cable, LinkCounts};
pub use trace::Trace;
