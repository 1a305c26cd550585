//! Store of this node's vnodes: rows in the local store, overlaid with changes that are logged and
//! not applied yet.
//!
//! All vnodes of a node write through one store. All changes of the tasks that are runnable when
//! the first one is made go into one log record, and those that arrive while it is being synced
//! into the next: batches form by themselves. A change is evaluated on the
//! newest state (`vnode_ops.rs`); readers see the store alone, which holds only rows that survive a
//! crash.
//!
//! Promises: batches are applied in their order, each with the mark; a ticket is reached when its
//! batch is in the store.
//! Never: holds its lock across a wait; depends on the other replicas.

mod feed_position;
mod fence;
mod waits;

use super::feed_state::FeedState;
use super::index_mends::IndexMends;
use super::minters::Minters;
use super::pending_hints::PendingHints;
use super::tickets::Tickets;
use base::error::shutting_down;
use base::{Error, NodeId, Reason, Result};
use bytes::Bytes;
use feed_watch::RecentChanges;
use runtime::log_writer::{AppendCompletion, LogWriterHandle, store_error};
use runtime::warning_limiter::WarningLimiter;
use runtime::write_pacer::{WritePacer, WriterPauses};
use runtime::{CancellationToken, round, world};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Position, Trees};
use tokio::sync::{Notify, watch};
use vnode_rows::batch::{Batch, KeyChanges, Mark, apply, batch_record, log_head_record};
use vnode_rows::hash_trees::{CopyCount, HashTrees};
use vnode_rows::index_rows::IndexSet;
use vnode_rows::unapplied_rows::UnappliedRows;

/// Size at which the open batch is submitted, even while another is being written.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Maximum bytes of changes that are not applied yet; above it changes fail with `overloaded`.
const UNAPPLIED_BYTES_MAX: usize = 64 << 20;

/// See the head of this file.
pub struct VnodeStore {
    pub(super) node: NodeId,
    pub(super) trees: Arc<dyn Trees>,
    log_writer: Arc<LogWriterHandle>,
    pacer: Arc<WritePacer>,
    /// Pauses of applying while the store lags.
    pauses: WriterPauses,
    /// Number of the current incarnation of the node.
    pub(super) incarnation: u64,
    /// True if the previous incarnation did not shut down cleanly.
    pub(super) unclean_shutdown: bool,
    /// True once another node has admitted this incarnation as the newest. No node admits that of a
    /// data directory that was restored from a copy.
    pub(super) acknowledged: AtomicBool,
    /// Returns true if this node is the only member.
    pub(super) is_sole_member: IsSoleMember,
    state: Mutex<VnodeStoreState>,
    /// True if the state has a fence.
    has_fence: AtomicBool,
    completions: Mutex<Vec<AppendCompletion>>,
    wake: Notify,
    pub(super) progress: watch::Sender<StoreProgress>,
    tickets: Tickets,
    /// Number of copies of a bucket's keys.
    pub(super) copies: CopyCount,
    /// Warning about keys that get many siblings.
    pub(super) many_siblings: WarningLimiter,
    /// Feeds that have new entries, for the nodes at which readers wait.
    pub(super) feed_changes: RecentChanges,
}

/// Returns true if this node is the only member of its cluster.
pub type IsSoleMember = Box<dyn Fn() -> bool + Send + Sync>;

/// State of the store behind its lock: minters, and changes that are not applied yet.
pub struct VnodeStoreState {
    pub(super) minters: Minters,
    pub(super) unapplied: UnappliedRows,
    open: Batch,
    pending: VecDeque<SentBatch>,
    /// Last applied batch that is known to be synced, with all before it.
    synced: u64,
    /// Bytes in the open batch and in the pending ones.
    bytes: usize,
    closing: bool,
    /// True if a batch was submitted since maintenance last checked.
    wrote: bool,
    /// Epoch of a ring that is being assigned, and the time (ms) before which no change is
    /// accepted.
    fence: Option<(u64, u64)>,
    pub(super) hash_trees: HashTrees,
    /// Nodes for which hints may be stored. `None`: the store was not read yet.
    pub(super) hinted_nodes: Option<BTreeSet<NodeId>>,
    pub(super) pending_hints: PendingHints,
    /// Indexes in force. `None`: the store was not read yet.
    pub(super) indexes: Option<IndexSet>,
    /// Entries that the scrub has mended since the start.
    pub(super) index_mends: IndexMends,
    pub(super) feeds: FeedState,
}

impl VnodeStoreState {
    /// Returns the ticket of the last accepted change.
    pub(super) fn last_ticket(&self) -> u64 {
        if self.open.changes > 0 { self.open.index } else { self.open.index - 1 }
    }
}

