//! First ring: assigns an even part to every member at once, only while the ring holds no row.
//!
//! A partition whose owner changes has to be copied before the new owner answers for it
//! (`handoff/`). A new cluster has nothing to copy, so every present owner is only asked whether it
//! holds a row. An owner without rows refuses writes for a while (a fence). So no write stays on a
//! node that is no owner any more.
//!
//! All are asked at once, and the change is proposed only while half of that time is left, by the
//! clock of the asking node. A change that is decided later can't be undone: the caller gets an
//! error, and the orphan sweep of the former owner sends the rows of that time to the owners.

use super::message::{VnodeQuestion, WriteAdmission};
use crate::Available;
use base::limits::FORWARD_MS_MAX;
use base::{Error, NodeId, Reason, Result};
use runtime::join_set::JoinSet;
use runtime::log_writer::store_error;
use runtime::world;
use std::sync::Arc;
use std::time::Duration;

/// Duration of the fence: a node without rows refuses writes for this time, in milliseconds, unless
/// the ring changes before.
const FENCE_MS: u64 = 10_000;
/// Maximum time from the first request to the proposal of a change, in milliseconds; a later
/// proposal is refused. The other half is for the decision and for clock drift.
const PROPOSAL_MS: u64 = FENCE_MS / 2;
/// Time after the first request for which every fence certainly holds, in milliseconds: a tenth
/// less, for a node whose clock is fast.
const DECISION_MS: u64 = FENCE_MS - FENCE_MS / 10;

/// Period in which no owner accepts writes, by the clock of the requesting node.
#[derive(Clone, Copy, Debug)]
pub struct WriteFence {
    /// Time at which the first owner was asked, in milliseconds.
    requested_ms: u64,
}

impl WriteFence {
    /// Allows a change to be proposed; refuses it if too little time is left to decide it.
    pub fn admit(self) -> Result<()> {
        let took_ms = world::milliseconds().saturating_sub(self.requested_ms);
        if took_ms <= PROPOSAL_MS {
            return Ok(());
        }
        let text = format!(
            "the owners needed {took_ms} ms to stop accepting writes, too long to commit the ring \
             before they accept writes again; nothing was changed, try again"
        );
        Err(Error::new(Reason::Overloaded, text))
    }

    /// Checks that a change was decided before any owner could accept a write again.
    pub fn check_decided_in_time(self) -> Result<()> {
        let took_ms = world::milliseconds().saturating_sub(self.requested_ms);
        if took_ms <= DECISION_MS {
            return Ok(());
        }
        let text = format!(
            "the ring is committed, but that took {took_ms} ms: a former owner may have accepted a \
             write in this time, which is visible once that node has transferred it"
        );
        Err(Error::new(Reason::DeadlinePassed, text))
    }
}

impl Available {
    /// Checks that no owner holds a row, and fences all owners against writes.
    pub async fn fence_empty_ring(self: &Arc<Available>) -> Result<WriteFence> {
        // Checked without a fence first: no node refuses writes for a ring that can't be claimed.
        self.require_no_rows(WriteAdmission::Open).await?;
        let fence = WriteFence { requested_ms: world::milliseconds() };
        self.require_no_rows(WriteAdmission::Fenced).await?;
        fence.admit()?;
        Ok(fence)
    }

    async fn require_no_rows(self: &Arc<Available>, admission: WriteAdmission) -> Result<()> {
        let Some(ring) = self.schema.ring() else { return Ok(()) };
        // Removed members are not waited for.
        let members = ring.layout().nodes().keys().copied();
        let (mut tasks, mut waiting) = (JoinSet::new(), 0);
        for node in members.filter(|node| self.members.member(*node).is_some()) {
            let available = self.clone();
            tasks.push(async move { (node, available.node_has_rows(node, admission).await) });
            waiting += 1;
        }
        for _ in 0..waiting {
            let (node, has_rows) = tasks.next().await;
            let name = self.members.name_of(node);
            match has_rows {
                Ok(false) => {}
                Ok(true) => {
                    let text = format!(
                        "`{name}` holds data of available buckets, and this command moves none: \
                         plan a change instead (`credenza cluster ring join NODE`)"
                    );
                    return Err(Error::new(Reason::NotSupported, text));
                }
                Err(error) => {
                    let text = format!(
                        "`{name}` did not answer if it holds data of available buckets: {}; \
                         nothing was changed, try again when it is up",
                        error.text()
                    );
                    return Err(Error::new(Reason::NoQuorum, text));
                }
            }
        }
        Ok(())
    }

