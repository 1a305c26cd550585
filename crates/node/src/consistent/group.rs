//! One group on this node: takes updates in, lays them out in values, and gives tickets for them.
//!
//! `submit` evaluates an update at once, on the store under the undecided values, into the value
//! that is open. The driver (`driver.rs`) closes values and carries out what consensus decides. So
//! a thousand clients share one record, one write and one sync, and nobody waits for a batch to
//! fill.

use super::batch::{Batch, Room};
use super::evaluate::evaluate;
use super::layout::Mark;
use super::session::{self, Retried};
use super::view::View;
use super::wait::Applied;
use crate::catalog::Bucket;
use crate::housekeeping::Bell;
use crate::keeper::{Done, Keeper};
use crate::metrics::Metrics;
use crate::recovery::RecoveredGroup;
use crate::submit::Ticket;
use crate::world;
use base::limits::{
    SESSIONS_MAX, UNDECIDED_BYTES_MAX, UNDECIDED_UPDATES_MAX, VALUE_BATCH_BYTES, VALUE_UPDATES_MAX,
};
use base::request::Steps;
use base::{
    Error, GroupId, LogIndex, Outcome, Reason, Result, RetryId, SessionId, SyncPolicy, Update,
};
use bytes::Bytes;
use logic::consensus::{Effect, Replica, Role};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard};
use store::Trees;
use tokio::sync::{Notify, watch};

/// Undecided updates may take this part of the store's memory, on top of it.
const UNDECIDED_PART: u64 = 4;

/// A group's part on this node.
pub(crate) struct Group {
    pub id: GroupId,
    pub trees: Arc<dyn Trees>,
    pub keeper: Arc<Keeper>,
    pub metrics: Arc<Metrics>,
    /// Rung when the store wants to be flushed.
    pub bell: Arc<Bell>,
    pub applied: Applied,
    /// Group time of the last applied value, milliseconds: what reads compare expiries with.
    pub time: AtomicU64,
    /// The last value that the store is known to hold durably.
    pub durable: AtomicU64,
    /// Whether this node is master and may answer.
    pub master: AtomicBool,
    /// The same, for those who wait for a change.
    pub role: watch::Sender<Role>,
    /// Written records that the driver has not seen yet.
    pub mailbox: Mutex<Vec<Done>>,
    pub wake: Notify,
    /// More undecided bytes than this, and updates are answered `overloaded`.
    undecided_bytes_max: usize,
    state: Mutex<State>,
}

/// What changes with every update; behind one lock that is never held across a wait.
pub(crate) struct State {
    pub replica: Replica,
    pub effects: Vec<Effect>,
    /// The value being made; none until someone writes.
    pub open: Option<Batch>,
    /// Closed values: proposed or about to be, and not yet applied.
    pub pending: VecDeque<Batch>,
    /// How many of `pending` are proposed.
    pub proposed: usize,
    pub clock: Clock,
    pub next_version: u64,
    pub sessions: u64,
    /// The soonest expiry that is known of.
    pub next_expiry: u64,
    pub failed: Option<Error>,
    /// What the last applied value left.
    pub mark: Mark,
    /// Accepted values of an earlier life, not known to be decided when this one began.
    pub inherited: BTreeMap<LogIndex, Bytes>,
    /// Someone waits for the driver to copy to the log's head what lives only there.
    pub copy_asked: Option<SyncSender<()>>,
    /// Nothing new is taken; mastership is given back when everything taken is proposed.
    pub retiring: bool,
    /// The driver has ended.
    pub ended: bool,
    scratch: Vec<u8>,
    room: Room,
}

/// Group time: goes on from the last value's time, by monotonic time only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    group_ms: u64,
    monotonic_ms: u64,
}

impl Clock {
    /// Goes on from here.
    pub(crate) fn from(group_ms: u64) -> Clock {
        Clock { group_ms, monotonic_ms: world::milliseconds() }
    }

    /// Group time now.
    pub(crate) fn now(&self) -> u64 {
        self.group_ms + world::milliseconds().saturating_sub(self.monotonic_ms)
    }
}

/// What an update came to, and the ticket that must be decided before that may be told.
pub(crate) type Submission = (Option<Ticket>, LogIndex, Result<Outcome>);

impl Group {
    pub(crate) fn new(
        found: RecoveredGroup,
        trees: Arc<dyn Trees>,
        keeper: Arc<Keeper>,
        metrics: Arc<Metrics>,
        bell: Arc<Bell>,
        memory_bytes_max: u64,
    ) -> Group {
        let RecoveredGroup { id, replica, mark, tail } = found;
        let share = usize::try_from(memory_bytes_max / UNDECIDED_PART).unwrap_or(usize::MAX);
        let applied = Applied::default();
        applied.advance(LogIndex(mark.applied));
        Group {
            id,
            trees,
            keeper,
            metrics,
            bell,
            applied,
            durable: AtomicU64::new(0),
            time: AtomicU64::new(mark.time),
            master: AtomicBool::new(false),
            role: watch::Sender::new(Role::Candidate),
            mailbox: Mutex::new(Vec::new()),
            wake: Notify::new(),
            undecided_bytes_max: share.min(UNDECIDED_BYTES_MAX),
            state: Mutex::new(State {
                replica,
                effects: Vec::new(),
                open: None,
                pending: VecDeque::new(),
                proposed: 0,
                clock: Clock::from(mark.time),
                next_version: mark.next_version.max(1),
                sessions: 0,
                next_expiry: 0,
                failed: None,
                mark,
                inherited: tail,
                copy_asked: None,
                retiring: false,
                ended: false,
                scratch: Vec::new(),
                room: Room::default(),
            }),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no one panics while holding it")
    }

    /// Evaluates an update into the open value.
    pub(crate) fn submit(
        &self,
        bucket: &Bucket,
        update: &Update,
        retry: Option<RetryId>,
    ) -> Result<Submission> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.admit(self)?;
        if bucket.is_retired() {
            return Err(Error::new(Reason::Moved, "the bucket was changed meanwhile: repeat"));
        }
        let (before, begun) = state.begin(self.id);
        let mut view = state.view(self);
        let (result, earlier) = match retry {
            None => (evaluate(&mut view, bucket, update), None),
            Some(retry) => match session::once(&mut view, bucket, update, retry)? {
                Retried::Now(result) => (result, None),
                Retried::Before(index, result) => (result, Some(index)),
            },
        };
        let logged = state.changed(begun) || (*update == Update::Nop && result.is_ok());
        if logged {
            let wanted = matches!(update, Update::Sequence { mode: Steps::Synced, .. });
            let sync = wanted || bucket.properties.sync == SyncPolicy::Sync;
            self.take(state, before, sync);
        }
        let ticket = state.ticket(self);
        let index = earlier.or(ticket.map(|ticket| ticket.index));
        Ok((ticket, index.unwrap_or_else(|| self.applied.index()), result))
    }

