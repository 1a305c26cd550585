//! Front-end for Arakoon's protocol, versions 1.6 to 1.9: its clients work unchanged.
//!
//! A cluster id names a consistent bucket (`clusters.rs`). Requests have neither length nor id: a
//! connection's requests are answered in order, and a client may pipeline any number. Like the RESP
//! front-end, this one submits all requests that have arrived, waits once and writes once.
//!
//! Promises: lists, return codes and messages are byte for byte what Arakoon's clients expect
//! (`docs/use/arakoon.md` names every difference); answers come in the order of the requests; no
//! answer that depends on an undecided update is sent; a claimed length never sizes a buffer.
//! Never: accepts updates that are internal to Arakoon; reads the cluster except in `views.rs`.
//! Read next: `commands.rs`, `frame.rs`, then `translate/mod.rs`, then `serve.rs`.

mod clusters;
mod commands;
mod counters;
mod errors;
mod frame;
mod login;
mod nursery;
mod output;
mod ranges;
mod registry;
mod serve;
mod statistics;
mod translate;
mod values;
mod views;

pub use clusters::bucket_of;
pub(crate) use errors::{starting_answer, too_many_clients_answer};
pub use frame::CLUSTER_ID_BYTES_MAX;
pub(crate) use registry::Registry;
pub(crate) use serve::serve;

#[cfg(test)]
mod tests;
