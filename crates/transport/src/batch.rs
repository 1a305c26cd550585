//! Frames on their way into a socket: heads and small messages in one reused buffer, large pieces
//! in place, all with as few system calls as possible.

use super::frame::{ConnectionWord, Encoder};
use super::outbox::{COPY_BYTES_MAX, Piece};
use bytes::Bytes;
use std::io::{self, ErrorKind, IoSlice};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Bytes that make a batch full; a later message waits no longer than these take to write.
pub(super) const BATCH_BYTES: usize = 64 * 1024;
/// Most slices per system call.
const SLICES: usize = 32;

/// Part of a batch.
enum Stretch {
    /// The own buffer up to this offset.
    Own { upto: usize },
    /// Bytes of a shared buffer.
    Shared(Bytes),
}

/// Encoded frames that are not written yet.
#[derive(Default)]
pub(super) struct FrameBatch {
    buffer: Vec<u8>,
    stretches: Vec<Stretch>,
    bytes: usize,
    /// Number of bytes already written, so that an interrupted write can go on.
    done: usize,
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

    /// Adds a control word of the connection.
    pub(super) fn word(&mut self, encoder: &mut Encoder, word: &ConnectionWord) {
        let before = self.buffer.len();
        encoder.word(&mut self.buffer, word);
        self.own(before);
    }

    /// Adds a piece of a message.
    pub(super) fn piece(&mut self, encoder: &mut Encoder, piece: Piece) {
        let Piece { lane, group, total, head, body, .. } = piece;
        let before = self.buffer.len();
        if !head.bytes().is_empty() || body.len() <= COPY_BYTES_MAX {
            let parts = [head.bytes(), &body[..]];
            encoder.copied(&mut self.buffer, lane, group, total, parts);
            self.own(before);
        } else {
            encoder.head(&mut self.buffer, lane, group, total, &body);
            self.own(before);
            self.bytes += body.len();
            self.stretches.push(Stretch::Shared(body));
        }
    }

    fn own(&mut self, before: usize) {
        self.bytes += self.buffer.len() - before;
        let end = self.buffer.len();
        match self.stretches.last_mut() {
            Some(Stretch::Own { upto }) => *upto = end,
            _ => self.stretches.push(Stretch::Own { upto: end }),
        }
    }

    /// Writes the batch and empties it.
    pub(super) async fn write_to<W: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut W,
    ) -> io::Result<()> {
        while self.done < self.bytes {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.slices(&mut slices);
            let written = socket.write_vectored(&slices[..count]).await?;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            self.done += written;
        }
        self.buffer.clear();
        self.stretches.clear();
        (self.bytes, self.done) = (0, 0);
        Ok(())
    }

    /// Fills `slices` with the first parts not written yet; returns their number.
    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        let (mut count, mut from, mut done) = (0, 0, self.done);
        for stretch in &self.stretches {
            let bytes = match stretch {
                Stretch::Own { upto } => &self.buffer[std::mem::replace(&mut from, *upto)..*upto],
                Stretch::Shared(bytes) => &bytes[..],
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
