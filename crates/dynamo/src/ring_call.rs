//! Calls about the ring, answered by the master of the metadata group. It asks the other nodes for
//! the nodes that are down, the bytes that a plan would move, and the progress of a change.

use crate::Available;
use crate::handoff::progress::HandoffProgress;
use crate::message::VnodeQuestion;
use base::error::corrupt;
use base::{Body, Error, NodeId, Reason, Reply, Result, RingCall, RingTransfer};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::world;
use runtime::world::sleep;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::transfer_pages::SizeEstimate;

/// Timeout of a node's report of its progress or size.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum time until all members have a claimed ring, in milliseconds, and the pause between
/// checks.
const RING_KNOWN_MS_MAX: u64 = 5_000;
const CHECK_PAUSE: Duration = Duration::from_millis(10);

impl Available {
    /// Completes the directory's reply to a call about the ring with sizes and progress reported by
    /// the nodes.
    pub async fn complete_ring_reply(
        self: &Arc<Available>,
        call: &RingCall,
        reply: &mut Reply,
    ) -> Result<()> {
        if let (RingCall::Claim, Body::Ring(ring)) = (call, &reply.body) {
            self.wait_until_known(ring.epoch).await?;
        }
        match &mut reply.body {
            Body::RingPlan(plan) if plan.copies_sent > 0 => {
                plan.bytes = self.average_copy_bytes().await.saturating_mul(plan.copies_sent);
            }
            Body::RingTransfers(transfers) => {
                for transfer in &mut transfers.nodes {
                    if let Err(error) = self.fill_progress(transfer).await {
                        transfer.waits_for = error.text();
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Waits until every member that keeps data has a ring of this epoch or newer: a member with
    /// the old ring would serve reads by it.
    async fn wait_until_known(&self, epoch: u64) -> Result<()> {
        let deadline_ms = world::milliseconds() + RING_KNOWN_MS_MAX;
        let cluster = self.members.cluster();
        let members = cluster.members.iter().map(|member| member.node);
        let mut unaware: Vec<_> = members.filter(|node| !cluster.is_witness(*node)).collect();
        loop {
            let mut remaining = Vec::new();
            for node in unaware {
                if !self.has_ring_epoch(node, epoch).await {
                    remaining.push(node);
                }
            }
            unaware = remaining;
            if unaware.is_empty() {
                return Ok(());
            }
            if world::milliseconds() >= deadline_ms {
                let text = format!(
                    "the ring is committed, but these members have not confirmed it: {}. They use \
                     the former ring until then: start them, or restore their connections, and \
                     repeat the command",
                    self.node_names(&unaware)
                );
                return Err(Error::new(Reason::DeadlinePassed, text));
            }
            sleep(CHECK_PAUSE).await;
        }
    }

    async fn has_ring_epoch(&self, node: NodeId, epoch: u64) -> bool {
        if node == self.node {
            return self.has_newer_ring(epoch.saturating_sub(1));
        }
        let answer = self.query_node(node, VnodeQuestion::Ring).await;
        let newer = |ring: Ring| ring.epoch() >= epoch;
        answer.is_ok_and(|bytes| Ring::decode(&bytes).is_ok_and(newer))
    }

    /// Returns the unreachable members and the unreachable nodes of the ring.
    pub fn unreachable_nodes(&self) -> BTreeSet<NodeId> {
        let members = self.members.cluster();
        let members = members.members.iter().map(|member| member.node);
        let ring = self.schema.ring();
        let placed = ring.iter().flat_map(|ring| ring.layout().nodes().keys().copied());
        members.chain(placed).filter(|node| !self.reaches(*node)).collect()
    }

    /// Estimates the size of one partition's copy, in bytes: the average of all reachable nodes.
    async fn average_copy_bytes(self: &Arc<Available>) -> u64 {
        let Some(ring) = self.schema.ring() else { return 0 };
        let mut all = SizeEstimate::default();
        for node in ring.layout().nodes().keys().filter(|node| self.reaches(**node)) {
            let Ok(estimate) = self.size_estimate_of(*node).await else { continue };
            all.copies += estimate.copies;
            all.bytes += estimate.bytes;
        }
        all.bytes.checked_div(all.copies).unwrap_or(0)
    }

    /// Estimates the data of a node.
    pub async fn size_estimate_of(self: &Arc<Available>, node: NodeId) -> Result<SizeEstimate> {
        if node == self.node {
            return self.size_estimate().await;
        }
        let bytes = self.query_node(node, VnodeQuestion::Size).await?;
        SizeEstimate::read(&bytes).map_err(corrupt)
    }

    /// Fills the progress of a node's transfer.
    async fn fill_progress(self: &Arc<Available>, transfer: &mut RingTransfer) -> Result<()> {
        if transfer.node == self.node {
            self.handoff_tracker.fill_transfer(transfer);
            return Ok(());
        }
        let bytes = self.query_node(transfer.node, VnodeQuestion::Progress).await?;
        HandoffProgress::read(&bytes).map_err(corrupt)?.fill(transfer);
        Ok(())
    }

    async fn query_node(&self, node: NodeId, question: VnodeQuestion) -> Result<Bytes> {
        self.ask_vnode(node, question.write(), TIMEOUT).await
    }
}
