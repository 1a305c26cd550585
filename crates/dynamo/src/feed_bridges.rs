//! Bridges between the feeds of two nodes (`change_feed/vnode_bridges.rs`): noted at both when they
//! have compared a partition.
//!
//! Both positions are taken before the first question of the comparison. When it is complete, and
//! every row of both sides is synced, each node notes where the other has come to by then.
//!
//! Promises: nothing is noted of a comparison that was not complete, or that brought nothing new;
//! without feeds no question is asked.

use super::message::VnodeQuestion;
use super::vnode_store::VnodeStore;
use crate::Available;
use base::codec::Reader;
use base::error::corrupt;
use base::limits::FORWARD_MS_MAX;
use base::{NodeId, Result};
use change_feed::{Bridge, VnodePosition};
use runtime::mutants::Mutant;
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::feed_rows::{
    BridgePlace, ComparedSlots, FeedQuestion, FeedSet, bridge_changes, last_bridge,
};
use vnode_rows::hash_trees::TreeId;

/// Positions of both nodes when their comparison began.
pub(super) struct BegunComparison {
    own: VnodePosition,
    other: VnodePosition,
}

impl VnodeStore {
    /// Returns the position of the last feed entry of this node.
    pub(super) fn feed_position(&self) -> VnodePosition {
        self.last_feed_position(&self.state())
    }
}

impl Available {
    /// Takes the positions before a comparison. `None`: there are no feeds, or the other node does
    /// not say.
    pub(super) async fn begin_bridge(&self, other: NodeId) -> Option<BegunComparison> {
        if self.vnode_store.with_feeds(FeedSet::is_empty).unwrap_or(true) {
            return None;
        }
        let own = self.vnode_store.feed_position();
        let other = self.ask_feed_position(other, FeedQuestion::Position).await.ok()?;
        Some(BegunComparison { own, other })
    }

    /// Notes the bridges of a comparison that is complete, at both nodes.
    pub(super) async fn end_bridge(
        self: &Arc<Available>,
        (span, copies): TreeId,
        other: NodeId,
        begun: BegunComparison,
    ) -> Result<()> {
        let compared = ComparedSlots::new(span, copies);
        let (place, trees) = (BridgePlace { peer: other, compared }, self.trees.clone());
        let known = self.read_blocking(move || last_bridge(&*trees.snapshot(), place)).await?;
        let is_known = known == Some(Bridge { peer: begun.other, own: begun.own });
        if is_known && self.vnode_store.feed_position() == begun.own {
            return Ok(());
        }
        // Rows that were equal may be here without a sync. The other node's are synced.
        self.vnode_store.wait_synced().await?;
        let (peer, own, peer_position) = (self.node, begun.other, self.vnode_store.feed_position());
        let question = FeedQuestion::Bridge { compared, peer, own, peer_position };
        let ended = self.ask_feed_position(other, question).await?;
        self.note_bridge(place, begun.own, ended).await.map(|_| ())
    }

    /// Notes a bridge here. Returns the position of the last feed entry of this node.
    pub(super) async fn note_bridge(
        self: &Arc<Available>,
        place: BridgePlace,
        own: VnodePosition,
        peer: VnodePosition,
    ) -> Result<VnodePosition> {
        let (available, ended) = (self.clone(), self.vnode_store.feed_position());
        let own = if Mutant::NoteBridgeAtEnd.is_active() { ended } else { own };
        let bridge = Bridge { peer, own };
        self.read_blocking(move || {
            let store = &available.vnode_store;
            if store.with_feeds(FeedSet::is_empty)? {
                return Ok(ended);
            }
            let changes = bridge_changes(&*store.trees.snapshot(), place, bridge)?;
            let mut state = store.admit()?;
            // First: a bucket whose keys were not compared does not use this bridge.
            store.note_copies(&mut state);
            store.log_changes(&mut state, changes, false);
            Ok(ended)
        })
        .await
    }

    async fn ask_feed_position(
        &self,
        node: NodeId,
        question: FeedQuestion,
    ) -> Result<VnodePosition> {
        let within = Duration::from_millis(FORWARD_MS_MAX);
        let answer = self.ask_vnode(node, VnodeQuestion::Feed(question).write(), within).await?;
        VnodePosition::take(&mut Reader::new(&answer)).map_err(corrupt)
    }
}
