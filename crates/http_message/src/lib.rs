//! Subset of HTTP/1.1 that several front-ends share: heads, bodies, answers. Pure.
//!
//! It accepts less than the standard allows, and nothing that two parsers could read differently.
//! It refuses a request with two lengths, with a length and a transfer coding, with a repeated
//! header, or with bare line feeds.
//!
//! Promises: nothing panics, whatever bytes come; nothing is allocated for a claimed length.
//! Never: waits, or touches a socket; depends on routes or buckets.
//! Read next: `head.rs`, `chunks.rs`, `answer.rs`.

pub mod answer;
pub mod chunks;
pub mod date;
pub mod head;
mod method;
pub mod percent;

pub use answer::{AnswerContent, HttpAnswer, StatusCode};
pub use chunks::{Chunks, Decoded};
pub use head::{BodyFraming, Head, Parsed, RequestRefusal};
pub use method::Method;

#[cfg(test)]
mod tests;
