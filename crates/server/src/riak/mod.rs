//! Riak's protocol over HTTP: what its clients ask of objects, keys and buckets, and how they are
//! told.
//!
//! A request as words ([`Asked`]) becomes a [`Plan`], and what the node replies an [`Answer`] with
//! its bytes; `serve.rs` alone owns the socket. Three generations of paths name the same
//! things: `/riak/B/K`, `/buckets/B/keys/K`, `/types/T/buckets/B/keys/K`. A bucket without a type
//! is one of the type `available`; its name may be any bytes, and is percent-encoded inside.
//!
//! Promises: header names, texts of errors and the bytes of parts are those that Riak's clients
//! read; siblings are never hidden; whatever is sent, nothing panics.
//! Never: keeps state beyond a connection.
//! Read next: `path.rs`, `translate.rs`, `render.rs`, then `tests/conversations.rs`.

mod answer;
mod asked;
mod datatypes;
mod errors;
mod frame;
mod headers;
mod negotiate;
mod pages;
mod parameters;
mod parts;
mod path;
mod properties;
mod render;
mod serve;
mod statistics;
mod tally;
mod translate;

pub use answer::RiakResponse;
pub use asked::RiakRequest;
pub(crate) use path::{FIRST_SEGMENTS, is_riaks};
pub use render::render;
pub(crate) use serve::serve;
pub(crate) use tally::Tally;
pub use translate::{Look, RiakPlan, RiakShape, gather, go_on, next_page, plan};

#[cfg(test)]
mod tests;
