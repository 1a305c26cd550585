//! One group on this node: takes updates in, lays them out in values, and gives tickets for them.
//!
//! `submit.rs` evaluates an update at once, on the store under the undecided values, into the value
//! that is open. The driver (`driver.rs`) closes values and carries out what consensus decides. So
//! a thousand clients share one record, one write and one sync, and nobody waits for a batch to
//! fill.

use super::driver_handle::DriverHandle;
use super::gate::Gate;
use super::heavy::Heavy;
use super::keeping::Keeping;
use super::leadership::not_master;
use super::recovered::RecoveredGroup;
use super::seals::Seals;
use super::state::GroupState;
use super::tracker::Tracking;
use super::wait::Applied;
use crate::bucket::Bucket;
use base::{Error, GroupId, Result};
use runtime::metrics::Metrics;
use runtime::submit::Ticket;
use runtime::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// A group's part on this node.
pub struct Group {
    /// Number of the group.
    pub id: GroupId,
    /// Things that all groups of the node share.
    pub shared: Shared,
    /// Told of applied values; empty: nobody asks.
    pub observer: OnceLock<Arc<dyn Observer>>,
    /// Buckets that left it.
    pub seals: Arc<Seals>,
    /// What a witness keeps in place of rows.
    pub(super) keeping: Option<std::sync::Mutex<Keeping>>,
    /// What changes of a bucket that is being copied.
    pub(super) tracking: Tracking,
    /// How far values are applied, to be waited for.
    pub applied: Applied,
    /// True if this node is master and may evaluate updates.
    pub master: AtomicBool,
    /// How often it has become master.
    pub offices: AtomicU64,
    /// In which of these times its directory was as clients left it; see `forward/directory.rs`.
    pub informed: AtomicU64,
    /// Until when it may answer reads by itself, as milliseconds of monotonic time; 0: not now.
    pub(super) lease_until: AtomicU64,
    /// Who leads, for those who wait for a change.
    pub(super) standing: watch::Sender<Leadership>,
    /// This node is a member, as its own configuration says.
    pub(super) member: AtomicBool,
    /// What waits for the driver, and whether it goes on.
    pub driver: DriverHandle,
    /// Whose turn it is to be evaluated among updates that take long; see `heavy.rs`.
    pub heavy: Heavy,
    state: Gate<GroupState>,
}

pub use super::leadership::Leadership;
pub use super::shared::{GroupLimits, Observer, Shared};

impl Group {
    /// Makes a group from what was found in the log and the store.
    pub fn new(found: RecoveredGroup, shared: Shared) -> Group {
        let undecided_bytes_max = shared.limits.undecided_bytes_max();
        let (id, mark) = (found.id, found.mark);
        let loaded = Seals::load(id, &*shared.trees);
        let keeping = found.bare.then(|| Keeping::load(id, &shared)).transpose();
        let failed = loaded.as_ref().err().or(keeping.as_ref().err()).cloned();
        let (seals, observer) = (Arc::new(loaded.unwrap_or_default()), OnceLock::new());
        if id != GroupId::DIRECTORY {
            let _ = observer.set(seals.clone() as Arc<dyn Observer>); // It is new.
        }
        let sealed = seals.all().sealed;
        let member = found.replica.configuration().part(shared.node).is_some();
        let state = GroupState::restored(found, sealed, undecided_bytes_max, failed);
        Group {
            id,
            member: AtomicBool::new(member),
            shared,
            observer,
            seals,
            keeping: keeping.unwrap_or_default(),
            tracking: Tracking::default(),
            applied: Applied::new(mark),
            master: AtomicBool::new(false),
            offices: AtomicU64::new(0),
            informed: AtomicU64::new(0),
            lease_until: AtomicU64::new(0),
            standing: watch::Sender::new(Leadership::default()),
            driver: DriverHandle::new(undecided_bytes_max),
            heavy: Heavy::default(),
            state: Gate::new(state),
        }
    }

    /// Its state, for the driver and for whoever holds it for an instant.
    pub fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.urgent()
    }

    /// Its state, if it takes updates of this bucket now: for whoever evaluates.
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
        if !self.master.load(Ordering::Acquire) {
            return Err(not_master(state.replica.master()));
        }
        let refused = |_: &Error| Metrics::count(&self.shared.metrics.updates_refused);
        state.queue.check_room().inspect_err(refused)
    }

    /// The open value took one more update: counts it, and wakes the driver for a fresh one.
    pub(super) fn take(&self, state: &mut GroupState, fresh: bool, sync: bool) -> Ticket {
        let (index, is_due) = state.queue.add(fresh, sync);
        if is_due {
            self.driver.wake();
        }
        Metrics::count(&self.shared.metrics.updates);
        Ticket { group: self.id, index, term: self.applied.term() }
    }
}
