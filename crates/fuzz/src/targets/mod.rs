//! Fuzz targets, by what reads the bytes.
//!
//! Promises: a target panics if and only if something does not hold that must.
//! Never: asserts what a member of a cluster is trusted with.
//! Read next: `replica.rs`, `log.rs`, `connections.rs`, `members.rs`.

pub mod codecs;
pub mod connections;
pub mod contexts;
pub mod data_dir;
pub mod directory;
pub mod feeds;
pub mod indexes;
pub mod log;
pub mod members;
pub mod peers;
pub mod records;
pub mod replica;
mod replica_host;
pub mod riak_pbc;
pub mod trees;
