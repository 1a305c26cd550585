//! The little HTTP/1.1 that several languages share: heads, bodies, answers. Pure.
//!
//! It reads less than the standard allows, and nothing that two readers could understand
//! differently: a request with two lengths, with a length and a coding, with a header twice, with
//! bare line feeds, is refused.
//!
//! Promises: nothing panics, whatever bytes come; nothing is allocated for a claimed length.
//! Never: waits, or touches a socket; knows a route or a bucket.
//! Read next: `head.rs`, `chunks.rs`, `answer.rs`.

pub mod answer;
pub mod chunks;
pub mod date;
pub mod head;
pub mod percent;

pub use answer::{AnswerContent, HttpAnswer, StatusCode};
pub use chunks::{Chunks, Decoded};
pub use head::{BodyFraming, Head, Method, Parsed, Refused};

#[cfg(test)]
mod tests;