    /// Returns true if a node holds a row; with `Fenced`, fences the node if it holds none.
    async fn node_has_rows(
        self: &Arc<Available>,
        node: NodeId,
        admission: WriteAdmission,
    ) -> Result<bool> {
        if node == self.node {
            return self.local_has_rows(admission).await;
        }
        let question = VnodeQuestion::HasRows(admission).write();
        let answer = self.ask_vnode(node, question, Duration::from_millis(FORWARD_MS_MAX)).await;
        answer.map(|bytes| bytes.first() != Some(&0))
    }

    /// Refuses the removal of a reachable member that is part of the ring or keeps rows of it.
    pub async fn refuse_removal_with_rows(self: &Arc<Available>, name: &str) -> Result<()> {
        let cluster = self.members.cluster();
        let Some(node) = cluster.member_named(name).map(|member| member.node) else {
            return Ok(());
        };
        let Some(ring) = self.schema.ring() else { return Ok(()) };
        let is_joining = ring.pending().is_some_and(|it| it.layout().nodes().contains_key(&node));
        let has_leftovers = ring.leftover_partitions(node).next().is_some();
        if !ring.layout().nodes().contains_key(&node) && !is_joining && !has_leftovers {
            return Ok(());
        }
        let within = Duration::from_millis(FORWARD_MS_MAX);
        let has_rows = if node == self.node {
            self.has_rows()?
        } else {
            let answer = self
                .ask_vnode(node, VnodeQuestion::HasRows(WriteAdmission::Open).write(), within)
                .await;
            answer.is_ok_and(|bytes| bytes.first() != Some(&0))
        };
        if !has_rows {
            return Ok(());
        }
        let text = format!(
            "`{name}` holds data of available buckets: run `credenza cluster ring leave {name}`, \
             then `credenza cluster ring commit`, and wait until `credenza cluster ring transfers` \
             shows nothing left for it"
        );
        Err(Error::new(Reason::NotSupported, text))
    }

    /// Returns true if any local vnode holds a row. With `Fenced`, fences this node if none does.
    pub(super) async fn local_has_rows(
        self: &Arc<Available>,
        admission: WriteAdmission,
    ) -> Result<bool> {
        if admission == WriteAdmission::Open {
            return self.has_rows();
        }
        let epoch = self.schema.ring_epoch();
        // Every write before the fence is in the store once the last ticket is reached.
        let last = self.vnode_store.fence(epoch, world::milliseconds() + FENCE_MS);
        self.vnode_store.wait_stored(last).await?;
        let has_rows = self.has_rows()?;
        if has_rows {
            self.vnode_store.lift_fence();
        }
        Ok(has_rows)
    }

    fn has_rows(&self) -> Result<bool> {
        let snapshot = self.trees.snapshot();
        let (low, high) = vnode_rows::layout::slot_keys(None);
        Ok(snapshot.range(low, high, false).next().transpose().map_err(store_error)?.is_some())
    }

    /// Lifts the fence once this node has a newer ring than the one it was set for.
    pub(super) fn lift_stale_fence(&self) {
        if let Some(epoch) = self.vnode_store.fence_epoch()
            && self.schema.ring().is_some_and(|ring| ring.epoch() > epoch)
        {
            self.vnode_store.lift_fence();
        }
    }
}
