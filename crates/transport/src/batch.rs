//! Frames on their way into a socket: heads and small messages in one reused buffer, large pieces
//! in place, all with as few system calls as possible.

use super::frame::{ControlFrame, Encoder};
use super::outbox::{COPY_BYTES_MAX, Piece};
use bytes::Bytes;
use std::io::{self, ErrorKind, IoSlice};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Size at which a batch is full, in bytes. It bounds the wait of a later message.
pub(super) const BATCH_BYTES: usize = 64 * 1024;
/// Maximum number of slices per system call.
const SLICES: usize = 32;

/// Part of a batch.
enum BatchPart {
    /// Bytes of the batch's own buffer, to this end offset.
    Buffered { end_offset: usize },
    /// Bytes of a shared buffer.
    Shared(Bytes),
}

/// Encoded frames that are not written yet.
#[derive(Default)]
pub(super) struct FrameBatch {
    buffer: Vec<u8>,
    parts: Vec<BatchPart>,
    bytes: usize,
    /// Number of bytes already written, so that an interrupted write can continue.
    written: usize,
}

impl FrameBatch {
    /// Returns true if no byte is left to write.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns true if the batch accepts no more frames.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES
    }

    /// Adds a control frame of the connection.
    pub(super) fn control(&mut self, encoder: &mut Encoder, control: &ControlFrame) {
        let start = self.buffer.len();
        encoder.control(&mut self.buffer, control);
        self.push_buffered(start);
    }

    /// Adds a piece of a message.
    pub(super) fn piece(&mut self, encoder: &mut Encoder, piece: Piece) {
        let Piece { lane, group, total, head, body, .. } = piece;
        let start = self.buffer.len();
        if !head.bytes().is_empty() || body.len() <= COPY_BYTES_MAX {
            let parts = [head.bytes(), &body[..]];
            encoder.copied(&mut self.buffer, lane, group, total, parts);
            self.push_buffered(start);
        } else {
            encoder.head(&mut self.buffer, lane, group, total, &body);
            self.push_buffered(start);
            self.bytes += body.len();
            self.parts.push(BatchPart::Shared(body));
        }
    }

    fn push_buffered(&mut self, start: usize) {
        self.bytes += self.buffer.len() - start;
        let end = self.buffer.len();
        match self.parts.last_mut() {
            Some(BatchPart::Buffered { end_offset }) => *end_offset = end,
            _ => self.parts.push(BatchPart::Buffered { end_offset: end }),
        }
    }

    /// Writes the batch and empties it.
    pub(super) async fn write_to<W: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut W,
    ) -> io::Result<()> {
        while self.written < self.bytes {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.slices(&mut slices);
            let written = socket.write_vectored(&slices[..count]).await?;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            self.written += written;
        }
        // Encryption may hold bytes back; a plain socket holds none.
        socket.flush().await?;
        self.buffer.clear();
        self.parts.clear();
        (self.bytes, self.written) = (0, 0);
        Ok(())
    }

    /// Fills `slices` with the first parts not written yet; returns their number.
    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        let (mut count, mut from, mut done) = (0, 0, self.written);
        for part in &self.parts {
            let bytes = match part {
                BatchPart::Buffered { end_offset } => {
                    &self.buffer[std::mem::replace(&mut from, *end_offset)..*end_offset]
                }
                BatchPart::Shared(bytes) => &bytes[..],
            };
            if done >= bytes.len() {
                done -= bytes.len();
                continue;
            }
            slices[count] = IoSlice::new(&bytes[std::mem::take(&mut done)..]);
            count += 1;
            if count == SLICES {
                break;
            }
        }
        count
    }
}
