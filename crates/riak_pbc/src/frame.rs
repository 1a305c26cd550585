//! Frames: where the next one ends, and how one is written.

use base::limits::FRAME_BYTES_MAX;
use prost::Message;

/// Bytes of the length in front of a frame.
const LENGTH_BYTES: usize = 4;
/// Bytes of a frame in front of its message: length and code.
pub const FRAME_HEAD_BYTES: usize = LENGTH_BYTES + 1;

/// Beginning of the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed {
    /// A whole frame: its code, and its length with its head.
    Complete {
        /// Code of the message.
        code: u8,
        /// Bytes of the frame, its head among them.
        bytes: usize,
    },
    /// The beginning of a frame that has this many bytes; fewer are known of its head.
    Incomplete(usize),
    /// A length that no frame has: 0, or more than `FRAME_BYTES_MAX`. What follows is lost.
    Invalid(u32),
}

/// Finds the frame at the beginning of the input.
pub fn next_frame(input: &[u8]) -> Framed {
    let Some(length) = input.first_chunk::<LENGTH_BYTES>() else {
        return Framed::Incomplete(FRAME_HEAD_BYTES);
    };
    let length = u32::from_be_bytes(*length);
    let bytes = LENGTH_BYTES.saturating_add(length as usize);
    if length == 0 || bytes > FRAME_BYTES_MAX {
        return Framed::Invalid(length);
    }
    match input.get(LENGTH_BYTES) {
        Some(code) if input.len() >= bytes => Framed::Complete { code: *code, bytes },
        _ => Framed::Incomplete(bytes),
    }
}

/// Appends a frame with this message. One of 4 GiB or more, which no answer is, is left out.
pub fn append_frame(out: &mut Vec<u8>, code: u8, message: &impl Message) {
    let bytes = message.encoded_len();
    let Ok(length) = u32::try_from(bytes.saturating_add(1)) else { return };
    out.reserve(FRAME_HEAD_BYTES + bytes);
    out.extend_from_slice(&length.to_be_bytes());
    out.push(code);
    // A vector grows as needed, so that this can't fail.
    let _ = message.encode(out);
}
