//! Leadership of a group on this node: becoming master and ceasing to be, the outcome of clients'
//! updates at that moment, and the permission to answer reads.
//!
//! An *epoch* of this node is the time from becoming master to ceasing to be. A replica that only
//! moves on to its next configuration ceases with nothing in flight: then unproposed entries stay
//! queued, and are proposed once it leads again.
//!
//! Consensus elects a master (`Role::Master`). This node becomes master once it has applied
//! everything that was decided before. From then on, unless it retires, it *is master* for clients:
//! it evaluates their updates. Each step changes all of this together, here and nowhere else.
//!
//! Invariants: `standing` is published after the step into mastership; the lease allows reads as
//! master only, and a node that ceases to be master gives the lease up first.
//! Never: decides the leader (that is `logic`).

use super::counts::BucketCounts;
use super::group_indexes::GroupIndexes;
use super::mastership::Mastership;
use super::seals::Seals;
use super::state::GroupState;
use super::wait::Applied;
use base::{GroupId, NodeId, Result};
use logic::consensus::{Replica, Role};
use runtime::mutants::Mutant;
use runtime::world;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use store::Trees;
use tokio::sync::watch;

/// Leadership of a group, as reported to this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// `Master` once this node has applied all that was decided before it.
    pub role: Option<Role>,
    /// Master of the group. `None`: unknown.
    pub master: Option<NodeId>,
    /// Time of the last change of master, in milliseconds of this node's clock. 0: none since its
    /// start.
    pub since_ms: u64,
    /// True if a member of a later configuration said that the group continues without this node.
    /// This node's own configuration is outdated until it has caught up.
    pub is_removed: bool,
}

/// Leadership of one group on this node. Readers take no lock; steps into and out of mastership are
/// made under that of the group's state.
pub struct LeadershipState {
    group: GroupId,
    node: NodeId,
    /// True if this node is master and may evaluate updates.
    master: AtomicBool,
    /// Number of times it has become master.
    epochs: AtomicU64,
    /// Last epoch in which the directory was known to be as clients left it.
    informed: AtomicU64,
    /// End of the time in which it may answer reads by itself, in milliseconds of monotonic time.
    /// 0: it may not.
    lease_until: AtomicU64,
    /// True if this node is a member by its own configuration.
    member: AtomicBool,
    /// Published leadership, for callers that wait for a change.
    standing: watch::Sender<Leadership>,
}

impl LeadershipState {
    /// Begins without a master.
    pub(super) fn new(group: GroupId, node: NodeId, replica: &Replica) -> LeadershipState {
        LeadershipState {
            group,
            node,
            master: AtomicBool::new(false),
            epochs: AtomicU64::new(0),
            informed: AtomicU64::new(0),
            lease_until: AtomicU64::new(0),
            member: AtomicBool::new(replica.configuration().part(node).is_some()),
            standing: watch::Sender::new(Leadership::default()),
        }
    }

    /// Returns true if this node is master and evaluates updates.
    #[inline]
    pub fn is_master(&self) -> bool {
        self.master.load(Ordering::Acquire)
    }

