//! Flush: one round of maintenance. It makes the store durable, and truncates the log as far as it
//! is not needed, in steps.
//!
//! The order makes truncation safe: first note how far the log may be needed, then seal the store's
//! tables, then make them durable, then copy the state that exists only in the log to its head, and
//! only then drop whole segments. The maintenance thread takes one step after another; a simulation
//! lets the log writer and the drivers run between any two of them.
//!
//! Promises: no record is dropped whose entry the store does not hold durably, or that its group
//! has not processed.
//! Never: waits, but for [`Flush::wait`]; runs beside another round (see [`StoreFlusher`]).

use crate::data_dir::OpenDataDir;
use crate::groups::Groups;
use base::{BucketId, GroupId, LogIndex, Result};
use dynamo::vnode_store::VnodeStore;
use replica_state::layout;
use replication::group::Group;
use runtime::log_writer::{LogWriterHandle, store_error};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Chunk, Position, Trees};

/// The part of the log's limit that is retained for lagging members is the limit divided by this.
const RETAINED_FRACTION: u64 = 2;

/// Runner of flush rounds, one at a time. Every thread that writes the store's files holds it.
pub struct StoreFlusher {
    /// Store of the rows.
    pub trees: Arc<dyn Trees>,
    /// Log writer.
    pub log_writer: Arc<LogWriterHandle>,
    groups: Arc<Groups>,
    vnode_store: Arc<VnodeStore>,
    log_bytes_max: u64,
    /// End of the log at the last point up to which the store is durable.
    flushed_at: AtomicU64,
    /// Held during a flush.
    flushing: Mutex<()>,
    /// Keeps the directory locked while any of these threads may write, even if the node was
    /// dropped without a stop: another process must not become a second writer.
    _data: Arc<OpenDataDir>,
}

impl StoreFlusher {
    /// Creates the runner. `data` stays open as long as the runner is there.
    pub fn new(
        (trees, log_writer): (Arc<dyn Trees>, Arc<LogWriterHandle>),
        groups: Arc<Groups>,
        vnode_store: Arc<VnodeStore>,
        log_bytes_max: u64,
        data: Arc<OpenDataDir>,
    ) -> StoreFlusher {
        StoreFlusher {
            trees,
            log_writer,
            groups,
            vnode_store,
            log_bytes_max,
            flushed_at: AtomicU64::new(0),
            flushing: Mutex::new(()),
            _data: data,
        }
    }

    /// Prevents rounds from starting until the guard is dropped.
    pub fn exclude(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock().expect("no one panics while holding it")
    }

    /// Returns the number of log bytes written since the store was durable.
    pub fn unflushed_log(&self) -> u64 {
        let flushed =
            self.flushed_at.load(Ordering::Relaxed).max(self.log_writer.start_position().0);
        self.log_writer.end().0.saturating_sub(flushed)
    }

    /// Makes everything applied so far durable in the store, and truncates the log up to the first
    /// position that is still needed.
    pub fn flush_and_collapse(&self) -> Result<()> {
        let _guard = self.exclude();
        // Collapsed entries can only be sent to members as a snapshot, which costs far more.
        let has_followers = self.groups.all().iter().any(|group| !group.is_sole_member());
        let retained_bytes = if has_followers { self.log_bytes_max / RETAINED_FRACTION } else { 0 };
        let (trees, log_writer) = (self.trees.clone(), self.log_writer.clone());
        let (groups, vnode_store) = (self.groups.clone(), Some(self.vnode_store.clone()));
        let mut round = Flush::new(trees, log_writer, groups, vnode_store, retained_bytes);
        loop {
            match round.step()? {
                FlushStep::Progressed => {}
                FlushStep::Blocked => round.wait(),
                FlushStep::Finished => break,
            }
        }
        self.flushed_at.store(round.end().0, Ordering::Relaxed);
        Ok(())
    }

