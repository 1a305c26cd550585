//! Changes of the feeds of this node's vnodes and of those of other nodes, for the requests that
//! wait here for an event (`feed_watch`).
//!
//! Promises: a change is told once its entries can be read; a question waits for
//! [`CHANGES_WAIT_MS`] at most, and ends with the node.

use super::message::VnodeQuestion;
use crate::Available;
use base::error::corrupt;
use base::limits::FORWARD_MS_MAX;
use base::{NodeId, Result};
use change_feed::{ChangeMark, FeedChanges};
use feed_watch::{CHANGES_WAIT_MS, ChangeSource, ChangesFuture, follow_nodes};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::feed_rows::FeedQuestion;

/// Follows the feeds of all nodes of the ring while requests wait, until the node stops.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.cancellation_token().clone();
    let signals = available.feed_signals.clone();
    follow_nodes(available, signals, stop).await;
}

impl ChangeSource for Available {
    fn nodes(&self) -> BTreeSet<NodeId> {
        let ring = self.schema.ring();
        ring.map_or_else(BTreeSet::new, |ring| ring.layout().nodes().keys().copied().collect())
    }

    fn changes(self: Arc<Self>, node: NodeId, behind: Option<ChangeMark>) -> ChangesFuture {
        Box::pin(async move {
            if node == self.node {
                return self.feed_changes(behind, CHANGES_WAIT_MS).await;
            }
            let question = FeedQuestion::Changes { behind, wait_ms: CHANGES_WAIT_MS };
            let question = VnodeQuestion::Feed(question).write();
            let within = Duration::from_millis(FORWARD_MS_MAX);
            let answer = self.ask_vnode(node, question, within).await?;
            FeedChanges::read(&answer).map_err(corrupt)
        })
    }
}

impl Available {
    /// Returns which feeds of this node have new entries behind a mark; waits for some.
    pub(super) async fn feed_changes(
        &self,
        behind: Option<ChangeMark>,
        wait_ms: u32,
    ) -> Result<FeedChanges> {
        let (store, stop) = (&self.vnode_store, self.tasks.cancellation_token());
        let wait = Duration::from_millis(wait_ms.min(CHANGES_WAIT_MS).into());
        // Polled behind the note that somebody asks: what comes later is noted.
        let readable = async { store.wait_stored(store.last_ticket()).await };
        store.feed_changes.answer(behind, wait, readable, stop).await
    }
}
