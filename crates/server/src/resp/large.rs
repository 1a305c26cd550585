//! Answers for which there is no room.

use super::output::OutputPosition;
use super::serve::Visit;
use crate::buffer_room::overloaded;
use base::{Body, LogIndex, Reply, Result};

/// Where the update is in the log that this answers, if it is one.
#[inline]
pub(super) fn applied(reply: &Result<Reply>) -> Option<LogIndex> {
    match reply {
        Ok(Reply { index, body: Body::Updated(_), .. }) => Some(*index),
        _ => None,
    }
}

impl Visit {
    /// Counts what was said from `from` on against the memory that all connections share; where
    /// that has no room for it, it is taken back and its client is told so.
    #[inline]
    pub(super) fn make_room(&mut self, from: OutputPosition, applied: Option<LogIndex>) {
        if !self.room.holds(self.out.len(), &self.shared) {
            self.take_back(from, applied);
        }
    }

    #[cold]
    fn take_back(&mut self, from: OutputPosition, applied: Option<LogIndex>) {
        self.out.truncate(from);
        self.client.tally.errors += 1;
        match applied {
            None => self.out.error(&super::errors::text(&overloaded())),
            // It takes effect; only its answer can't be told.
            Some(index) => self.out.error(&format!(
                "APPLIED the request was carried out at index {index}; there is no memory for its \
                 answer (buffer_bytes_max)"
            )),
        }
    }
}
