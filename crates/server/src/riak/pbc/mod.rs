//! Front-end for Riak's Protocol Buffers interface, on a listener of its own.
//!
//! The crate `riak_pbc` has the frames and messages. A message becomes the same request to the node
//! as its counterpart of the HTTP interface: names of buckets, properties, index entries, queries
//! and deletes have their one meaning in the folder above.
//!
//! Promises: a request is answered before the next is carried out; a condition that can't be
//! checked fails the write.
//! Never: keeps state beyond a connection.
//! Read next: `plan.rs`, `render.rs`, `serve.rs`.

mod errors;
mod login;
mod pages;
mod plan;
mod render;
mod serve;

pub(crate) use serve::serve;

#[cfg(test)]
mod tests;
