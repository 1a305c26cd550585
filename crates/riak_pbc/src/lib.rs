//! Riak's Protocol Buffers interface as bytes and values: frames, messages, and what they say in
//! the types of `base`. Pure.
//!
//! A frame is a length (4 bytes, big-endian, of all that follows), a code and a message.
//!
//! Promises: nothing panics, whatever bytes come; nothing is allocated for a claimed length; the
//! number of fields in a message and the nesting of its messages are bounded before it is decoded.
//! Never: waits, or touches a socket; decides about rights or names of buckets.
//! Read next: `frame.rs`, `request.rs`, `structure.rs`.

mod answer;
mod content;
mod datatypes;
mod frame;
mod messages;
mod options;
mod properties;
mod request;
mod structure;

pub use answer::{PbcAnswer, append_answer, append_empty, append_error, code};
pub use content::{to_content, to_rpb_content};
pub use datatypes::{
    InvalidOperation, counter_sum, to_dt_fetch_resp, to_dt_update_resp, to_operation,
};
pub use frame::{FRAME_HEAD_BYTES, Framed, append_frame, next_frame};
pub use messages::*;
pub use options::{ReadOptions, WriteOptions, timeout_ms};
pub use properties::{to_json, to_rpb_props};
pub use request::{DecodeError, PbcRequest};

#[cfg(test)]
mod tests;
