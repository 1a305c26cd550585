//! Engine of deterministic simulation: clocks, scheduler, network, process ends, faults and seeds.
//! Workloads and judges are in the tests of the crates that are simulated.
//!
//! The engine uses only the clock and the tasks of the product ([`runtime::world`]). It serves two
//! kinds of simulators: those that drive state machines take events from an [`EventQueue`]; those
//! that run asynchronous code run it as tasks of a [`Scheduler`], whose timers are such a queue.
//!
//! Promises: one seed produces the same history in every process.
//! Never: reads the real clock, or waits; is linked into a shipped program.
//! Read next: `scheduler.rs`, `network.rs`, `suite.rs` (choice of seeds, and the report).

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
#[cfg(test)]
mod tests;

pub use chance::Chance;
pub use clock::SimClock;
pub use faults::{FaultSchedule, FaultTarget};
pub use journal::{Counts, Journal};
pub use leaks::{forget_watched, watch};
pub use mutation::{MutationCheck, panic_text};
pub use network::{FaultyNetwork, Inbox, NetworkEnd, NetworkLink, Posting, SentMessages};
pub use profile::{Cuts, FaultProfile, directions_between, directions_from, directions_to};
pub use queue::{EventKey, EventQueue};
pub use scheduler::{Scheduler, WakeUps};
pub use suite::{History, Suite, is_long, run_seeds};
