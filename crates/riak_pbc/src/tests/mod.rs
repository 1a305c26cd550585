//! Tests of frames and messages: fixed bytes, round trips, and hostile bytes.

mod golden;
mod hostile;
mod meaning;
mod round_trips;

use crate::{Framed, PbcRequest, append_frame, next_frame};
use bytes::Bytes;
use prost::Message;

/// Returns the frame of a message.
fn frame(code: u8, message: &impl Message) -> Vec<u8> {
    let mut out = Vec::new();
    append_frame(&mut out, code, message);
    out
}

/// Decodes the frame of a request, which must be whole.
fn request(frame: &[u8]) -> PbcRequest {
    let Framed::Complete { code, bytes } = next_frame(frame) else { panic!("{frame:?}") };
    assert_eq!(bytes, frame.len());
    PbcRequest::decode(code, Bytes::copy_from_slice(&frame[5..])).expect("a request")
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}
