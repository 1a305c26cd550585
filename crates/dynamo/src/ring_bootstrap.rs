//! First ring: an even part for every member, all at once, only while the ring holds nothing.
//!
//! A partition whose owner changes has to be copied before the new owner answers for it
//! (`handoff/`). A new cluster has nothing to copy, so it takes this short way: every present owner
//! is asked whether it holds a row. One that holds none promises to take none for a while. So no
//! write stays on a node that is not asked any more.
//!
//! All are asked at once, and the change is proposed only while half of that time is left, by the
//! clock of the node that asks. A change that is decided after it can't be taken back: the caller
//! is told, and the orphan sweep of the former owner brings what it took meanwhile to the owners.

use super::join_set::JoinSet;
use super::message::{VnodeQuestion, WriteAdmission};
use crate::Available;
use base::limits::FORWARD_MS_MAX;
use base::{Error, NodeId, Reason, Result};
use runtime::log_writer::store_error;
use runtime::world;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Time for which a node that holds nothing takes no write, in milliseconds, unless the ring
/// changes before.
const FENCE_MS: u64 = 10_000;
/// Time from the question to the proposal of a change, in milliseconds; a later one is refused. The
/// other half is for the decision, and for clocks that do not run alike.
const PROPOSAL_MS: u64 = FENCE_MS / 2;
/// Time from the question to the decision of a change within which every fence holds, in
/// milliseconds: a tenth less, for a node whose clock is fast.
const DECISION_MS: u64 = FENCE_MS - FENCE_MS / 10;

/// Time for which no owner takes a write, by the clock of the node that asked for it.
#[derive(Clone, Copy, Debug)]
pub struct WriteFence {
    /// Time before the first owner was asked, in milliseconds.
    asked_ms: u64,
}

impl WriteFence {
    /// Allows a change to be proposed; refuses it if too little time is left to decide it.
    pub fn admit(self) -> Result<()> {
        let took_ms = world::milliseconds().saturating_sub(self.asked_ms);
        if took_ms <= PROPOSAL_MS {
            return Ok(());
        }
        let text = format!(
            "the owners took {took_ms} ms to promise that they take no write, which is too long \
             to give out the ring before they take some again; nothing was changed, try again"
        );
        Err(Error::new(Reason::Overloaded, text))
    }

    /// Makes sure that a change was decided before any owner could take a write again.
    pub fn held(self) -> Result<()> {
        let took_ms = world::milliseconds().saturating_sub(self.asked_ms);
        if took_ms <= DECISION_MS {
            return Ok(());
        }
        let text = format!(
            "the ring is given out, but that took {took_ms} ms: an owner may have taken a write \
             meanwhile, which is found once that node has brought it to its owners"
        );
        Err(Error::new(Reason::DeadlinePassed, text))
    }
}

impl Available {
    /// Makes sure that no owner holds a row, and that none will for a while.
    pub async fn nothing_moves(self: &Arc<Available>) -> Result<WriteFence> {
        // No node refuses writes for a ring that can't be claimed.
        self.nothing_held(WriteAdmission::Open).await?;
        let fence = WriteFence { asked_ms: world::milliseconds() };
        self.nothing_held(WriteAdmission::Fenced).await?;
        fence.admit()?;
        Ok(fence)
    }

