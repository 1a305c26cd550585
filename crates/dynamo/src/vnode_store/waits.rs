//! Waits for batches: until they are in the store, until they are synced, until the node stops.
//!
//! A batch in the store may be logged and not synced yet, where its bucket accepts that risk. Who
//! needs more asks for a sync of a batch that was logged before. A sync covers all that is in front
//! of it in the log. So the next batch that is synced anyway is enough; if none is on its way, a
//! batch without changes is logged for it.
//!
//! Promises: a sync is asked for only where none is known that covers the batch.
//! Never: waits for the interval in which the log is synced by itself.

use super::{VnodeStore, VnodeStoreState};
use base::Result;
use base::error::shutting_down;
use tokio::sync::oneshot;

impl VnodeStore {
    /// Waits until the batch of a ticket is in the store.
    pub async fn settled(&self, ticket: u64) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.when_settled(ticket, move |settled| drop(sender.send(settled)));
        receiver.await.unwrap_or_else(|_| Err(shutting_down()))
    }

    /// Calls `then` once the batch of a ticket is in the store, or never will be: at once if known.
    pub(crate) fn when_settled(&self, ticket: u64, then: impl FnOnce(Result<()>) + Send + 'static) {
        let known = || {
            let landed = self.landed.borrow();
            let is_there = (landed.upto >= ticket).then_some(Ok(()));
            is_there.or_else(|| landed.failed.clone().map(Err))
        };
        self.tickets.wait(ticket, known, then);
    }

    /// Waits until every change that was taken so far is in the store and synced.
    pub(crate) async fn synced(&self) -> Result<()> {
        let ticket = {
            let mut state = self.state();
            // Nothing is logged any more for those who come now.
            if state.closing {
                return Err(shutting_down());
            }
            let last = state.last();
            self.ticket_of_sync(&mut state, last)
        };
        self.settled(ticket).await
    }

    /// Returns the ticket that is reached once this batch is synced, and all before it. Batch 0:
    /// what the store holds.
    pub(crate) fn ticket_of_sync(&self, state: &mut VnodeStoreState, index: u64) -> u64 {
        let next = state.pending.front().map_or(state.open.index, |sent| sent.index);
        // The store does not say in which batch a row came: the last that it holds stands for all.
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
        if state.pending.is_empty() {
            self.close(state);
        }
        ticket
    }

    /// Waits until everything that was begun is in the store; false: something failed.
    pub async fn ends(&self) -> bool {
        let mut landed = self.landed.subscribe();
        landed.wait_for(|it| it.ended).await.is_ok_and(|it| it.failed.is_none())
    }
}

#[cfg(test)]
mod tests;
