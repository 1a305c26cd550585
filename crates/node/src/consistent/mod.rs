//! The consistent path: one order of updates per group, evaluated once, decided, logged, applied.
//!
//! A life of an update: `submit.rs` evaluates it into the open value (`evaluate/`, on a `view.rs`,
//! within a `budget.rs`); `driver.rs` closes the value, has consensus place it and the keeper log
//! it, and applies it when it is decided; `wait.rs` wakes its client.
//!
//! Promises: nothing is answered before it is decided; a value's effects become visible together.
//! Never: holds a lock across a wait; lets the driver wait for more than one evaluation
//! (`gate.rs`).
//! Read next: `group.rs`, then `driver.rs`, then `evaluate/mod.rs`.

pub(crate) mod apply;
pub(crate) mod batch;
pub(crate) mod budget;
mod catch_up;
pub(crate) mod check;
pub(crate) mod clock;
pub(crate) mod comparison;
pub(crate) mod driver;
mod evaluate;
mod expiry_index;
mod flight;
mod gate;
pub(crate) mod group;
mod heavy;
mod in_flight;
pub(crate) mod layout;
mod office;
pub(crate) mod outcome;
mod pace;
pub(crate) mod pager;
pub(crate) mod read;
mod receive;
pub(crate) mod records;
mod rests;
pub(crate) mod seals;
mod send;
mod session;
pub(crate) mod snapshot;
pub(crate) mod submit;
pub(crate) mod ticks;
mod torn;
pub(crate) mod tracking;
pub(crate) mod value;
pub(crate) mod values;
pub(crate) mod view;
mod wait;
pub(crate) mod witness;

pub(crate) use evaluate::Weight;

use crate::keeper::Done;
use base::Error;

/// Where the keeper puts what it has written.
pub(crate) trait Mailbox: Send + Sync {
    /// These records are as firm as they asked to be.
    fn done(&self, done: &[Done]);
    /// Nothing more will be written.
    fn failed(&self, error: Error);
}