    async fn nothing_held(self: &Arc<Available>, meanwhile: WriteAdmission) -> Result<()> {
        let Some(ring) = self.schema.ring() else { return Ok(()) };
        // Removed members are not waited for.
        let members = ring.layout().nodes().keys().copied();
        let (mut tasks, mut waiting) = (JoinSet::new(), 0);
        for node in members.filter(|node| self.members.member(*node).is_some()) {
            let available = self.clone();
            tasks.push(async move { (node, available.holds_at(node, meanwhile).await) });
            waiting += 1;
        }
        for _ in 0..waiting {
            let (node, holds) = tasks.next().await;
            let name = self.members.name_of(node);
            match holds {
                Ok(false) => {}
                Ok(true) => {
                    let text = format!(
                        "`{name}` holds data of available buckets, and this moves none: lay the \
                         changes down instead, `credenza cluster ring join NODE`"
                    );
                    return Err(Error::new(Reason::NotSupported, text));
                }
                Err(error) => {
                    let text = format!(
                        "`{name}` does not say whether it holds data of available buckets: {}; \
                         nothing was changed, try again when it is up",
                        error.text()
                    );
                    return Err(Error::new(Reason::NoQuorum, text));
                }
            }
        }
        Ok(())
    }

    /// Asks a node whether it holds a row.
    async fn holds_at(
        self: &Arc<Available>,
        node: NodeId,
        meanwhile: WriteAdmission,
    ) -> Result<bool> {
        if node == self.node {
            return self.holds_rows(meanwhile).await;
        }
        let question = VnodeQuestion::Holds(meanwhile).write();
        let answer = self.ask_vnode(node, question, Duration::from_millis(FORWARD_MS_MAX)).await;
        answer.map(|bytes| bytes.first() != Some(&0))
    }

    /// Refuses to take a member out that can be reached and has something to do with the ring.
    pub async fn holds_nothing(self: &Arc<Available>, name: &str) -> Result<()> {
        let known = self.members.cluster();
        let member = known.members.iter().find(|member| member.name == name);
        let Some(node) = member.map(|member| member.node) else { return Ok(()) };
        let Some(ring) = self.schema.ring() else { return Ok(()) };
        let coming = ring.pending().is_some_and(|it| it.layout().nodes().contains_key(&node));
        let clearing = ring.left_at(node).next().is_some();
        if !ring.layout().nodes().contains_key(&node) && !coming && !clearing {
            return Ok(());
        }
        let within = Duration::from_millis(FORWARD_MS_MAX);
        let holds = if node == self.node {
            self.has_rows()?
        } else {
            let answer = self
                .ask_vnode(node, VnodeQuestion::Holds(WriteAdmission::Open).write(), within)
                .await;
            answer.is_ok_and(|bytes| bytes.first() != Some(&0))
        };
        if !holds {
            return Ok(());
        }
        let text = format!(
            "`{name}` keeps data of available buckets: `credenza cluster ring leave {name}`, then \
             `credenza cluster ring commit`, and wait until `credenza cluster ring transfers` has \
             nothing left for it"
        );
        Err(Error::new(Reason::NotSupported, text))
    }

    /// Returns true if any vnode here holds a row; fenced: if none does, none will for a while.
    pub(super) async fn holds_rows(
        self: &Arc<Available>,
        meanwhile: WriteAdmission,
    ) -> Result<bool> {
        if meanwhile == WriteAdmission::Open {
            return self.has_rows();
        }
        let epoch = self.schema.ring().map_or(0, |ring| ring.epoch());
        // Writes before the fence are in the store once everything written so far is.
        let last = self.vnode_store.fence(epoch, world::milliseconds() + FENCE_MS);
        self.vnode_store.settled(last).await?;
        let holds = self.has_rows()?;
        if holds {
            self.vnode_store.lift();
        }
        Ok(holds)
    }

    fn has_rows(&self) -> Result<bool> {
        let snapshot = self.trees.snapshot();
        let low = Bound::Included(super::layout::first_key());
        let high = Bound::Excluded(super::layout::mark_key());
        Ok(snapshot.range(low, high, false).next().transpose().map_err(store_error)?.is_some())
    }

    /// A ring newer than the one that was to be given out lifts the fence.
    pub(super) fn look_at_fence(&self) {
        if let Some(fenced) = self.vnode_store.fenced()
            && self.schema.ring().is_some_and(|ring| ring.epoch() > fenced)
        {
            self.vnode_store.lift();
        }
    }
}
