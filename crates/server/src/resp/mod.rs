//! Front-end for Redis' protocol (RESP), the fast one.
//!
//! A connection's task reads the available bytes, parses every complete request, and submits each
//! to the node without waiting. It writes the answers eagerly, waits once for the last of them to
//! be decided, and sends them with one system call. So one sync of the disk serves many requests of
//! many connections.
//!
//! Plain `GET`s in a row, and plain `SET`s, are submitted together (`runs.rs`); each stays a
//! request of its own.
//!
//! A request of an available bucket does not wait for a local sync but for replicas. Several such
//! requests of a pipeline are in flight together, within a window (`pipeline.rs`).
//!
//! Promises: answers come in the order of the requests; no answer that depends on an undecided
//! update is sent; a claimed length never sizes a buffer; a client that sends or reads too slowly
//! is cut off.
//! Never: keeps state beyond a connection, except names, counts and the cursors of scans.
//! Read next: `frame.rs`, then `translate/mod.rs`, then `serve.rs`.

mod client;
mod counting;
mod cursors;
mod errors;
mod feeds;
mod frame;
mod glob;
mod information;
mod inline;
mod large;
mod login;
mod multi_step;
mod operation;
mod output;
mod pipeline;
mod registry;
mod run_frames;
mod runs;
mod scans;
mod send;
mod serve;
mod translate;
mod window;

pub(crate) use registry::Registry;
pub(crate) use serve::serve;

#[cfg(test)]
mod tests;
