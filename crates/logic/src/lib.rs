//! Protocol logic: state machines and functions without side effects.
//!
//! Promises: `step(event) -> effects`; the host carries the effects out in the order in which they
//! are listed.
//! Never: waits, reads a clock, touches a file or socket, starts a thread, uses randomness, depends
//! on hash order.
//! Read next: `consensus/mod.rs`, `causal/mod.rs`, `types/mod.rs`.

pub mod causal;
pub mod consensus;
pub mod coverage;
pub mod members;
pub mod quorum;
pub mod ring;
pub mod sync;
pub mod types;
