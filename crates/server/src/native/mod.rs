//! Native front-end: HTTP and JSON, with every function.
//!
//! A connection reads all requests that have arrived, submits each, encodes the answers, waits once
//! for the last ticket, and writes once. So one sync serves many requests.
//!
//! Promises: an answer is sent only after its update is decided; input is bounded before it is
//! stored.
//! Never: serves a stored value to a browser except as a file; logs keys or values.
//! Read next: `routes.rs` (the table), `connection.rs`, then `translate.rs` and `render.rs`.

mod access;
mod admission;
mod checkpoints;
mod conditional;
mod confirmation;
mod connection;
mod constants;
mod declared_indexes;
mod emptying;
mod errors;
mod feed;
mod feed_messages;
mod feed_stream;
mod hot;
mod import;
mod json;
mod key_pages;
pub(crate) mod local;
mod login;
mod moves;
mod openapi;
mod operators;
mod output;
mod parameters;
mod ranges;
mod reload;
mod render;
mod ring;
mod route_needs;
mod route_operations;
mod routes;
mod schemas;
mod siblings;
mod slow;
mod stream;
mod table;
mod target;
mod translate;

pub(crate) use connection::serve;

#[cfg(test)]
mod tests;