    /// Returns the number of the present or last leadership epoch.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epochs.load(Ordering::Acquire)
    }

    /// Returns true if, in this leadership epoch, the directory was known to be as clients left it.
    #[inline]
    pub fn is_directory_current(&self, epoch: u64) -> bool {
        self.informed.load(Ordering::Acquire) == epoch
    }

    /// Notes that the directory is as clients left it, in this leadership epoch.
    pub fn mark_directory_current(&self, epoch: u64) {
        self.informed.store(epoch, Ordering::Release);
    }

    /// Returns true if this node may answer a consistent read from its applied rows. If it is true
    /// before the read *and* after it, the answer is consistent.
    #[inline]
    pub fn can_read(&self) -> bool {
        if Mutant::ReadWithoutLease.is_active() || Mutant::KeepMastershipWithoutLease.is_active() {
            return self.is_master();
        }
        match self.lease_until.load(Ordering::Acquire) {
            u64::MAX => true,
            // A fraction of a millisecond counts as a full one that has passed.
            until => world::milliseconds() + 1 < until,
        }
    }

    /// Returns the leadership, and every change of it.
    pub fn subscribe(&self) -> watch::Receiver<Leadership> {
        self.standing.subscribe()
    }

    /// Resolves when another node is known to be master.
    pub async fn wait_for_other_master(&self) {
        let mut standing = self.subscribe();
        let is_other = |master: NodeId| master != self.node;
        // The sender exists as long as the group.
        let _ = standing.wait_for(|now| now.is_removed || now.master.is_some_and(is_other)).await;
    }

    /// Returns true if this node is a member of the group. A node that was down while it was
    /// removed learns it from the other members.
    pub fn is_member(&self) -> bool {
        let dismissed = self.standing.borrow().is_removed && !Mutant::KeepRemovedMember.is_active();
        self.member.load(Ordering::Acquire) && !dismissed
    }

    /// Sets the master, where a simulation replaces the group's other members.
    pub fn set_master(&self, master: NodeId) {
        self.publish(Some(Role::Follower), Some(master));
    }

    /// Sets whether updates are evaluated here, in a test that replaces consensus.
    pub fn set_master_for_test(&self, is_master: bool) {
        self.master.store(is_master, Ordering::Release);
    }

    /// Applies a change of this replica's role in consensus.
    pub(super) fn on_role_changed(
        &self,
        state: &mut GroupState,
        applied: &Applied,
        role: Role,
        master: Option<NodeId>,
    ) {
        tracing::debug!(target: "consensus", group = self.group.0, ?role, ?master, "role");
        if role == Role::Master {
            state.mastership.required_index = Some(state.replica.decided());
            return;
        }
        let master = master.filter(|master| *master != self.node);
        if master.is_none() && Mutant::KeepMastershipWithoutLease.is_active() {
            return;
        }
        self.resign(state, applied, role);
        self.publish(Some(role), master);
    }

    /// Becomes master if all earlier entries are applied: from here on this node evaluates updates.
    /// Returns true if it became master.
    pub(super) fn become_master(
        &self,
        state: &mut GroupState,
        applied: &Applied,
        trees: &dyn Trees,
        seals: &Seals,
    ) -> Result<bool> {
        if !state.mastership.is_due(applied.index()) || state.replica.role() != Role::Master {
            return Ok(false);
        }
        state.mastership.required_index = None;
        // If the next free index is still that of the first queued entry, no other master has
        // written in between: the queue was evaluated on exactly this state.
        let is_unchanged = state.queue.first_unproposed() == Some(state.replica.next());
        if !is_unchanged {
            state.end_epoch(applied);
            let counts = BucketCounts::load(self.group, trees)?;
            let indexes = GroupIndexes::load(self.group, trees)?;
            state.queue.restart(state.progress.mark, counts, indexes);
            state.master.load(self.group, trees, seals.all().sealed)?;
        }
        state.mastership.is_held = true;
        self.publish_lease(&state.mastership, &state.replica);
        // Before the flag: a reader that sees a master reads the epoch next, and must not find
        // itself `informed` by the last one.
        self.epochs.fetch_add(1, Ordering::AcqRel);
        self.master.store(!state.lifecycle.is_retiring(), Ordering::Release);
        tracing::info!(target: "consensus", group = self.group.0, "this node is master");
        self.publish(Some(Role::Master), Some(self.node));
        Ok(true)
    }

    /// Stops being master, or becoming one.
    fn resign(&self, state: &mut GroupState, applied: &Applied, role: Role) {
        state.mastership.required_index = None;
        self.stop();
        if std::mem::take(&mut state.mastership.is_held) {
            let group = self.group.0;
            tracing::info!(target: "consensus", group, "this node is master no longer");
        }
        // A candidate may lead again without another master in between: it keeps entries that it
        // has not proposed.
        if role != Role::Candidate || state.queue.has_in_flight(state.replica.decided()) {
            state.end_epoch(applied);
        }
    }

    /// Stops accepting updates. Accepted ones are still proposed as master.
    pub(super) fn retire(&self) {
        self.master.store(false, Ordering::Release);
    }

    /// Stops answering updates and reads.
    pub(super) fn stop(&self) {
        // The lease first: a read that ends meanwhile checks `can_read` again, and is not answered.
        self.lease_until.store(0, Ordering::Release);
        self.master.store(false, Ordering::Release);
    }

    /// Publishes what the lease allows, after every step.
    pub(super) fn publish_lease(&self, mastership: &Mastership, replica: &Replica) {
        let until = replica.lease_until().filter(|_| mastership.is_held);
        self.lease_until.store(until.map_or(0, |until| until.0), Ordering::Release);
    }

    fn publish(&self, role: Option<Role>, master: Option<NodeId>) {
        self.standing.send_if_modified(|standing| {
            let since_ms = match master == standing.master {
                true => standing.since_ms,
                false => world::milliseconds(),
            };
            let updated = Leadership { role, master, since_ms, ..*standing };
            std::mem::replace(standing, updated) != updated
        });
    }

    /// Removes the master: the group has failed here.
    pub(super) fn forget_master(&self) {
        self.standing.send_modify(|standing| {
            (standing.role, standing.master) = (Some(Role::Follower), None);
            standing.since_ms = world::milliseconds();
        });
    }

    /// Notes that the group continues without this node.
    pub(super) fn dismiss(&self) {
        self.standing
            .send_if_modified(|standing| !std::mem::replace(&mut standing.is_removed, true));
        let group = self.group.0;
        tracing::info!(target: "consensus", group, "no part in this group, yet or any more");
    }

    /// Notes that another configuration is in force. A dismissal referred to it, or to an earlier
    /// one.
    pub(super) fn on_reconfigured(&self, replica: &Replica) {
        let member = replica.configuration().part(self.node).is_some();
        self.member.store(member, Ordering::Release);
        self.standing.send_modify(|standing| standing.is_removed = false);
    }
}
