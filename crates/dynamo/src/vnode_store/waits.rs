//! Waits for batches: until they are applied, until they are synced, until the store has stopped.
//!
//! An applied batch may be logged and not synced yet, in a bucket that accepts that risk. A caller
//! that needs more requests a sync of an earlier batch. A sync covers everything before it in the
//! log. So the next pending batch with a sync is enough; if there is none, a batch without changes
//! is logged for it.
//!
//! Promises: a sync is requested only if no known one covers the batch.
//! Never: waits for the interval in which the log is synced by itself.

use super::{VnodeStore, VnodeStoreState};
use base::Result;
use base::error::shutting_down;
use runtime::round;
use tokio::sync::oneshot;

impl VnodeStore {
    /// Waits until the batch of a ticket is applied to the store.
    pub async fn wait_stored(&self, ticket: u64) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.call_when_stored(ticket, move |result| drop(sender.send(result)));
        let stored = round::wait("a write to the log", receiver).await;
        stored.unwrap_or_else(|_| Err(shutting_down()))
    }

    /// Calls `then` once the batch of a ticket is applied, or failed: at once if that is known.
    pub(crate) fn call_when_stored(
        &self,
        ticket: u64,
        then: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        self.tickets.wait(ticket, || self.outcome(ticket), then);
    }

    /// Calls `then` later, once the batch of a ticket is applied, or failed. Returns the outcome,
    /// and calls nothing, if it is known already: the caller may hold a lock that `then` needs.
    pub(crate) fn call_later_when_stored(
        &self,
        ticket: u64,
        then: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Option<Result<()>> {
        let known = self.tickets.register(ticket, || self.outcome(ticket), then);
        known.map(|(outcome, _)| outcome)
    }

    /// Returns the outcome of a batch. `None`: it is not known yet.
    fn outcome(&self, ticket: u64) -> Option<Result<()>> {
        let progress = self.progress.borrow();
        let stored = (progress.applied >= ticket).then_some(Ok(()));
        stored.or_else(|| progress.failed.clone().map(Err))
    }

    /// Waits until every change accepted so far is applied and synced.
    pub(crate) async fn wait_synced(&self) -> Result<()> {
        let ticket = {
            let mut state = self.state();
            // Nothing is logged any more: later callers get an error.
            if state.closing {
                return Err(shutting_down());
            }
            let last = state.last_ticket();
            self.sync_ticket(&mut state, last)
        };
        self.wait_stored(ticket).await
    }

    /// Returns the ticket that is reached once this batch is synced, and all before it. Batch 0:
    /// the applied batch of a row, whose number is unknown.
    pub(crate) fn sync_ticket(&self, state: &mut VnodeStoreState, index: u64) -> u64 {
        let next = state.pending.front().map_or(state.open.index, |sent| sent.index);
        // The store does not record the batch of a row: the last applied batch covers it.
        let index = if index == 0 { next - 1 } else { index };
        if index <= state.synced {
            return index;
        }
        let mut sent = state.pending.iter();
        if let Some(sent) = sent.find(|sent| sent.sync && sent.index >= index) {
            return sent.index;
        }
        state.open.sync = true;
        let ticket = state.open.index;
        self.submit_soon(state);
        ticket
    }

    /// Waits until all accepted changes are applied and the store has stopped. False: it failed.
    pub async fn wait_stopped(&self) -> bool {
        let mut progress = self.progress.subscribe();
        progress.wait_for(|it| it.ended).await.is_ok_and(|it| it.failed.is_none())
    }
}

#[cfg(test)]
mod tests;
