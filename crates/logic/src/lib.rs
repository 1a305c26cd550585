//! Decide: state machines and plain functions that touch nothing.
//!
//! Promises: `step(event) -> effects`; the effects are to be carried out in the order in which they
//! stand.
//! Never: waits, reads a clock, touches a file or socket, starts a thread, rolls dice, depends on
//! hash order.
//! Read next: `consensus/mod.rs`, `causal/mod.rs`, `types/mod.rs`.

pub mod causal;
pub mod consensus;
pub mod members;
pub mod quorum;
pub mod ring;
pub mod sync;
pub mod types;
