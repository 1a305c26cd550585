//! Answers of a batch on their way to the client: they wait for their tickets, and leave together.

use super::errors;
use super::serve::RespConnection;
use crate::stages::WaitStage;
use crate::writer;

impl RespConnection {
    /// Waits until every answer of the batch is decided, then sends the batch.
    pub(super) async fn send(&mut self) -> std::result::Result<(), ()> {
        if self.out.is_empty() {
            return Ok(());
        }
        if let Some(last) = self.out.pending().last() {
            let mut stages = self.stages;
            stages.note_ticket(last.ticket);
            stages.measure(WaitStage::Decide, self.await_tickets()).await;
            self.stages = stages;
        }
        let writing = writer::write(&mut self.stream, &self.out);
        self.stages.measure(WaitStage::Send, writing).await.map_err(|_| ())?;
        self.out.clear();
        self.answer_budget.release();
        Ok(())
    }

    /// Waits for the tickets of the batch. The last ticket of each group covers all earlier ones;
    /// only if one fails, each ticket is awaited separately.
    async fn await_tickets(&mut self) {
        let node = &self.shared.node;
        let pending = self.out.pending();
        let mut all_decided = true;
        for (at, answer) in pending.iter().enumerate() {
            let is_last =
                pending.get(at + 1).is_none_or(|next| next.ticket.group != answer.ticket.group);
            if is_last && node.wait_decided(answer.ticket).await.is_err() {
                all_decided = false;
            }
        }
        if all_decided {
            return;
        }
        let mut ticket_errors = Vec::with_capacity(pending.len());
        for answer in pending {
            let error = node.wait_decided(answer.ticket).await.err();
            self.client.counts.errors += error.as_ref().map_or(0, |_| answer.answers as u64);
            ticket_errors.push(error.map(|error| errors::text(&error)));
        }
        self.out.replace_failed(&ticket_errors);
    }
}
