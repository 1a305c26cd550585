//! Runtime services: clock, randomness and tasks; watchdog; log writer; pauses of writers; pace of
//! builds; counters, samples and warnings; figures of the process; mutants.
//!
//! Promises: all code takes time, random numbers and tasks from here, so a simulation replaces all
//! of them at once; every task has a parent (`tasks.rs`).
//! Never: depends on groups, vnodes or peers.
//! Read next: `world.rs`.

pub mod beat;
pub mod build_pacer;
pub mod disk_space;
pub mod file_tasks;
pub mod join_set;
mod latency_histogram;
pub mod log_writer;
pub mod maintenance_signal;
pub mod metrics;
pub mod mutants;
pub mod named_counters;
pub mod process;
pub mod round;
pub mod sample;
pub mod submit;
pub mod sync;
pub mod tasks;
pub mod warning_limiter;
pub mod watchdog;
pub mod world;
pub mod write_latencies;
pub mod write_pacer;

pub use beat::{Activity, Beat, BeatStatus, Watch};
pub use build_pacer::BuildPacer;
pub use disk_space::DiskSpace;
pub use file_tasks::{FileTask, FileTasks};
pub use maintenance_signal::MaintenanceSignal;
pub use metrics::Metrics;
pub use sample::{Sample, SampleKind};
pub use tasks::TaskScope;
pub use tokio_util::sync::CancellationToken;
pub use warning_limiter::WarningLimiter;
pub use watchdog::Watchdog;
pub use write_latencies::WriteLatencies;
pub use write_pacer::{WritePacer, WriterPauses};
