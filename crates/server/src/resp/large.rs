//! Handling of answers that do not fit into the memory budget.

use super::output::OutputPosition;
use super::serve::RespConnection;
use crate::buffer_budget::overloaded;
use base::{Body, LogIndex, Reply, Result};

/// Returns the log index of an update's reply. `None`: the reply is not an update's.
#[inline]
pub(super) fn update_index(reply: &Result<Reply>) -> Option<LogIndex> {
    match reply {
        Ok(Reply { index, body: Body::Updated(_), .. }) => Some(*index),
        _ => None,
    }
}

impl RespConnection {
    /// Counts the answers from `from` on against the memory that all connections share. If they do
    /// not fit, an error replaces them.
    #[inline]
    pub(super) fn charge_answer(&mut self, from: OutputPosition, applied: Option<LogIndex>) {
        if !self.answer_budget.try_reserve(self.out.len(), &self.shared) {
            self.replace_with_error(from, applied);
        }
    }

    #[cold]
    fn replace_with_error(&mut self, from: OutputPosition, applied: Option<LogIndex>) {
        self.out.truncate(from);
        self.client.counts.errors += 1;
        match applied {
            None => self.out.error(&super::errors::text(&overloaded())),
            // The update takes effect; only its answer is lost.
            Some(index) => self.out.error(&format!(
                "APPLIED the request was applied at index {index}; there is no memory for its \
                 answer (buffer_bytes_max)"
            )),
        }
    }
}
