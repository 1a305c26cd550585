//! One group on this node: takes updates in, lays them out in values, and gives tickets for them.
//!
//! `submit.rs` evaluates an update at once, on the store under the undecided values, into the value
//! that is open. The driver (`driver.rs`) closes values and carries out what consensus decides. So
//! a thousand clients share one record, one write and one sync, and nobody waits for a batch to
//! fill.

use super::batch::{Batch, BatchRoom};
use super::budget::Budget;
use super::clock::{GroupClock, Ticks};
use super::driver_handle::DriverHandle;
use super::gate::Gate;
use super::heavy::Heavy;
use super::keeping::Keeping;
use super::layout::Mark;
use super::leadership::{Office, not_master};
use super::letter::OutgoingMessage;
use super::pace::Pace;
use super::records::Statement;
use super::recovered::RecoveredGroup;
use super::rests::Rests;
use super::seals::Seals;
use super::snapshot::Arrived;
use super::tracker::Tracking;
use super::values::Values;
use super::view::{StoreView, View};
use super::wait::Applied;
use crate::bucket::Bucket;
use base::limits::{UNDECIDED_UPDATES_MAX, VALUE_BATCH_BYTES, VALUE_UPDATES_MAX};
use base::{BucketId, Error, GroupId, LogIndex, NodeId, Reason, Result};
use bytes::Bytes;
use logic::consensus::{Effect, ReadToken, Refusal, Replica};
use runtime::keeper::Job;
use runtime::metrics::Metrics;
use runtime::submit::Ticket;
use runtime::sync::MutexGuard;
use runtime::world;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use store::Position;
use tokio::sync::{oneshot, watch};

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
    pub tracking: Tracking,
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
    /// More undecided bytes than this, and updates are answered `overloaded`.
    pub(super) undecided_bytes_max: usize,
    /// Whose turn it is to be evaluated among updates that take long; see `heavy.rs`.
    pub heavy: Heavy,
    state: Gate<GroupState>,
}

pub use super::leadership::Leadership;
pub use super::shared::{GroupLimits, Observer, Shared};

/// What changes with every update; behind one lock that is never held across a wait.
pub struct GroupState {
    /// The protocol's own state.
    pub replica: Replica,
    /// Effects of `replica` that are not carried out yet.
    pub effects: Vec<Effect>,
    /// The value being made; none until someone writes.
    pub open: Option<Batch>,
    /// Closed values: proposed or about to be, and not yet applied.
    pub pending: VecDeque<Batch>,
    /// How many of `pending` are proposed.
    pub proposed: usize,
    /// Sizes of proposals, from how fast they are decided.
    pub pace: Pace,
    /// Group time.
    pub clock: GroupClock,
    /// Version of the next update.
    pub next_version: u64,
    /// Number of sessions with an outcome kept.
    pub sessions: u64,
    /// Buckets whose seal is laid out: decided, or before everything that is evaluated now.
    pub sealed: BTreeSet<BucketId>,
    /// The soonest expiry that is known of, and where the sweep goes on (empty: see the store).
    pub next_expiry: u64,
    /// Key behind which the sweep of expired rows goes on.
    pub swept: Bytes,
    /// How far ahead the next sweep looks for the next expiry; 0: as little as it may.
    pub look_ahead_ms: u64,
    /// Error that stopped the group, if one did.
    pub failed: Option<Error>,
    /// What the last applied value left.
    pub mark: Mark,
    /// Everything up to here is decided, and applied as soon as the store takes it.
    pub decided: LogIndex,
    /// Values that are in the log and not in the store yet.
    pub values: Values,
    /// Part the node plays: follower, candidate, master.
    pub office: Office,
    /// Records and messages that this turn brings forth.
    pub jobs: Vec<Job>,
    /// Messages to other members.
    pub letters: Vec<OutgoingMessage>,
    /// Values that are to be sent in a later turn.
    pub rests: Rests,
    /// Reads that wait to be told what they must see.
    pub reads: BTreeMap<ReadToken, oneshot::Sender<Result<LogIndex>>>,
    /// Token of the next read that asks the others.
    pub next_read: u64,
    /// Why the last hand-over was refused.
    pub refused: Option<Refusal>,
    /// Who has a snapshot that this node needs.
    pub wants_snapshot: Option<NodeId>,
    /// State that a snapshot brought, until it is installed.
    pub arrived: Arrived,
    /// Timers.
    pub ticks: Ticks,
    /// Where the log began when that was looked at last.
    pub log_start: Position,
    /// Last statement of the log about what is decided.
    pub statement: Statement,
    /// Nothing new is taken; mastership is given back when everything taken is proposed.
    pub retiring: bool,
    /// The driver has ended.
    pub ended: bool,
    scratch: Vec<u8>,
    room: BatchRoom,
}

