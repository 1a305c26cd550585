//! Answers of one batch of requests as bytes, collected eagerly and sent once.
//!
//! An answer that depends on an undecided update is written like any other, and its position is
//! stored with its ticket. If the update's outcome stays unknown, an error replaces that answer.

use super::errors::{AfterAnswer, ArakoonRefusal};
use super::values::Wire;
use crate::writer::Pieces;
use node::Ticket;

/// Capacity in bytes that the buffer retains between batches; a larger buffer is freed.
const RETAINED_BYTES: usize = 64 * 1024;

/// Answer that must not be sent before its ticket is decided.
#[derive(Clone, Copy, Debug)]
pub struct PendingAnswer {
    from: usize,
    to: usize,
    /// Ticket of the update that the answer depends on.
    pub ticket: Ticket,
}

/// Answers of one batch.
#[derive(Debug, Default)]
pub struct Output {
    /// Bytes of the answers so far.
    pub bytes: Vec<u8>,
    pending: Vec<PendingAnswer>,
    /// True if the connection ends after this batch.
    pub is_last: bool,
}

impl Pieces for Output {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> + Send {
        [&self.bytes[..]].into_iter().filter(|bytes| !bytes.is_empty())
    }
}

impl Output {
    /// Appends a successful answer with this body.
    pub fn push_ok(&mut self, body: &[u8]) {
        self.bytes.int(super::errors::OK);
        self.bytes.extend_from_slice(body);
    }

    /// Appends an error answer.
    pub fn refuse(&mut self, refusal: &ArakoonRefusal) {
        refusal.write(&mut self.bytes);
        self.is_last |= refusal.after == AfterAnswer::Close;
    }

    /// Marks everything from byte `from` on as dependent on this ticket.
    pub fn mark_pending(&mut self, from: usize, ticket: Ticket) {
        self.pending.push(PendingAnswer { from, to: self.bytes.len(), ticket });
    }

    /// Returns the answers that depend on a ticket, in order.
    pub fn pending(&self) -> &[PendingAnswer] {
        &self.pending
    }

    /// Replaces each pending answer that has a refusal by this refusal. Drops everything after one
    /// that ends the connection.
    pub fn replace_failed(&mut self, refusals: &[Option<ArakoonRefusal>]) {
        let previous = std::mem::take(self);
        let mut copied = 0;
        for (pending, refusal) in previous.pending.iter().zip(refusals) {
            let Some(refusal) = refusal else { continue };
            self.bytes.extend_from_slice(&previous.bytes[copied..pending.from]);
            self.refuse(refusal);
            copied = pending.to;
            if self.is_last {
                return;
            }
        }
        self.bytes.extend_from_slice(&previous.bytes[copied..]);
        self.is_last = previous.is_last;
    }

    /// Empties the output after it was sent. Retains the buffer up to `RETAINED_BYTES`.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pending.clear();
        if self.bytes.capacity() > RETAINED_BYTES {
            self.bytes = Vec::new();
        }
    }
}
