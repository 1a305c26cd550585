//! Engine of deterministic simulation: clock, scheduler, network, processes' ends, faults, seeds.
//! Workloads and judges are in the tests of the crates that are simulated.
//!
//! The engine knows nothing of the product but its clock and its tasks ([`runtime::world`]). Two
//! kinds of simulators stand on it: those that drive state machines take events from an
//! [`EventQueue`], and those that run asynchronous code run it as tasks of a [`Scheduler`], whose
//! timers are such a queue.
//!
//! Promises: one seed is one history, in every process.
//! Never: asks the real time, or waits; is linked into a program that is shipped.
//! Read next: `scheduler.rs`, `network.rs`, `suite.rs` (which seeds run, and what is reported).

mod chance;
mod clock;
mod faults;
mod journal;
mod leaks;
mod mutation;
mod network;
mod profile;
mod queue;
mod scheduler;
mod suite;

pub use chance::Chance;
pub use clock::SimClock;
pub use faults::{FaultSchedule, FaultTarget};
pub use journal::{Counts, Journal};
pub use leaks::{forget_watched, watch};
pub use mutation::{MutationCheck, panic_text};
pub use network::{Inbox, Network, NetworkEnd, NetworkLink, Posting};
pub use profile::{Cuts, FaultProfile, ways_between, ways_from, ways_to};
pub use queue::{EventKey, EventQueue};
pub use scheduler::Scheduler;
pub use suite::{History, Suite, is_long, run_seeds};
