//! The consistent path: one order of updates per group, evaluated once, decided, logged, applied.
//!
//! A life of an update: `submit.rs` evaluates it into the open value (`evaluate/`, on a `view.rs`,
//! within a `budget.rs`); `driver.rs` closes the value, has consensus place it and the keeper log
//! it, and applies it when it is decided; `wait.rs` wakes its client.
//!
//! Promises: nothing is answered before it is decided; a value's effects become visible together.
//! Never: holds a lock across a wait; lets the driver wait for more than one evaluation
//! (`gate.rs`).
//! Read next: `group.rs` and `state.rs`, then `driver.rs`, then `evaluate/mod.rs`.

pub mod apply;
pub mod batch;
pub mod bucket;
mod budget;
mod catch_up;
pub mod clock;
mod compare;
pub mod comparison;
mod driver;
mod driver_handle;
mod effects;
mod evaluate;
mod expiry_index;
mod expiry_sweep;
mod flight;
mod gate;
pub mod group;
mod heavy;
mod in_flight;
mod inbox;
mod keeping;
pub mod layout;
mod leadership;
mod letter;
mod lifecycle;
mod log_progress;
pub mod maintenance;
mod master_state;
mod office;
pub mod outcome;
mod pace;
mod pager;
mod proposal_queue;
pub mod read;
mod read_requests;
mod receive;
mod reconfigure;
pub mod records;
pub mod recovered;
mod rests;
mod sealing;
pub mod seals;
mod send;
mod session;
mod shared;
pub mod snapshot;
mod state;
pub mod submit;
mod ticks;
mod torn;
mod tracker;
pub mod tracking;
mod turn_output;
pub mod value;
pub mod values;
pub mod view;
mod wait;
mod witness;

pub use compare::Comparing;
pub use evaluate::Weight;
pub use keeping::keep_value;
