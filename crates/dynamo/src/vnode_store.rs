//! Store of this node's vnodes: rows in the local store, and over it what is logged but not yet
//! durable.
//!
//! All vnodes of a node write through one vnode_store, so that whatever arrives while one record is
//! being synced goes into the next: batches come from the shape. A change is evaluated on the
//! newest state (`vnode_ops.rs`); what readers see is the store alone, and that holds only what
//! would outlive a crash.
//!
//! Promises: batches are applied in their order, each with the mark; a ticket is reached when its
//! batch is in the store.
//! Never: holds its lock across a wait; knows who else has a replica.

mod waits;

use super::batch::{Batch, Mark, apply, job, last_batch};
use super::hash_trees::{CopyCount, HashTrees};
use super::pending_hints::PendingHints;
use super::slots::Slot;
use super::tickets::Tickets;
use base::error::shutting_down;
use base::{Error, NodeId, Reason, Result};
use bytes::Bytes;
use logic::causal::Minter;
use runtime::complaint::Complaint;
use runtime::log_writer::{LogWriterHandle, LoggedRecord, store_error};
use runtime::maintenance_signal::MaintenanceSignal;
use runtime::{CancellationToken, world};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use store::{Position, Trees};
use tokio::sync::{Notify, watch};

/// Size at which an open batch is closed, even while another is being written.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Most bytes of changes that are not yet in the store; one more is answered `overloaded`.
const UNFIRM_BYTES_MAX: usize = 64 << 20;
/// Pause of applying while flushes lag behind writes.
const FULL_PAUSE: Duration = Duration::from_millis(2);

/// See the head of this file.
pub struct VnodeStore {
    pub(super) node: NodeId,
    pub(super) trees: Arc<dyn Trees>,
    log_writer: Arc<LogWriterHandle>,
    maintenance: Arc<MaintenanceSignal>,
    /// Number of this incarnation of the node.
    pub(super) life: u64,
    /// True if the previous incarnation did not shut down cleanly.
    pub(super) after_a_fall: bool,
    /// True once another node has admitted this incarnation as the newest. No node admits that of a
    /// data directory that was restored from a copy.
    pub(super) met: AtomicBool,
    /// Returns true if this node is the only member.
    pub(super) alone: IsSoleMember,
    state: Mutex<VnodeStoreState>,
    mailbox: Mutex<Vec<LoggedRecord>>,
    wake: Notify,
    pub(super) landed: watch::Sender<StoreProgress>,
    tickets: Tickets,
    /// Number of copies of a bucket's keys.
    pub(super) copies: CopyCount,
    /// Warning about keys that get many siblings.
    pub(super) many_siblings: Complaint,
}

/// Returns true if this node is the only member of its cluster.
pub type IsSoleMember = Box<dyn Fn() -> bool + Send + Sync>;

/// Changes that are logged, or will be, and are not in the store yet.
pub struct VnodeStoreState {
    pub(super) minters: BTreeMap<Slot, Minter>,
    /// Newest value of each tree key, with the number of its batch.
    pub(super) overlay: BTreeMap<Bytes, (u64, Option<Bytes>)>,
    open: Batch,
    pending: VecDeque<SentBatch>,
    /// Last batch in the store that is known to be synced, with all before it.
    synced: u64,
    /// Bytes in the open batch and those on their way.
    bytes: usize,
    closing: bool,
    /// True if a batch was written since maintenance last checked.
    wrote: bool,
    /// Epoch of a ring that is being given out, and the time (ms) before which no change is taken.
    fence: Option<(u64, u64)>,
    pub(super) hash_trees: HashTrees,
    /// Nodes for which hints may be kept. `None`: the store was not read yet.
    pub(super) hinted: Option<BTreeSet<NodeId>>,
    pub(super) waiting: PendingHints,
}

impl VnodeStoreState {
    /// The ticket of the last change that was taken.
    fn last(&self) -> u64 {
        if self.open.changes > 0 { self.open.index } else { self.open.index - 1 }
    }
}

/// A batch that the log writer has.
struct SentBatch {
    index: u64,
    payload: Bytes,
    /// True if it is synced before it counts, and with it all that was logged before.
    sync: bool,
    /// Lowest position at which its record can begin.
    bound: Position,
}

/// Progress of batches into the store, with the error that ended it.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreProgress {
    pub(super) upto: u64,
    failed: Option<Error>,
    ended: bool,
}

