//! Answers of one batch of requests as bytes, collected eagerly and sent once.
//!
//! An answer that depends on an undecided update is written like any other, and its position is
//! kept with its ticket. If the update's outcome stays unknown, an error replaces that answer.

use super::errors::{AfterAnswer, ArakoonRefusal};
use super::words::Wire;
use crate::writer::Pieces;
use node::Ticket;

/// Capacity that the buffer keeps between batches; a larger buffer is freed.
const KEPT_BYTES: usize = 64 * 1024;

/// Answer that must not be sent before its ticket is decided.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
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
    pending: Vec<Pending>,
    /// True if the connection ends after this batch is sent.
    pub ends: bool,
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
    pub fn say(&mut self, body: &[u8]) {
        self.bytes.int(super::errors::OK);
        self.bytes.extend_from_slice(body);
    }

    /// Appends an error answer.
    pub fn refuse(&mut self, refusal: &ArakoonRefusal) {
        refusal.write(&mut self.bytes);
        self.ends |= refusal.then == AfterAnswer::Ends;
    }

    /// Marks everything from byte `from` on as dependent on this ticket.
    pub fn wait_for(&mut self, from: usize, ticket: Ticket) {
        self.pending.push(Pending { from, to: self.bytes.len(), ticket });
    }

    /// Returns the answers that depend on a ticket, in order.
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// Writes the answers again and puts an error in place of each dependent answer that has a
    /// verdict. Drops everything after an error that ends the connection.
    pub fn judge(&mut self, verdicts: &[Option<ArakoonRefusal>]) {
        let old = std::mem::take(self);
        let mut seen = 0;
        for (pending, verdict) in old.pending.iter().zip(verdicts) {
            let Some(refusal) = verdict else { continue };
            self.bytes.extend_from_slice(&old.bytes[seen..pending.from]);
            self.refuse(refusal);
            seen = pending.to;
            if self.ends {
                return;
            }
        }
        self.bytes.extend_from_slice(&old.bytes[seen..]);
        self.ends = old.ends;
    }

    /// Empties the output after it was sent. Keeps the buffer unless it grew beyond `KEPT_BYTES`.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pending.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}
