//! One group on this node: accepts updates, writes them into entries, and issues tickets for them.
//!
//! `submit.rs` evaluates an update at once, on the store under the undecided entries, into the open
//! entry. The driver (`driver.rs`) closes entries and carries out the effects of consensus. So a
//! thousand clients share one record, one write and one sync, and none waits for a batch to fill.
//!
//! State that changes with every update is in `state.rs`, behind one lock. The other parts are read
//! and written without it, each by its own rules: `leadership.rs`, `driver_handle.rs`, `wait.rs`.

use super::dirty_keys::DirtyKeyTracking;
use super::driver_handle::DriverHandle;
use super::entry_times::EntryStages;
use super::gate::Gate;
use super::group_indexes::AppliedIndexes;
use super::heavy::HeavyUpdates;
use super::large::LargeUpdates;
use super::leadership::LeadershipState;
use super::mastership::not_master_error;
use super::recovered::RecoveredGroup;
use super::seals::Seals;
use super::state::GroupState;
use super::wait::Applied;
use super::witness_log::WitnessLog;
use crate::bucket::Bucket;
use base::{Error, GroupId, LogIndex, Result};
use bytes::Bytes;
use replica_state::feed::AppliedFeeds;
use runtime::metrics::Metrics;
use runtime::submit::Ticket;
use runtime::sync::MutexGuard;
use runtime::world;
use runtime::write_pacer::WriterPauses;
use std::sync::{Arc, OnceLock};

pub use super::leadership::Leadership;
pub use super::shared::{GroupLimits, Observer, Shared};

/// Replica of a group on this node.
pub struct Group {
    /// Number of the group.
    pub id: GroupId,
    /// Handles that all groups of the node share.
    pub shared: Shared,
    /// Leadership: whether this node is master, and the last reported master.
    pub leadership: LeadershipState,
    /// Handle of the driver, for other threads.
    pub driver: DriverHandle,
    /// Watermarks of applied entries, which can be awaited.
    pub applied: Applied,
    /// Observer of applied entries. Empty: there is none.
    pub observer: OnceLock<Arc<dyn Observer>>,
    /// Seals of buckets that left the group, or are about to.
    pub seals: Arc<Seals>,
    /// Indexes of the group's buckets, by the applied rows.
    pub indexes: Arc<AppliedIndexes>,
    /// Feeds of the group's buckets, by the applied rows.
    pub feeds: AppliedFeeds,
    /// Entries that a witness keeps in place of rows.
    pub(super) witness_log: Option<std::sync::Mutex<WitnessLog>>,
    /// Pauses of applying while the store lags.
    pub(super) pauses: WriterPauses,
    /// Keys that change in a bucket that is being copied.
    pub(super) tracking: DirtyKeyTracking,
    /// Queue of the updates that take long to evaluate.
    pub heavy: HeavyUpdates,
    /// Queue of the updates whose records are large.
    pub large: LargeUpdates,
    state: Gate<GroupState>,
}

/// Observer of what a group keeps of its own.
struct BookkeepingObserver {
    seals: Arc<Seals>,
    indexes: Arc<AppliedIndexes>,
}

impl Observer for BookkeepingObserver {
    fn changed(&self, key: &[u8], row: Option<&Bytes>) {
        self.seals.changed(key, row);
        self.indexes.changed(key, row);
    }
}

impl Group {
    /// Creates a group from its recovered state.
    pub fn new(recovered: RecoveredGroup, shared: Shared) -> Group {
        let (id, mark) = (recovered.id, recovered.mark);
        let undecided_bytes_max = shared.limits.undecided_bytes_max();
        let loaded = Seals::load(id, &*shared.trees);
        let witness_log =
            recovered.is_witness_replica.then(|| WitnessLog::load(id, &shared)).transpose();
        let indexes = AppliedIndexes::load(id, &*shared.trees);
        let load_error = loaded.as_ref().err().or(witness_log.as_ref().err());
        let feeds = AppliedFeeds::load(id, &*shared.trees);
        let load_error = load_error.or(indexes.as_ref().err()).or(feeds.as_ref().err()).cloned();
        let (seals, observer) = (Arc::new(loaded.unwrap_or_default()), OnceLock::new());
        let indexes = Arc::new(indexes.unwrap_or_default());
        if id != GroupId::DIRECTORY {
            let observers = BookkeepingObserver { seals: seals.clone(), indexes: indexes.clone() };
            let _ = observer.set(Arc::new(observers) as Arc<dyn Observer>); // The cell is new.
        }
        let sealed = seals.all().sealed;
        let leadership = LeadershipState::new(id, shared.node, &recovered.replica);
        let state = GroupState::restored(recovered, sealed, undecided_bytes_max, load_error);
        Group {
            id,
            shared,
            leadership,
            driver: DriverHandle::new(undecided_bytes_max),
            applied: Applied::new(mark),
            observer,
            seals,
            indexes,
            feeds: feeds.unwrap_or_default(),
            witness_log: witness_log.unwrap_or_default(),
            pauses: WriterPauses::default(),
            tracking: DirtyKeyTracking::default(),
            heavy: HeavyUpdates::default(),
            large: LargeUpdates::default(),
            state: Gate::new(state),
        }
    }

    /// Locks the state, for the driver and for callers that hold it for an instant.
    pub fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock_urgent()
    }

    /// Locks the state to evaluate an update. Fails if updates of this bucket are not accepted now.
    pub(super) fn lock_for_update(&self, bucket: &Bucket) -> Result<MutexGuard<'_, GroupState>> {
        // The clock is read for those alone who wait.
        let (mut state, waited_ns) = match self.state.try_lock_patient() {
            Some(state) => (state, 0),
            None => {
                let begun_ns = world::nanoseconds();
                let state = self.state.lock_patient();
                (state, world::nanoseconds().saturating_sub(begun_ns))
            }
        };
        self.admit(&state)?;
        self.witness_has_room(&state)?;
        state.master.check_bucket(bucket)?;
        state.latencies.begin_update(waited_ns);
        Ok(state)
    }

    /// Refuses updates where this node is not master, or too many wait.
    pub(super) fn admit(&self, state: &GroupState) -> Result<()> {
        state.lifecycle.check()?;
        if !self.leadership.is_master() {
            return Err(not_master_error(state.replica.master()));
        }
        let refused = |_: &Error| Metrics::count(&self.shared.metrics.updates_refused);
        state.queue.check_room().inspect_err(refused)
    }

    /// Counts an update that was written into the open entry, and returns its ticket. Wakes the
    /// driver for the first update of an entry (`is_first`).
    pub(super) fn add_update(&self, state: &mut GroupState, is_first: bool, sync: bool) -> Ticket {
        let (index, is_due) = state.queue.add(is_first, sync);
        if is_due {
            self.driver.wake();
        }
        Metrics::count(&self.shared.metrics.updates);
        Ticket { group: self.id, index, epoch: self.applied.epoch() }
    }

    /// Returns the current group time of this node.
    pub fn now(&self) -> u64 {
        self.state().queue.clock.now()
    }

    /// Returns the stages of an entry that was proposed here, if it took long and was applied
    /// lately.
    pub fn entry_stages(&self, index: LogIndex) -> Option<EntryStages> {
        self.state().times.of_applied(index)
    }

    /// Waits until a ticket's entry is decided and applied here.
    pub async fn wait_applied(&self, ticket: Ticket) -> Result<()> {
        self.applied.wait_applied(ticket.epoch, ticket.index).await
    }
}
