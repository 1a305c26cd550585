//! The native front-end: HTTP and JSON, readable, everything.
//!
//! A connection reads all requests that have arrived, submits each, encodes the answers, waits once
//! for the last ticket, and writes once: that is how one sync serves many.
//!
//! Promises: an answer is said only after its update is decided; what is read is bounded before it
//! is kept.
//! Never: shows a stored value to a browser as anything but a file; says which keys or values it
//! saw in a log.
//! Read next: `routes.rs` (the table), `connection.rs`, then `translate.rs` and `render.rs`.

mod admission;
mod checkpoints;
mod client;
mod connection;
mod constants;
mod emptying;
mod errors;
mod json;
mod key_pages;
mod moves;
mod openapi;
mod operators;
mod output;
mod parameters;
mod ranges;
mod render;
mod ring;
mod routes;
mod schemas;
mod siblings;
mod stream;
mod table;
mod target;
mod translate;

pub use client::{NativeClient, SentRequest, WireResponse};
pub(crate) use connection::serve;

#[cfg(test)]
mod tests;
