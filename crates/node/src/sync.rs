//! Locks and condition variables of the threads that share the log: the standard library's.
//!
//! In tests they are wrapped: where a test lets one thread run at a time (`sync/turns.rs`), who
//! runs next is drawn whenever one comes to a lock, so that one seed is one interleaving.

#[cfg(not(test))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(test)]
mod turns;
#[cfg(test)]
mod wrapped;
#[cfg(test)]
pub(crate) use turns::{Turns, point};
#[cfg(test)]
pub(crate) use wrapped::{Condvar, Mutex, MutexGuard};
