//! Front-end for Riak's HTTP interface: objects, keys, buckets, indexes, data types.
//!
//! A parsed request ([`RiakRequest`]) becomes a [`RiakPlan`], and the node's reply a
//! [`RiakResponse`]; only `serve.rs` owns the socket. Three generations of paths name the same
//! resources: `/riak/B/K`, `/buckets/B/keys/K`, `/types/T/buckets/B/keys/K`. A bucket without a
//! type has the type `available`. Its name may be any bytes and is stored percent-encoded.
//!
//! `pbc/` serves the Protocol Buffers interface with the same meaning.
//!
//! Promises: header names, error texts and the bytes of parts are those that Riak's clients read;
//! siblings are never hidden; no input causes a panic.
//! Never: keeps state beyond a connection.
//! Read next: `path.rs`, `translate.rs`, `render.rs`, then `tests/conversations.rs`.

mod answer;
mod counters;
mod datatypes;
mod deadline;
mod errors;
mod frame;
mod headers;
mod index_answer;
mod index_query;
mod lists;
mod login;
mod negotiate;
mod page_stream;
mod pages;
mod parameters;
mod parts;
mod path;
pub(crate) mod pbc;
mod properties;
mod render;
mod request;
mod serve;
mod statistics;
mod stream_form;
mod translate;

pub use answer::RiakResponse;
pub(crate) use counters::RiakCounters;
pub use lists::{append_page, next_page};
pub(crate) use path::{FIRST_SEGMENTS, is_riak_path};
pub use render::render;
pub use request::RiakRequest;
pub(crate) use serve::serve;
pub use translate::{PendingPlan, RiakPlan, RiakShape, plan, plan_after_read};

#[cfg(test)]
mod tests;