    /// Removes the rows under a prefix and frees their space.
    pub fn drop_prefix(&self, prefix: &[u8]) -> Result<()> {
        self.trees.drop_prefix(prefix).map_err(store_error)?;
        self.flush_and_collapse()
    }

    /// Removes everything of a bucket of a group and frees its space.
    pub fn drop_bucket(&self, group: GroupId, bucket: BucketId) -> Result<()> {
        drop_bucket(&*self.trees, group, bucket)?;
        self.flush_and_collapse()
    }

    /// Seals the store's tables and makes them durable.
    pub fn flush_tables(&self) -> Result<()> {
        self.trees.rotate().map_err(store_error)?;
        self.trees.flush().map_err(store_error)
    }
}

/// Removes everything of a bucket of a group from the store. May be repeated, and must be after a
/// crash during the call. Blocks.
pub fn drop_bucket(trees: &dyn Trees, group: GroupId, bucket: BucketId) -> Result<()> {
    let [rows, others @ ..] = layout::bucket_prefixes(group, bucket);
    trees.drop_prefix(&rows).map_err(store_error)?;
    for prefix in others {
        let chunk = Chunk::read(&*trees.snapshot(), &prefix, None, 0).map_err(store_error)?;
        // Most buckets have rows in the first space only. To drop nothing would write files.
        if !chunk.rows.is_empty() {
            trees.drop_prefix(&prefix).map_err(store_error)?;
        }
    }
    Ok(())
}

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushStep {
    /// The step is done, and the next one may follow at once.
    Progressed,
    /// A group's driver has to run first.
    Blocked,
    /// The log writer has the position up to which the log may be removed; the round is over.
    Finished,
}

/// Phase of a flush round.
#[derive(Clone, Copy, Debug)]
enum FlushPhase {
    FlushEarlier,
    RecordPositions,
    Seal,
    Flush,
    RequestCopies,
    AwaitCopies,
    Collapse,
    End,
}

/// A flush round; see the head of this file.
pub struct Flush {
    trees: Arc<dyn Trees>,
    log_writer: Arc<LogWriterHandle>,
    all_groups: Arc<Groups>,
    /// Groups that were asked how far back they need the log.
    groups: Vec<Arc<Group>>,
    /// `None`: there are no vnodes.
    vnode_store: Option<Arc<VnodeStore>>,
    /// Number of log bytes retained for lagging members.
    retained_bytes: u64,
    phase: FlushPhase,
    /// Position of the log's end when the round began.
    end: Position,
    /// Position from which on the log is needed.
    keep_from: Position,
    /// Applied index of each group before the tables were sealed.
    applied: Vec<LogIndex>,
    copies: VecDeque<Receiver<()>>,
}

impl Flush {
    /// Creates a round over these groups. Nothing happens before its first step.
    pub fn new(
        trees: Arc<dyn Trees>,
        log_writer: Arc<LogWriterHandle>,
        all_groups: Arc<Groups>,
        vnode_store: Option<Arc<VnodeStore>>,
        retained_bytes: u64,
    ) -> Flush {
        Flush {
            trees,
            log_writer,
            all_groups,
            groups: Vec::new(),
            vnode_store,
            retained_bytes,
            phase: FlushPhase::FlushEarlier,
            end: Position(0),
            keep_from: Position(0),
            applied: Vec::new(),
            copies: VecDeque::new(),
        }
    }

