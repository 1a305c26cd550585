//! One group on this node: takes updates in, lays them out in entries, and gives tickets for them.
//!
//! `submit.rs` evaluates an update at once, on the store under the undecided entries, into the open
//! entry. The driver (`driver.rs`) closes entries and carries out the effects of consensus. So a
//! thousand clients share one record, one write and one sync, and none waits for a batch to fill.
//!
//! State that changes with every update is in `state.rs`, behind one lock. The other parts are read
//! and written without it, each by its own rules: `leadership.rs`, `driver_handle.rs`, `wait.rs`.

use super::dirty_keys::DirtyKeyTracking;
use super::driver_handle::DriverHandle;
use super::gate::Gate;
use super::heavy::Heavy;
use super::leadership::LeadershipState;
use super::mastership::not_master;
use super::recovered::RecoveredGroup;
use super::seals::Seals;
use super::state::GroupState;
use super::wait::Applied;
use super::witness_log::WitnessLog;
use crate::bucket::Bucket;
use base::{Error, GroupId, Result};
use runtime::metrics::Metrics;
use runtime::submit::Ticket;
use runtime::sync::MutexGuard;
use std::sync::{Arc, OnceLock};

pub use super::leadership::Leadership;
pub use super::shared::{GroupLimits, Observer, Shared};

/// A group's part on this node.
pub struct Group {
    /// Number of the group.
    pub id: GroupId,
    /// Things that all groups of the node share.
    pub shared: Shared,
    /// Leadership: this node's own, and what it knows of other masters.
    pub leadership: LeadershipState,
    /// Driver, as other threads meet it.
    pub driver: DriverHandle,
    /// Watermarks of applied entries, which can be awaited.
    pub applied: Applied,
    /// Observer of applied entries. Empty: there is none.
    pub observer: OnceLock<Arc<dyn Observer>>,
    /// Buckets that left it.
    pub seals: Arc<Seals>,
    /// Entries that a witness keeps in place of rows.
    pub(super) witness_log: Option<std::sync::Mutex<WitnessLog>>,
    /// Keys that change in a bucket that is being copied.
    pub(super) tracking: DirtyKeyTracking,
    /// Line of the updates that take long to evaluate.
    pub heavy: Heavy,
    state: Gate<GroupState>,
}

impl Group {
    /// Creates a group from its recovered state.
    pub fn new(found: RecoveredGroup, shared: Shared) -> Group {
        let (id, mark) = (found.id, found.mark);
        let undecided_bytes_max = shared.limits.undecided_bytes_max();
        let loaded = Seals::load(id, &*shared.trees);
        let witness_log = found.bare.then(|| WitnessLog::load(id, &shared)).transpose();
        let failed = loaded.as_ref().err().or(witness_log.as_ref().err()).cloned();
        let (seals, observer) = (Arc::new(loaded.unwrap_or_default()), OnceLock::new());
        if id != GroupId::DIRECTORY {
            let _ = observer.set(seals.clone() as Arc<dyn Observer>); // It is new.
        }
        let sealed = seals.all().sealed;
        let leadership = LeadershipState::new(id, shared.node, &found.replica);
        let state = GroupState::restored(found, sealed, undecided_bytes_max, failed);
        Group {
            id,
            shared,
            leadership,
            driver: DriverHandle::new(undecided_bytes_max),
            applied: Applied::new(mark),
            observer,
            seals,
            witness_log: witness_log.unwrap_or_default(),
            tracking: DirtyKeyTracking::default(),
            heavy: Heavy::default(),
            state: Gate::new(state),
        }
    }

    /// Locks the state, for the driver and for callers that hold it for an instant.
    pub fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.urgent()
    }

    /// Locks its state to evaluate an update, if it takes those of this bucket now.
    pub(super) fn serving(&self, bucket: &Bucket) -> Result<MutexGuard<'_, GroupState>> {
        let state = self.state.patient();
        self.admit(&state)?;
        self.witness_has_room(&state)?;
        state.master.serves(bucket)?;
        Ok(state)
    }

    /// Refuses updates where this node is not master, or too many wait.
    pub(super) fn admit(&self, state: &GroupState) -> Result<()> {
        state.life.check()?;
        if !self.leadership.is_master() {
            return Err(not_master(state.replica.master()));
        }
        let refused = |_: &Error| Metrics::count(&self.shared.metrics.updates_refused);
        state.queue.check_room().inspect_err(refused)
    }

    /// Counts an update that was written into the open entry, and wakes the driver for a fresh one.
    pub(super) fn take(&self, state: &mut GroupState, fresh: bool, sync: bool) -> Ticket {
        let (index, is_due) = state.queue.add(fresh, sync);
        if is_due {
            self.driver.wake();
        }
        Metrics::count(&self.shared.metrics.updates);
        Ticket { group: self.id, index, epoch: self.applied.epoch() }
    }

    /// Returns the group's time now, as far as this node keeps it.
    pub fn now(&self) -> u64 {
        self.state().queue.clock.now()
    }

    /// Waits until a ticket's entry is decided and applied here.
    pub async fn settled(&self, ticket: Ticket) -> Result<()> {
        self.applied.settled(ticket.epoch, ticket.index).await
    }
}
