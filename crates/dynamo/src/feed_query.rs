//! Feeds of this node for readers at any node: pages, and the bridges behind which they go on.

use super::key_owners::RingTarget;
use super::message::VnodeQuestion;
use super::reply;
use crate::Available;
use base::error::corrupt;
use base::{BucketName, NodeId, Result};
use change_feed::{SlotSet, VnodePosition};
use std::sync::Arc;
use vnode_rows::feed_rows::{
    BridgePlace, FeedAnswer, FeedQuestion, SlotPositions, VnodeFeedQuery, bridges_behind,
    put_positions, read_feed_answer, read_positions,
};
use vnode_rows::slots::SlotSpan;

impl Available {
    /// Answers another node's question. `epoch`: that of the ring by which the sender chose this
    /// node.
    pub(super) async fn answer_feed(
        self: &Arc<Available>,
        epoch: u64,
        question: FeedQuestion,
    ) -> Result<Vec<u8>> {
        match question {
            FeedQuestion::Page(bucket, query) => {
                let answer = self.feed_page(epoch, bucket, query).await?;
                Ok(reply::success(|out| answer.write(out)))
            }
            FeedQuestion::Bridges { bucket, peer, position, slots } => {
                let bridges = self.feed_bridges(bucket, (peer, position), slots).await?;
                Ok(reply::success(|out| put_positions(&bridges, out)))
            }
            FeedQuestion::Position => {
                let position = self.vnode_store.feed_position();
                Ok(reply::success(|out| position.put(out)))
            }
            FeedQuestion::Bridge { compared, peer, own, peer_position } => {
                let place = BridgePlace { peer, compared };
                let position = self.note_bridge(place, own, peer_position).await?;
                Ok(reply::success(|out| position.put(out)))
            }
            FeedQuestion::Changes { behind, wait_ms } => {
                let changes = self.feed_changes(behind, wait_ms).await?;
                Ok(reply::success(|out| changes.put(out)))
            }
        }
    }

    /// Reads a page of a bucket's feed from this node. A feed that the bucket's properties ask for,
    /// and that is not in force here, begins. Errors: `changed` if this node has lost one of the
    /// slots since the ring of this epoch.
    pub(super) async fn feed_page(
        self: &Arc<Available>,
        epoch: u64,
        bucket: BucketName,
        query: VnodeFeedQuery,
    ) -> Result<FeedAnswer> {
        let is_asked = |slot| query.sections.iter().any(|it| it.slots.contains(slot));
        let ring = self.schema.ring().filter(|_| !query.of_former_owner);
        let spans: Vec<_> = ring.map_or(Vec::new(), |ring| {
            SlotSpan::all(&ring).filter(|span| span.slots().any(is_asked)).collect()
        });
        let (available, name) = (self.clone(), bucket.clone());
        let answer = self.read_blocking(move || {
            let life = available.vnode_store.life();
            read_feed_answer(&*available.trees.snapshot(), life, &name, &query)
        });
        let answer = answer.await?;
        // Behind the read: of a slot that was lost before, rows may be gone from it, and it would
        // leave their puts out.
        self.check_list_epoch(epoch, &spans, self.copies_of(&bucket)?)?;
        if answer == FeedAnswer::Absent {
            self.begin_feed(&bucket)?;
        }
        Ok(answer)
    }

    /// Returns where a reader goes on here that knows all that a peer had at a position.
    pub(super) async fn feed_bridges(
        self: &Arc<Available>,
        bucket: BucketName,
        peer: (NodeId, VnodePosition),
        slots: SlotSet,
    ) -> Result<SlotPositions> {
        let (trees, copies) = (self.trees.clone(), self.copies_of(&bucket)? as u8);
        self.read_blocking(move || {
            bridges_behind(&*trees.snapshot(), (&bucket, copies), peer, &slots)
        })
        .await
    }

    /// Asks a node, or this one, for bridges.
    pub(super) async fn bridges_at(
        self: &Arc<Available>,
        target: RingTarget,
        question: FeedQuestion,
    ) -> Result<SlotPositions> {
        match question {
            FeedQuestion::Bridges { bucket, peer, position, slots } if target.node == self.node => {
                self.feed_bridges(bucket, (peer, position), slots).await
            }
            question => {
                let question = VnodeQuestion::Feed(question).write();
                let answer = self.ask_for_page(target, question).await?;
                read_positions(&answer).map_err(corrupt)
            }
        }
    }
}