impl Group {
    /// Makes a group from what was found in the log and the store.
    pub fn new(found: RecoveredGroup, shared: Shared) -> Group {
        let undecided_bytes_max = shared.limits.undecided_bytes_max();
        let RecoveredGroup { id, replica, mark, tail, runs, bare } = found;
        let loaded = Seals::load(id, &*shared.trees);
        let keeping = bare.then(|| Keeping::load(id, &shared)).transpose();
        let failed = loaded.as_ref().err().or(keeping.as_ref().err()).cloned();
        let (seals, observer) = (Arc::new(loaded.unwrap_or_default()), OnceLock::new());
        if id != GroupId::DIRECTORY {
            let _ = observer.set(seals.clone() as Arc<dyn Observer>); // It is new.
        }
        let sealed = seals.all().sealed;
        let values = Values::restored(LogIndex(mark.applied), tail.into_values(), runs);
        Group {
            id,
            member: AtomicBool::new(replica.configuration().part(shared.node).is_some()),
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
            undecided_bytes_max,
            heavy: Heavy::default(),
            state: Gate::new(GroupState::new(replica, mark, sealed, values, failed)),
        }
    }

    /// Its state, for the driver and for whoever holds it for an instant.
    pub fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.urgent()
    }

    /// Its state, if it takes updates of this bucket now: for whoever evaluates.
    pub(super) fn serving(&self, bucket: &Bucket) -> Result<MutexGuard<'_, GroupState>> {
        let state = self.state.patient();
        state.admit(self)?;
        self.witness_has_room(&state)?;
        state.serves(bucket)?;
        Ok(state)
    }

    /// The open value took one more update: counts it, and wakes the driver for a fresh one.
    pub fn take(&self, state: &mut GroupState, fresh: bool, sync: bool) -> Ticket {
        let open = state.open.as_mut().expect("an update was just written into it");
        open.updates += 1;
        open.sync |= sync;
        let index = open.index;
        let full =
            open.value_bytes() >= VALUE_BATCH_BYTES || open.updates as usize >= VALUE_UPDATES_MAX;
        if full || fresh || state.pace.is_complete(open.updates) {
            self.driver.wake();
        }
        if full {
            state.close();
        }
        Metrics::count(&self.shared.metrics.updates);
        Ticket { group: self.id, index, term: self.applied.term() }
    }
}

impl GroupState {
    fn new(
        replica: Replica,
        mark: Mark,
        sealed: BTreeSet<BucketId>,
        values: Values,
        failed: Option<Error>,
    ) -> GroupState {
        GroupState {
            replica,
            effects: Vec::new(),
            open: None,
            pending: VecDeque::new(),
            proposed: 0,
            pace: Pace::default(),
            clock: GroupClock::from(mark.time),
            next_version: mark.next_version.max(1),
            sessions: 0,
            sealed,
            next_expiry: 0,
            swept: Bytes::new(),
            look_ahead_ms: 0,
            failed,
            mark,
            decided: LogIndex(mark.applied),
            values,
            office: Office::default(),
            jobs: Vec::new(),
            letters: Vec::new(),
            rests: Rests::default(),
            reads: BTreeMap::new(),
            next_read: 0,
            refused: None,
            wants_snapshot: None,
            arrived: Arrived::default(),
            ticks: Ticks::default(),
            log_start: Position(0),
            statement: Statement::due(),
            retiring: false,
            ended: false,
            scratch: Vec::new(),
            room: BatchRoom::default(),
        }
    }

