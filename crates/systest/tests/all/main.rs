//! The one test binary of the workspace's system tests.

mod available;
mod causal;
mod cluster;
mod docs;
mod end_to_end;
mod faults;
mod formats;
mod limits_tried;
mod linear;
mod rigs;
mod rigs_network;
mod skips;
mod supply;
mod tidy;
mod tidy_faults;
