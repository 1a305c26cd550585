//! Handling of answers that do not fit into the memory budget.

use super::output::{Output, OutputPosition};
use super::serve::RespConnection;
use super::translate::{MultiStep, RespShape};
use crate::Shared;
use crate::buffer_budget::{BufferBudget, FREE_BYTES, overloaded, reply_bytes};
use base::{Body, LogIndex, Reply, Result};
use node::RecordedAct;

/// Returns the log index of an update's reply. `None`: the reply is not an update's.
#[inline]
fn update_index(reply: &Result<Reply>) -> Option<LogIndex> {
    match reply {
        Ok(Reply { index, body: Body::Updated(_), .. }) => Some(*index),
        _ => None,
    }
}

/// Reserves memory for an answer of this size beside the answers written so far. Returns false if
/// it does not fit, and an error stands in its place. `applied`: index of the update that it
/// answers.
#[inline]
pub(super) fn reserve(
    out: &mut Output,
    (budget, shared): (&mut BufferBudget, &Shared),
    bytes: usize,
    applied: Option<LogIndex>,
) -> bool {
    let fits = budget.try_reserve(out.len() + bytes, shared);
    if !fits {
        write_error(out, applied);
    }
    fits
}

#[cold]
fn write_error(out: &mut Output, applied: Option<LogIndex>) {
    match applied {
        None => out.error(&super::errors::text(&overloaded())),
        // The update takes effect; only its answer is lost.
        Some(index) => out.error(&format!(
            "APPLIED the request was applied at index {index}; there is no memory for its answer \
             (buffer_bytes_max)"
        )),
    }
}

impl RespConnection {
    /// Counts a reply against the memory that all connections share, before it is encoded with this
    /// shape. If it does not fit, writes an error in its place and returns false.
    #[inline]
    pub(super) fn reserve_reply(&mut self, reply: &Result<Reply>, shape: &RespShape) -> bool {
        let budget = (&mut self.answer_budget, &*self.shared);
        let bytes = reply_bytes(reply) + shape.answer_bytes();
        let fits = reserve(&mut self.out, budget, bytes, update_index(reply));
        if !fits {
            self.client.counts.errors += 1;
        }
        fits
    }

    /// Returns true if there is memory for a reply beside the answers written so far.
    #[inline]
    pub(super) fn fits(&mut self, reply: &Result<Reply>) -> bool {
        self.answer_budget.try_reserve(self.out.len() + reply_bytes(reply), &self.shared)
    }

    /// Counts the answers from `from` on against the memory that all connections share. If they do
    /// not fit, an error replaces them. They must not be those of an update.
    #[inline]
    pub(super) fn charge_answer(&mut self, from: OutputPosition) {
        if !self.answer_budget.try_reserve(self.out.len(), &self.shared) {
            self.out.truncate(from);
            self.client.counts.errors += 1;
            write_error(&mut self.out, None);
        }
    }

    /// Counts an answer that a command wrote by itself, such as an echo, if it is large.
    /// `bytes_before`: size of all answers before it.
    #[inline]
    pub(super) fn charge_large_answer(&mut self, from: OutputPosition, bytes_before: usize) {
        if self.out.len() > bytes_before + FREE_BYTES {
            self.charge_answer(from);
        }
    }

    /// Runs a multi-step command, and counts its answer. `MGET` counts its own, part by part.
    pub(super) async fn run_and_charge(
        &mut self,
        multi_step: MultiStep,
        act: RecordedAct,
    ) -> std::result::Result<(), ()> {
        // Many in one pipeline: others run in between.
        tokio::task::yield_now().await;
        let is_sent_in_parts = matches!(multi_step, MultiStep::Values(_));
        let from = self.out.position();
        self.run_multi_step(multi_step, act).await?;
        if !is_sent_in_parts {
            self.charge_answer(from);
        }
        Ok(())
    }
}
