//! The one test binary of the workspace's system tests.

mod access;
mod available;
mod causal;
mod checklist;
mod cluster;
mod docs;
mod end_to_end;
mod fault_injection;
mod fault_injection_network;
mod faults;
mod formats;
mod limit_coverage;
mod linear;
mod skips;
mod supply;
mod tidy;
mod tidy_crate_faults;
mod tidy_faults;
