//! Clock, chance and tasks; counters, samples and warnings; mutants.
//!
//! Promises: whoever asks for the time, a random number or a task asks here, so that a simulation
//! takes the place of all of them at once.
//! Never: knows a group, a vnode or a peer.
//! Read next: `world.rs`.

pub mod complaint;
pub mod disk_space;
pub mod file_tasks;
pub mod log_writer;
pub mod maintenance_signal;
pub mod metrics;
pub mod mutants;
pub mod sample;
pub mod submit;
pub mod sync;
pub mod world;

pub use complaint::Complaint;
pub use disk_space::DiskSpace;
pub use file_tasks::{FileTask, FileTasks};
pub use maintenance_signal::MaintenanceSignal;
pub use metrics::Metrics;
pub use sample::{Sample, SampleKind};
