//! Answers to bytes: everything one batch of requests says, written eagerly, sent once.
//!
//! An answer that rests on an undecided update is written like any other, and its place is
//! remembered with its ticket: if the update's fate stays unknown, an error takes that place.

use super::errors::{AfterAnswer, ArakoonRefusal};
use super::words::Wire;
use crate::writer::Pieces;
use node::Ticket;

/// What is kept of the buffer between batches.
const KEPT_BYTES: usize = 64 * 1024;

/// An answer that must not be shown before its ticket is decided.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    from: usize,
    to: usize,
    /// What it waits for.
    pub ticket: Ticket,
}

/// The answers of one batch.
#[derive(Debug, Default)]
pub struct Output {
    /// The answers so far.
    pub bytes: Vec<u8>,
    pending: Vec<Pending>,
    /// The connection ends once this is sent.
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
    /// An answer that went well, with this body.
    pub fn say(&mut self, body: &[u8]) {
        self.bytes.int(super::errors::OK);
        self.bytes.extend_from_slice(body);
    }

    /// An answer that is an error.
    pub fn refuse(&mut self, refusal: &ArakoonRefusal) {
        refusal.write(&mut self.bytes);
        self.ends |= refusal.then == AfterAnswer::Ends;
    }

    /// Everything from `from` on waits for this ticket.
    pub fn wait_for(&mut self, from: usize, ticket: Ticket) {
        self.pending.push(Pending { from, to: self.bytes.len(), ticket });
    }

    /// The answers that wait, in order.
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// Says the waiting answers again, those with a verdict as that error. Behind one that ends the
    /// connection nothing is said.
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

    /// Everything is sent; begins anew with the same memory, unless it grew unusually.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pending.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}