impl VnodeStore {
    /// Creates the store from the mark found at the start. `life`: the incarnation that begins.
    pub fn new(
        node: NodeId,
        (life, mark): (u64, Mark),
        trees: Arc<dyn Trees>,
        log_writer: Arc<LogWriterHandle>,
        maintenance: Arc<MaintenanceSignal>,
        (copies, alone): (CopyCount, IsSoleMember),
    ) -> VnodeStore {
        let state = VnodeStoreState {
            minters: BTreeMap::new(),
            overlay: BTreeMap::new(),
            open: Batch::new(mark.applied + 1),
            pending: VecDeque::new(),
            // What a start finds in the log is synced before it is replayed.
            synced: mark.applied,
            bytes: 0,
            closing: false,
            wrote: false,
            fence: None,
            hash_trees: HashTrees::default(),
            hinted: None,
            waiting: PendingHints::default(),
        };
        let landed = StoreProgress { upto: mark.applied, ..StoreProgress::default() };
        VnodeStore {
            node,
            trees,
            log_writer,
            maintenance,
            life,
            after_a_fall: (life > 1 || mark.applied > 0)
                && (mark.ended == 0 || mark.ended + 1 != life),
            met: AtomicBool::new(false),
            alone,
            state: Mutex::new(state),
            mailbox: Mutex::default(),
            wake: Notify::new(),
            landed: watch::Sender::new(landed),
            tickets: Tickets::default(),
            copies,
            many_siblings: Complaint::default(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, VnodeStoreState> {
        self.state.lock().expect("no one panics while holding it")
    }

    /// The state, for a change.
    pub fn admit(&self) -> Result<MutexGuard<'_, VnodeStoreState>> {
        if let Some(error) = &self.landed.borrow().failed {
            return Err(error.clone());
        }
        let state = self.state();
        if state.closing {
            return Err(shutting_down());
        }
        if state.fence.is_some_and(|(_, until)| world::milliseconds() < until) {
            let text = "the ring is being given out: nothing was written; try again in a moment";
            return Err(Error::new(Reason::Overloaded, text));
        }
        if state.bytes > UNFIRM_BYTES_MAX {
            let text = "too much of available buckets waits for the disk: try again later";
            return Err(Error::new(Reason::Overloaded, text));
        }
        Ok(state)
    }

    /// Takes no change until then; gives the ticket of the last one that was taken.
    pub(super) fn fence(&self, epoch: u64, until_ms: u64) -> u64 {
        let mut state = self.state();
        state.fence = Some((epoch, until_ms));
        state.last()
    }

    /// The ticket of the last change that was taken.
    pub(super) fn last(&self) -> u64 {
        self.state().last()
    }

    /// The epoch of the ring that is being given out.
    pub(super) fn fenced(&self) -> Option<u64> {
        self.state().fence.map(|(epoch, _)| epoch)
    }

    /// Takes changes again.
    pub(super) fn lift(&self) {
        self.state().fence = None;
    }

    /// The newest of a tree key, firm or not, and the batch it is in (0: the store has it).
    pub(super) fn newest(
        &self,
        state: &VnodeStoreState,
        key: &Bytes,
    ) -> Result<(u64, Option<Bytes>)> {
        match state.overlay.get(key) {
            Some((index, value)) => Ok((*index, value.clone())),
            None => Ok((0, self.trees.get(key).map_err(store_error)?)),
        }
    }

    /// Changes tree keys together; gives the ticket. `sync`: they must be synced before they count.
    pub fn change(
        &self,
        state: &mut VnodeStoreState,
        changes: impl IntoIterator<Item = (Bytes, Option<Bytes>)>,
        sync: bool,
    ) -> u64 {
        let changes: Vec<_> = changes.into_iter().collect();
        for (key, value) in &changes {
            self.follow(state, key, value.as_ref());
        }
        self.note(state, changes, sync)
    }

    /// Changes tree keys whose hash trees are updated already. Returns the ticket.
    pub(super) fn note(
        &self,
        state: &mut VnodeStoreState,
        changes: Vec<(Bytes, Option<Bytes>)>,
        sync: bool,
    ) -> u64 {
        let index = state.open.index;
        let before = state.open.payload.len();
        for (key, value) in changes {
            state.open.change(&key, value.as_deref());
            state.overlay.insert(key, (index, value));
        }
        // Nothing was changed: the ticket is the last change's, since another may never come.
        if state.open.changes == 0 {
            return index - 1;
        }
        state.open.sync |= sync;
        state.bytes += state.open.payload.len() - before;
        // What comes while a batch is being written gathers, and shares the next write and sync.
        if state.pending.is_empty() || state.open.payload.len() >= BATCH_BYTES_MAX {
            self.close(state);
        }
        index
    }

    /// Hands the open batch to the log writer.
    fn close(&self, state: &mut VnodeStoreState) {
        // A batch without changes is written if somebody waits for its sync.
        if state.open.changes == 0 && !state.open.sync {
            return;
        }
        let next = Batch::new(state.open.index + 1);
        let batch = std::mem::replace(&mut state.open, next);
        let payload = Bytes::from(batch.payload);
        state.wrote = true;
        // A record handed over from now on begins behind what is written.
        let bound = self.log_writer.end();
        let Batch { index, sync, .. } = batch;
        state.pending.push_back(SentBatch { index, payload: payload.clone(), sync, bound });
        self.log_writer.write([job(index, payload, sync)]);
    }

    /// Returns true if it wrote since the last call.
    pub fn has_written(&self) -> bool {
        std::mem::take(&mut self.state().wrote)
    }

    /// Logs again the number of the batch that was written last.
    pub fn state_again(&self) {
        let state = self.state();
        // Given under the lock: no batch comes between.
        self.log_writer.write([last_batch(state.open.index - 1, false)]);
    }

    /// Returns the durable value of a tree key. `None`: there is none.
    pub(super) fn firm(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.trees.get(key).map_err(store_error)
    }

    /// Takes the log writer's completions.
    pub fn done(&self, done: &[LoggedRecord]) {
        self.mailbox.lock().expect("no one panics while holding it").extend_from_slice(done);
        self.wake.notify_one();
    }

    /// Ends all waits with an error: nothing more will be written.
    pub fn fail(&self, error: Error) {
        self.landed.send_modify(|landed| {
            landed.failed.get_or_insert_with(|| error.clone());
        });
        self.tickets.tell(u64::MAX, &Err(error));
        self.wake.notify_one();
    }

    /// Applies durable batches, and writes what gathered meanwhile, until the node stops.
    pub async fn drive(&self, stop: CancellationToken) -> Result<()> {
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    self.state().closing = true;
                }
            }
            let applied = self.apply_done(&stop).await;
            if let Err(error) = applied {
                self.fail(error.clone());
                return Err(error);
            }
            let ended = {
                let mut state = self.state();
                if state.pending.is_empty() {
                    self.close(&mut state);
                }
                stopping && state.pending.is_empty()
            };
            if ended || self.landed.borrow().failed.is_some() {
                self.landed.send_modify(|landed| landed.ended = true);
                return Ok(());
            }
        }
    }

    async fn apply_done(&self, stop: &CancellationToken) -> Result<()> {
        let done =
            std::mem::take(&mut *self.mailbox.lock().expect("no one panics while holding it"));
        // The highest stands for all: records are written and reported in their order.
        let Some(upto) = done.iter().map(|done| done.index.0).max() else { return Ok(()) };
        loop {
            let next = {
                let state = self.state();
                let front = state.pending.front().filter(|sent| sent.index <= upto);
                front.map(|sent| (sent.index, sent.payload.clone()))
            };
            let Some((index, payload)) = next else { return Ok(()) };
            // The disk lags. A stopping node must come to its end, whatever memory that takes: its
            // flushes have ended.
            while self.trees.pressure().must_wait() && !stop.is_cancelled() {
                self.maintenance.raise();
                world::sleep(FULL_PAUSE).await;
            }
            apply(&*self.trees, index, &payload)?;
            if self.trees.pressure().rotate_is_due() {
                self.maintenance.raise();
            }
            self.land(index, payload.len());
        }
    }

    fn land(&self, index: u64, bytes: usize) {
        {
            let mut guard = self.state();
            let state = &mut *guard;
            if state.pending.pop_front().is_some_and(|sent| sent.sync) {
                state.synced = index;
            }
            state.bytes = state.bytes.saturating_sub(bytes);
            // What a later batch holds newer stays.
            state.overlay.retain(|_, (newest, _)| *newest > index);
        }
        // After `apply`: a waiter for the batch finds its rows in the store.
        self.landed.send_modify(|landed| landed.upto = index);
        self.tickets.tell(index, &Ok(()));
    }

    /// Position of the first record that a restart would still need, or a little before.
    pub fn log_needed_from(&self) -> Option<Position> {
        self.state().pending.front().map(|sent| sent.bound)
    }
}
