//! The consistent path: one order of updates per group, evaluated once, decided, logged, applied.
//!
//! Path of an update: `submit.rs` (`set_run.rs` for several sets) evaluates it into the open entry
//! (`evaluate/`, on an `overlay.rs`, within a `budget.rs`); `driver.rs` closes the entry, has
//! consensus place it and the log writer log it, and applies it when it is decided; `wait.rs` wakes
//! its client.
//!
//! Promises: nothing is answered before it is decided; an entry's effects become visible together.
//! Never: holds a lock across a wait; lets the driver wait for more than one evaluation
//! (`gate.rs`).
//! Read next: `group.rs` and `state.rs`, then `driver.rs`, then `evaluate/mod.rs`.

pub mod apply;
mod batching;
pub mod bucket;
mod budget;
mod catch_up;
pub mod change_capture;
pub mod clock;
mod compare;
pub mod count_scan;
pub mod counts;
mod dirty_keys;
mod driver;
mod driver_handle;
mod effect_merge;
mod effects;
pub mod entries;
pub mod entry_times;
mod evaluate;
mod expiry_index;
mod expiry_sweep;
mod feed;
mod flow_control;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gate;
pub mod group;
pub mod group_indexes;
mod heavy;
mod in_flight;
mod inbox;
pub mod index_query;
mod indexing;
pub mod installation;
mod large;
mod leadership;
mod lifecycle;
mod log_progress;
pub mod maintenance;
mod master_state;
mod mastership;
pub mod outcome;
mod outgoing_message;
pub mod overlay;
pub mod point_reads;
mod proposal_queue;
pub mod read;
mod read_requests;
mod receive;
mod recent_removals;
mod reconfigure;
pub mod records;
pub mod recovered;
mod row_change;
mod row_counting;
mod sealing;
pub mod seals;
mod send;
mod send_window;
pub mod session;
pub mod session_counts;
mod set_run;
mod shared;
mod state;
pub mod submit;
mod ticks;
mod torn;
mod turn_output;
mod wait;
mod witness;
mod witness_log;

pub use compare::GroupComparison;
pub use evaluate::Weight;
pub use feed::TrimStep;
pub use indexing::IndexStep;
pub use witness_log::append_entry;