    /// Executes the next step.
    pub fn step(&mut self) -> Result<FlushStep> {
        self.phase = match self.phase {
            // Tables that an earlier round sealed but could not write for lack of space. They come
            // first, because writers, including deletes, block while two tables are sealed.
            FlushPhase::FlushEarlier => {
                self.trees.flush().map_err(store_error)?;
                FlushPhase::RecordPositions
            }
            FlushPhase::RecordPositions => {
                self.record_positions();
                FlushPhase::Seal
            }
            FlushPhase::Seal => {
                self.trees.rotate().map_err(store_error)?;
                FlushPhase::Flush
            }
            FlushPhase::Flush => {
                self.trees.flush().map_err(store_error)?;
                FlushPhase::RequestCopies
            }
            FlushPhase::RequestCopies => {
                for (group, applied) in self.groups.iter().zip(&self.applied) {
                    // As recorded before the seal: later entries may be in a table that is not
                    // flushed.
                    group.applied.raise_flushed(*applied);
                    // The last record of a group's promise and mark may be in a segment that is
                    // removed next.
                    self.copies.extend(group.request_head_copy()?);
                }
                FlushPhase::AwaitCopies
            }
            FlushPhase::AwaitCopies => match self.copies.front().map(Receiver::try_recv) {
                Some(Err(TryRecvError::Empty)) => return Ok(FlushStep::Blocked),
                // The driver has ended: the node is stopping or has failed.
                Some(Ok(()) | Err(TryRecvError::Disconnected)) => {
                    self.copies.pop_front();
                    FlushPhase::AwaitCopies
                }
                None => FlushPhase::Collapse,
            },
            FlushPhase::Collapse => {
                self.log_writer.collapse(self.keep_from);
                tracing::debug!(
                    target: "store", log_needed_from = self.keep_from.0, "flushed"
                );
                FlushPhase::End
            }
            FlushPhase::End => return Ok(FlushStep::Finished),
        };
        Ok(FlushStep::Progressed)
    }

    /// Records how far back the log is needed. Reads the log's end first, so that everything
    /// written later is retained.
    fn record_positions(&mut self) {
        self.end = self.log_writer.end();
        // After the end is read: a group that begins later has no record before it.
        self.groups = self.all_groups.all();
        self.keep_from = Position(self.end.0.saturating_sub(self.retained_bytes));
        let groups = self.groups.iter().filter_map(|group| group.log_needed_from());
        let vnode_store =
            self.vnode_store.iter().filter_map(|vnode_store| vnode_store.log_needed_from());
        self.keep_from = groups.chain(vnode_store).fold(self.keep_from, Position::min);
        self.applied = self.groups.iter().map(|group| group.applied.index()).collect();
    }

    /// Waits for the driver that blocks the next step.
    pub fn wait(&mut self) {
        if let Some(copy) = self.copies.pop_front() {
            let _ = copy.recv(); // See above.
        }
    }

    /// Returns the position of the log's end when the round began. Everything applied by then is
    /// durable.
    pub fn end(&self) -> Position {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replica_state::layout::BUCKET_SPACES;
    use store::{MemoryTrees, RowChange};

    #[test]
    fn dropped_bucket_leaves_nothing_in_any_space_and_takes_nothing_of_others() {
        let trees = MemoryTrees::new(1 << 20);
        let tree_key = |space, bucket, name: &[u8]| {
            let mut key = Vec::new();
            layout::bucket_key(GroupId(3), space, BucketId(bucket), name, &mut key);
            key
        };
        let all = BUCKET_SPACES.into_iter().flat_map(|space| {
            [(6, "k"), (7, ""), (7, "k"), (8, "")]
                .map(|(bucket, name)| tree_key(space, bucket, name.as_bytes()))
        });
        let mut puts = all.map(|key| RowChange::Put(key.into(), "row".into()));
        trees.apply(&mut puts).expect("memory");
        drop_bucket(&trees, GroupId(3), BucketId(7)).expect("memory");
        let left = Chunk::read(&*trees.snapshot(), &[], None, usize::MAX).expect("memory");
        let left: Vec<_> = left.rows.iter().map(|(key, _)| key.to_vec()).collect();
        let others = BUCKET_SPACES
            .into_iter()
            .flat_map(|space| [tree_key(space, 6, b"k"), tree_key(space, 8, b"")]);
        assert_eq!(left, others.collect::<Vec<_>>());
    }
}
