//! Frames on their way into a socket: heads and small messages in one reused buffer, large pieces
//! from where they lie, all with as few system calls as may be.

use super::frame::{ConnectionWord, Encoder};
use super::outbox::{COPY_BYTES_MAX, Piece};
use bytes::Bytes;
use std::io::{self, ErrorKind, IoSlice};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// A batch is full with this much: what comes later waits no longer than this takes.
pub(super) const BATCH_BYTES: usize = 64 * 1024;
/// Slices handed to the system at a time.
const SLICES: usize = 32;

/// A stretch of what is to be written.
enum Stretch {
    /// The buffer up to here.
    Own { upto: usize },
    /// Bytes that lie elsewhere.
    Shared(Bytes),
}

/// Frames that were encoded and not yet written.
#[derive(Default)]
pub(super) struct FrameBatch {
    buffer: Vec<u8>,
    stretches: Vec<Stretch>,
    bytes: usize,
    /// How many of them are written: a write that was given up can be gone on with.
    done: usize,
}

impl FrameBatch {
    /// Returns true if nothing is to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns true if it takes no more.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES
    }

    /// Adds a word of the connection.
    pub(super) fn word(&mut self, encoder: &mut Encoder, word: &ConnectionWord) {
        let before = self.buffer.len();
        encoder.word(&mut self.buffer, word);
        self.own(before);
    }

    /// Adds a piece.
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

    /// Writes all of it, and is empty again.
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

    /// The first slices of what is left; how many.
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