    /// Opens a session.
    pub(crate) fn open_session(&self) -> Result<(Ticket, SessionId)> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.admit(self)?;
        if state.sessions >= SESSIONS_MAX as u64 {
            return Err(Error::new(
                Reason::TooMany,
                format!("{SESSIONS_MAX} sessions are open (sessions_max): close some"),
            ));
        }
        let (before, _) = state.begin(self.id);
        let session = session::open(&mut state.view(self));
        state.sessions += 1;
        let ticket = self.take(state, before, true);
        Ok((ticket, session))
    }

    /// Closes a session; one that is not open is closed already.
    pub(crate) fn close_session(&self, session: SessionId) -> Result<Option<Ticket>> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.admit(self)?;
        let (before, begun) = state.begin(self.id);
        let mut view = state.view(self);
        if view.session(session)?.is_some() {
            view.remove_session(session)?;
            state.sessions = state.sessions.saturating_sub(1);
        }
        if state.changed(begun) {
            self.take(state, before, true);
        }
        Ok(state.ticket(self))
    }

    /// The open value took one more update: counts it, and wakes the driver for a fresh one.
    pub(crate) fn take(&self, state: &mut State, fresh: bool, sync: bool) -> Ticket {
        let open = state.open.as_mut().expect("an update was just written into it");
        open.updates += 1;
        open.sync |= sync;
        let index = open.index;
        if open.len() >= VALUE_BATCH_BYTES || open.updates as usize >= VALUE_UPDATES_MAX {
            state.close();
            self.wake.notify_one();
        } else if fresh {
            self.wake.notify_one();
        }
        Metrics::count(&self.metrics.updates);
        Ticket { group: self.id, index }
    }
}

impl State {
    fn admit(&self, group: &Group) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if !group.master.load(Ordering::Acquire) {
            let master = self.replica.master().map_or("None".into(), |node| node.to_string());
            return Err(Error::new(Reason::NotMaster, master));
        }
        let (updates, bytes) = self.undecided();
        if updates >= UNDECIDED_UPDATES_MAX as u64 || bytes >= group.undecided_bytes_max {
            Metrics::count(&group.metrics.updates_refused);
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

    /// Updates and bytes that are not applied yet.
    pub(crate) fn undecided(&self) -> (u64, usize) {
        let all = self.pending.iter().chain(self.open.as_ref());
        all.fold((0, 0), |(updates, bytes), batch| {
            (updates + u64::from(batch.updates), bytes + batch.len())
        })
    }

    /// Makes sure a value is open. Gives whether it holds no update yet, and how long it is.
    pub(crate) fn begin(&mut self, group: GroupId) -> (bool, usize) {
        let now = self.clock.now();
        let ahead = (self.pending.len() - self.proposed) as u64;
        let index = LogIndex(self.replica.next().0 + ahead);
        let (version, salt) = (self.next_version, world::salt() ^ u64::from(group.0));
        let open = match &mut self.open {
            Some(open) if open.updates > 0 => open,
            // The last update failed: the next may as well, and needs no room for others.
            Some(open) => {
                *open = Batch::new(index, now, version, salt, Room::default());
                open
            }
            none => {
                let room = std::mem::take(&mut self.room);
                none.insert(Batch::new(index, now, version, salt, room))
            }
        };
        (open.updates == 0, open.len())
    }

    fn changed(&self, begun: usize) -> bool {
        self.open.as_ref().is_some_and(|open| open.len() > begun)
    }

    /// The last value anyone has written into, if it is not applied yet.
    fn ticket(&self, group: &Group) -> Option<Ticket> {
        let open = self.open.as_ref().filter(|open| open.updates > 0);
        let last = open.or(self.pending.back())?;
        (last.index > group.applied.index())
            .then_some(Ticket { group: group.id, index: last.index })
    }

    /// What an update sees.
    pub(crate) fn view<'a>(&'a mut self, group: &'a Group) -> View<'a> {
        View {
            group: group.id,
            trees: &*group.trees,
            pending: &self.pending,
            open: self.open.as_mut().expect("`begin` was called"),
            scratch: &mut self.scratch,
        }
    }

    /// The open value takes no more updates.
    pub(crate) fn close(&mut self) {
        let Some(mut open) = self.open.take_if(|open| open.updates > 0) else { return };
        self.room = open.leave_room();
        self.next_version = open.first_version + u64::from(open.updates);
        self.pending.push_back(open);
    }
}