    pub(super) fn admit(&self, group: &Group) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if !group.master.load(Ordering::Acquire) {
            return Err(not_master(self.replica.master()));
        }
        let (updates, bytes) = self.undecided();
        if updates >= UNDECIDED_UPDATES_MAX as u64 || bytes >= group.undecided_bytes_max {
            Metrics::count(&group.shared.metrics.updates_refused);
            return Err(Error::new(
                Reason::Overloaded,
                format!(
                    "{updates} updates of {bytes} bytes wait for the disk already \
                     (undecided_updates_max, undecided_bytes_max): retry later"
                ),
            ));
        }
        Ok(())
    }

    /// Makes sure a value is open. Gives whether it holds no update yet, and how long it is.
    pub fn begin(&mut self, group: GroupId) -> (bool, usize) {
        let room = match &self.open {
            Some(open) if open.updates > 0 => return (false, open.value_bytes()),
            // The last update failed: the next may as well, and needs no room for others.
            Some(_) => BatchRoom::default(),
            None => std::mem::take(&mut self.room),
        };
        let (now, salt) = (self.clock.now(), world::salt() ^ u64::from(group.0));
        let fresh = Batch::new(self.next_index(), now, self.next_version, salt, room);
        (true, self.open.insert(fresh).value_bytes())
    }

    /// The index of the next value, behind those that wait to be proposed.
    pub(super) fn next_index(&self) -> LogIndex {
        let ahead = (self.pending.len() - self.proposed) as u64;
        LogIndex(self.replica.next().0 + ahead)
    }

    pub(super) fn changed(&self, begun: usize) -> bool {
        self.open.as_ref().is_some_and(|open| open.value_bytes() > begun)
    }

    /// The last value anyone has written into, if it is not applied yet.
    pub(super) fn ticket(&self, group: &Group) -> Option<Ticket> {
        let open = self.open.as_ref().filter(|open| open.updates > 0);
        let last = open.or(self.pending.back())?;
        (last.index > group.applied.index()).then(|| Ticket {
            group: group.id,
            index: last.index,
            term: group.applied.term(),
        })
    }

    /// The index of the first own value that is not proposed yet.
    pub(super) fn unproposed(&self) -> Option<LogIndex> {
        self.pending.get(self.proposed).or(self.open.as_ref()).map(|first| first.index)
    }

    /// True if the last value with an update in it is not proposed yet.
    pub(super) fn has_unproposed(&self) -> bool {
        let open = self.open.as_ref().is_some_and(|open| open.updates > 0);
        open || self.pending.len() > self.proposed
    }

    /// What an update sees.
    pub fn view<'a>(&'a mut self, group: &'a Group) -> View<'a> {
        View {
            group: group.id,
            store: StoreView::Now(&*group.shared.trees),
            pending: &self.pending,
            open: self.open.as_mut().expect("`begin` was called"),
            budget: Budget::unbounded(),
            saw_expired: false,
            scratch: &mut self.scratch,
        }
    }

    /// The open value takes no more updates.
    pub fn close(&mut self) {
        let Some(mut open) = self.open.take_if(|open| open.updates > 0) else { return };
        self.room = open.leave_room();
        self.next_version = open.first_version + u64::from(open.updates);
        self.pending.push_back(open);
    }

    /// Updates and bytes that are not applied yet.
    pub fn undecided(&self) -> (u64, usize) {
        let all = self.pending.iter().chain(self.open.as_ref());
        all.fold((0, 0), |(updates, bytes), batch| {
            (updates + u64::from(batch.updates), bytes + batch.value_bytes())
        })
    }
}
