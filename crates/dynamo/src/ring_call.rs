//! Calls about the ring, answered by the master of the metadata group. It asks the other nodes for
//! the nodes that are down, the bytes that a plan would move, and the progress of a change.

use crate::Available;
use crate::handoff::progress::HandoffProgress;
use crate::handoff::send::PartitionWeight;
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

/// Timeout of a node's report of its progress or size.
const WITHIN: Duration = Duration::from_secs(3);
/// Maximum time for all members to learn of a claimed ring, in milliseconds, and the pause between
/// checks.
const KNOWN_MS: u64 = 5_000;
const LOOK: Duration = Duration::from_millis(10);

impl Available {
    /// Completes the directory's reply to a call about the ring with what only the nodes know.
    pub async fn complete_ring_reply(
        self: &Arc<Available>,
        call: &RingCall,
        reply: &mut Reply,
    ) -> Result<()> {
        if let (RingCall::Claim, Body::Ring(ring)) = (call, &reply.body) {
            self.all_know(ring.epoch).await?;
        }
        match &mut reply.body {
            Body::RingPlan(plan) if plan.copies_sent > 0 => {
                plan.bytes = self.heavy().await.saturating_mul(plan.copies_sent);
            }
            Body::RingTransfers(transfers) => {
                for transfer in &mut transfers.nodes {
                    if let Err(error) = self.tell_of(transfer).await {
                        transfer.waits_for = error.text();
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Waits until every member that keeps data knows a ring as new as this one: a client that goes
    /// by the ring of one node reads from that node alone.
    async fn all_know(&self, epoch: u64) -> Result<()> {
        let until = world::milliseconds() + KNOWN_MS;
        let known = self.members.cluster();
        let members = known.members.iter().map(|member| member.node);
        let mut late: Vec<_> = members.filter(|node| !known.is_witness(*node)).collect();
        loop {
            let mut still = Vec::new();
            for node in late {
                if !self.says_it_knows(node, epoch).await {
                    still.push(node);
                }
            }
            late = still;
            if late.is_empty() {
                return Ok(());
            }
            if world::milliseconds() >= until {
                let text = format!(
                    "the ring is given out, but these members do not say that they know it: {}. \
                     What is asked there goes by the ring of before until they do: start them, or \
                     see that they reach the others, and give it out again",
                    self.names(&late)
                );
                return Err(Error::new(Reason::DeadlinePassed, text));
            }
            sleep(LOOK).await;
        }
    }

    async fn says_it_knows(&self, node: NodeId, epoch: u64) -> bool {
        if node == self.node {
            return self.knows_newer(epoch.saturating_sub(1));
        }
        let told = self.told_by(node, VnodeQuestion::Ring).await;
        let newer = |ring: Ring| ring.epoch() >= epoch;
        told.is_ok_and(|bytes| Ring::decode(&bytes).is_ok_and(newer))
    }

    /// The members that can't be reached now, and the nodes of the ring that are no members.
    pub fn down(&self) -> BTreeSet<NodeId> {
        let members = self.members.cluster();
        let members = members.members.iter().map(|member| member.node);
        let ring = self.schema.ring();
        let placed = ring.iter().flat_map(|ring| ring.layout().nodes().keys().copied());
        members.chain(placed).filter(|node| !self.reaches(*node)).collect()
    }

    /// About how many bytes a copy of a partition has.
    async fn heavy(self: &Arc<Available>) -> u64 {
        let Some(ring) = self.schema.ring() else { return 0 };
        let mut all = PartitionWeight::default();
        for node in ring.layout().nodes().keys().filter(|node| self.reaches(**node)) {
            let Ok(weight) = self.weight_of(*node).await else { continue };
            all.copies += weight.copies;
            all.bytes += weight.bytes;
        }
        all.bytes.checked_div(all.copies).unwrap_or(0)
    }

    /// About how much a node keeps.
    pub async fn weight_of(self: &Arc<Available>, node: NodeId) -> Result<PartitionWeight> {
        if node == self.node {
            return self.weight().await;
        }
        let bytes = self.told_by(node, VnodeQuestion::Weight).await?;
        PartitionWeight::read(&bytes).map_err(corrupt)
    }

    /// Fills in how far a node is.
    async fn tell_of(self: &Arc<Available>, transfer: &mut RingTransfer) -> Result<()> {
        if transfer.node == self.node {
            self.moving.told(transfer);
            return Ok(());
        }
        let bytes = self.told_by(transfer.node, VnodeQuestion::Progress).await?;
        HandoffProgress::read(&bytes).map_err(corrupt)?.fill(transfer);
        Ok(())
    }

    async fn told_by(&self, node: NodeId, question: VnodeQuestion) -> Result<Bytes> {
        self.ask_vnode(node, question.write(), WITHIN).await
    }
}
