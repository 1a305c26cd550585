//! Redis' protocol: the fast native front-end.
//!
//! A connection's task reads what has arrived, takes every complete request apart, asks the node
//! for each without waiting, writes the answers down eagerly, waits once for the last of them to be
//! decided, and sends them with one system call. That is how one sync of the disk serves many
//! requests of many connections.
//!
//! What an available bucket is asked for does not wait for a sync of this node's but for replicas:
//! several requests of such a pipeline are under way together, within a window (`beside.rs`).
//!
//! Promises: answers come in the order of the requests; none that rests on an undecided update is
//! sent; a claimed length never sizes a buffer; a client that sends or reads too slowly is cut off.
//! Never: keeps state beyond a connection, but for names, counts and the cursors of scans.
//! Read next: `frame.rs`, then `translate/mod.rs`, then `serve.rs`.

mod beside;
mod client;
mod counting;
mod cursors;
mod errands;
mod errors;
mod frame;
mod glob;
mod information;
mod inline;
mod large;
mod operation;
mod output;
mod registry;
mod serve;
mod translate;
mod window;

pub(crate) use registry::Registry;
pub(crate) use serve::serve;

#[cfg(test)]
mod tests;
