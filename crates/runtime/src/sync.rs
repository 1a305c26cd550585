//! Locks and condition variables of the threads that share the log: the standard library's.
//!
//! In builds with debug assertions they are wrapped. Where a test lets one thread run at a time
//! (`sync/thread_scheduler.rs`), the next thread is drawn at every lock, so that one seed is one
//! interleaving.

#[cfg(not(debug_assertions))]
pub use std::sync::{Condvar, Mutex, MutexGuard};

#[cfg(debug_assertions)]
mod thread_scheduler;
#[cfg(debug_assertions)]
mod wrapped;
#[cfg(debug_assertions)]
pub use thread_scheduler::{ThreadScheduler, point};
#[cfg(debug_assertions)]
pub use wrapped::{Condvar, Mutex, MutexGuard};