/// Batch submitted to the log writer.
struct SentBatch {
    index: u64,
    payload: Bytes,
    /// True if it is synced before it is applied, and with it everything logged before.
    sync: bool,
    /// Lowest position at which its record can begin.
    bound: Position,
}

/// Progress of batches into the store, with the error that ended it.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreProgress {
    pub(super) applied: u64,
    failed: Option<Error>,
    ended: bool,
}

impl VnodeStore {
    /// Creates the store from the mark found at the start. `incarnation`: the one that begins.
    pub fn new(
        node: NodeId,
        (incarnation, mark): (u64, Mark),
        trees: Arc<dyn Trees>,
        log_writer: Arc<LogWriterHandle>,
        pacer: Arc<WritePacer>,
        (copies, is_sole_member): (CopyCount, IsSoleMember),
    ) -> VnodeStore {
        let state = VnodeStoreState {
            minters: Minters::default(),
            unapplied: UnappliedRows::default(),
            open: Batch::new(mark.applied + 1),
            pending: VecDeque::new(),
            // A start syncs the log before it is replayed.
            synced: mark.applied,
            bytes: 0,
            closing: false,
            wrote: false,
            fence: None,
            hash_trees: HashTrees::default(),
            hinted_nodes: None,
            pending_hints: PendingHints::default(),
            indexes: None,
            index_mends: IndexMends::default(),
            feeds: FeedState::default(),
        };
        let progress = StoreProgress { applied: mark.applied, ..StoreProgress::default() };
        VnodeStore {
            node,
            trees,
            log_writer,
            pacer,
            pauses: WriterPauses::default(),
            incarnation,
            unclean_shutdown: (incarnation > 1 || mark.applied > 0)
                && (mark.clean_incarnation == 0 || mark.clean_incarnation + 1 != incarnation),
            acknowledged: AtomicBool::new(false),
            is_sole_member,
            state: Mutex::new(state),
            has_fence: AtomicBool::new(false),
            completions: Mutex::default(),
            wake: Notify::new(),
            progress: watch::Sender::new(progress),
            tickets: Tickets::default(),
            copies,
            many_siblings: WarningLimiter::default(),
            feed_changes: RecentChanges::new(incarnation),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, VnodeStoreState> {
        self.state.lock().expect("no one panics while holding it")
    }

    /// Returns the locked state for a change. Errors: a failed store, a stop, a fence, overload.
    pub fn admit(&self) -> Result<MutexGuard<'_, VnodeStoreState>> {
        if let Some(error) = &self.progress.borrow().failed {
            return Err(error.clone());
        }
        let mut state = self.state();
        if state.closing {
            return Err(shutting_down());
        }
        if state.fence.is_some_and(|(_, until_ms)| world::milliseconds() < until_ms) {
            let text = "the ring is being committed: nothing was written; try again in a moment";
            return Err(Error::new(Reason::Overloaded, text));
        }
        if state.bytes > UNAPPLIED_BYTES_MAX {
            let text = "too many writes of available buckets wait for the disk: try again later";
            return Err(Error::new(Reason::Overloaded, text));
        }
        self.load_indexes(&mut state)?;
        self.load_feeds(&mut state)?;
        Ok(state)
    }

    /// Returns the ticket of the last accepted change.
    pub(super) fn last_ticket(&self) -> u64 {
        self.state().last_ticket()
    }

    /// Returns the newest value of a tree key, applied or not, and its batch (0: it is in the
    /// store).
    pub(super) fn newest(
        &self,
        state: &VnodeStoreState,
        key: &Bytes,
    ) -> Result<(u64, Option<Bytes>)> {
        match state.unapplied.get(key) {
            Some((index, value)) => Ok((index, value.clone())),
            None => Ok((0, self.trees.get(key).map_err(store_error)?)),
        }
    }

    /// Logs changes that become visible together; those of rows come from
    /// [`VnodeStore::change_row`]. `sync`: the batch must be synced before it is applied. Returns
    /// the ticket.
    pub(super) fn log_changes(
        &self,
        state: &mut VnodeStoreState,
        changes: KeyChanges,
        sync: bool,
    ) -> u64 {
        let index = state.open.index;
        let (before, was_empty) = (state.open.payload.len(), state.open.changes == 0);
        for (key, value) in changes {
            state.open.change(&key, value.as_deref());
            state.unapplied.insert(index, key, value);
        }
        // No changes: the ticket is the last change's, since another change may never come.
        if state.open.changes == 0 {
            return index - 1;
        }
        state.open.sync |= sync;
        state.bytes += state.open.payload.len() - before;
        if state.open.payload.len() >= BATCH_BYTES_MAX {
            self.submit_batch(state);
        } else if was_empty {
            self.submit_soon(state);
        }
        index
    }

    /// Wakes the loop, which hands the open batch to the log writer: after the tasks that are
    /// runnable now, or once the batch before it is applied. What they change shares one write and
    /// one sync.
    fn submit_soon(&self, state: &VnodeStoreState) {
        if state.pending.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Hands the open batch to the log writer.
    pub(super) fn submit_batch(&self, state: &mut VnodeStoreState) {
        // A batch without changes is written if a waiter needs its sync.
        if state.open.changes == 0 && !state.open.sync {
            return;
        }
        let next = Batch::new(state.open.index + 1);
        let batch = std::mem::replace(&mut state.open, next);
        let payload = Bytes::from(batch.payload);
        state.wrote = true;
        // A record submitted from now on begins after the current end of the log.
        let bound = self.log_writer.end();
        let Batch { index, sync, .. } = batch;
        state.pending.push_back(SentBatch { index, payload: payload.clone(), sync, bound });
        self.log_writer.write([batch_record(index, payload, sync)]);
    }

    /// Returns true if a batch was submitted since the last call.
    pub fn take_written(&self) -> bool {
        std::mem::take(&mut self.state().wrote)
    }

    /// Logs the number of the last submitted batch again.
    pub fn write_log_head(&self) {
        let state = self.state();
        // Submitted under the lock, so that no batch comes between.
        self.log_writer.write([log_head_record(state.open.index - 1, false)]);
    }

    /// Returns the durable value of a tree key. `None`: there is none.
    pub(super) fn read_durable(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.trees.get(key).map_err(store_error)
    }

    /// Receives the log writer's completions.
    pub fn on_completions(&self, completions: &[AppendCompletion]) {
        self.completions
            .lock()
            .expect("no one panics while holding it")
            .extend_from_slice(completions);
        self.wake.notify_one();
    }

    /// Ends all waits with an error: nothing more is written.
    pub fn fail(&self, error: Error) {
        self.progress.send_modify(|progress| {
            progress.failed.get_or_insert_with(|| error.clone());
        });
        self.tickets.notify(u64::MAX, &Err(error));
        self.wake.notify_one();
    }

    /// Applies durable batches, and submits the batch gathered meanwhile, until the node stops.
    pub async fn run(&self, stop: CancellationToken) -> Result<()> {
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                () = round::rest(self.wake.notified()) => {}
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.state().closing = true;
                }
            }
            // Woken by the first change of a turn: other tasks may be about to make more.
            if self.state().pending.is_empty() {
                world::yield_now().await;
            }
            let applied = self.apply_done(&stop).await;
            if let Err(error) = applied {
                self.fail(error.clone());
                return Err(error);
            }
            let ended = {
                let mut state = self.state();
                if state.pending.is_empty() {
                    self.submit_batch(&mut state);
                }
                stopping && state.pending.is_empty()
            };
            if ended || self.progress.borrow().failed.is_some() {
                self.progress.send_modify(|progress| progress.ended = true);
                return Ok(());
            }
        }
    }

    async fn apply_done(&self, stop: &CancellationToken) -> Result<()> {
        let done =
            std::mem::take(&mut *self.completions.lock().expect("no one panics while holding it"));
        // The highest index suffices: records are written and reported in order.
        let Some(last_done) = done.iter().map(|done| done.index.0).max() else { return Ok(()) };
        loop {
            let next = {
                let state = self.state();
                let front = state.pending.front().filter(|sent| sent.index <= last_done);
                front.map(|sent| (sent.index, sent.payload.clone()))
            };
            let Some((index, payload)) = next else { return Ok(()) };
            // A stopping node does not wait, at the cost of memory: its flushes have ended.
            while !stop.is_cancelled()
                && let Some(pause) = self.pacer.wait(&self.pauses, &self.pacer.pressure())
            {
                world::sleep_or_cancelled(stop, pause).await;
            }
            apply(&*self.trees, index, &payload)?;
            self.pacer.applied(&self.pauses, payload.len());
            self.on_applied(index, payload.len());
        }
    }

    fn on_applied(&self, index: u64, bytes: usize) {
        let changed = {
            let mut guard = self.state();
            let state = &mut *guard;
            if state.pending.pop_front().is_some_and(|sent| sent.sync) {
                state.synced = index;
            }
            state.bytes = state.bytes.saturating_sub(bytes);
            state.unapplied.remove_applied(index);
            state.feeds.take_changed(index)
        };
        // After `apply`: a waiter for the batch finds its rows in the store.
        self.progress.send_modify(|progress| progress.applied = index);
        self.tickets.notify(index, &Ok(()));
        self.feed_changes.note(changed);
    }

    /// Position of the first record that a restart would still need, or a little before.
    pub fn log_needed_from(&self) -> Option<Position> {
        self.state().pending.front().map(|sent| sent.bound)
    }
}
