//! Open snapshots: the states that receivers fetch from this node, and how far each was sent.
//!
//! Promises: at most [`OPEN_MAX`] are open, one for each receiver and group, and as many of the
//! directory, which must not wait behind the large ones of other groups; one that nobody uses gives
//! its place to another that is requested. Only this table holds one open: who sends it holds
//! a [`Weak`] reference, so its files can be removed as soon as it is closed.

use super::message::{self, HEAD_BYTES, PartEnd, PartHead};
use base::limits::PEER_BULK_BYTES_MAX;
use base::{GroupId, NodeId, Result};
use bytes::Bytes;
use runtime::log_writer::store_error;
use runtime::world;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;
use store::{Chunk, Snapshot};

/// Maximum number of open snapshots: each keeps files from being removed.
pub(super) const OPEN_MAX: usize = 2;
/// Bytes of rows that are read at a time.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;
/// Maximum number of positions from which a receiver may resume: more than the full chunks in
/// flight.
const POSITIONS_MAX: usize = 64;
/// Bytes of rows in one part.
const PART_BYTES: usize = PEER_BULK_BYTES_MAX - HEAD_BYTES;

/// Open snapshots by their ids.
pub(super) struct OpenSnapshots {
    all: Mutex<BTreeMap<u64, Arc<OpenSnapshot>>>,
    /// Time without use, in milliseconds, after which one gives its place to another.
    unused_ms: u64,
}

/// A snapshot that a receiver fetches.
pub(super) struct OpenSnapshot {
    id: u64,
    pub(super) group: GroupId,
    pub(super) to: NodeId,
    /// Time of the last request, or at which the network took the last part, in milliseconds.
    active_at: AtomicU64,
    /// True while parts are sent, also while a receiver with a slow disk takes none.
    is_streaming: AtomicBool,
    /// Locked while a chunk is read.
    cursor: Mutex<SendCursor>,
}

/// Progress of sending an open snapshot.
struct SendCursor {
    snapshot: Box<dyn Snapshot>,
    /// Stream that was requested last; earlier streams end.
    stream: u32,
    /// Number of the next part of the stream.
    next_number: u32,
    /// End of the last part.
    position: SendPosition,
    /// True if all parts were created.
    is_complete: bool,
    /// Positions at which the last chunks ended.
    chunk_ends: VecDeque<SendPosition>,
}

/// Position between two rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SendPosition {
    /// Key before the position. `None`: the position is before all rows.
    after: Option<Bytes>,
    /// Digest of all rows before the position.
    digest: u64,
}

impl OpenSnapshots {
    /// Creates an empty table. `unused`: time without use after which a snapshot gives its place to
    /// another.
    pub(super) fn new(unused: Duration) -> OpenSnapshots {
        let unused_ms = u64::try_from(unused.as_millis()).unwrap_or(u64::MAX);
        OpenSnapshots { all: Mutex::default(), unused_ms }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<OpenSnapshot>>> {
        self.all.lock().expect("no one panics while holding it")
    }

    /// Number of open snapshots.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.all().len()
    }

    /// Closes all snapshots, as a restart does.
    #[cfg(test)]
    pub(super) fn close_all(&self) {
        self.all().clear();
    }

    /// Makes room for one more. Returns false if too many are in use.
    pub(super) fn make_room(&self, to: NodeId, group: GroupId) -> bool {
        self.make_room_in(&mut self.all(), to, group)
    }

    /// Makes room for one more, in the locked table.
    ///
    /// A receiver that begins again drops its earlier snapshot of the group. Otherwise the longest
    /// unused one is closed: a receiver that has all rows and whose notice of that was lost, or
    /// that was restarted, must not keep others waiting. If it still exists, it begins again.
    fn make_room_in(
        &self,
        all: &mut BTreeMap<u64, Arc<OpenSnapshot>>,
        to: NodeId,
        group: GroupId,
    ) -> bool {
        all.retain(|_, open| (open.to, open.group) != (to, group));
        let is_rival = |open: &OpenSnapshot| {
            (open.group == GroupId::DIRECTORY) == (group == GroupId::DIRECTORY)
        };
        let rivals = all.values().filter(|open| is_rival(open));
        if rivals.clone().count() < OPEN_MAX {
            return true;
        }
        let unused_since = world::milliseconds().saturating_sub(self.unused_ms);
        let unused = rivals.filter(|open| !open.is_streaming.load(Relaxed));
        let uses = unused.map(|open| (open.active_at.load(Relaxed), open.id));
        let longest_unused = uses.min().filter(|(active_at, _)| *active_at < unused_since);
        longest_unused.is_some_and(|(_, id)| all.remove(&id).is_some())
    }

    /// Adds a snapshot. `None`: too many others are in use.
    pub(super) fn insert(&self, open: OpenSnapshot) -> Option<Arc<OpenSnapshot>> {
        let mut all = self.all();
        // Checked again, in one step with the insertion: another request, also of this receiver and
        // group, may have begun while the snapshot was taken.
        if !self.make_room_in(&mut all, open.to, open.group) {
            return None;
        }
        let (id, open) = (open.id, Arc::new(open));
        all.insert(id, Arc::clone(&open));
        Some(open)
    }

    /// Returns a receiver's snapshot. `None`: it is closed.
    pub(super) fn find(&self, id: u64, to: NodeId) -> Option<Arc<OpenSnapshot>> {
        self.all().get(&id).filter(|open| open.to == to).cloned()
    }

    /// Closes a receiver's snapshot, which it does not need any more.
    pub(super) fn end(&self, id: u64, to: NodeId) {
        let mut all = self.all();
        if all.get(&id).is_some_and(|open| open.to == to) {
            all.remove(&id);
        }
    }

    /// Closes a snapshot, unless another stream of it was requested.
    pub(super) fn close(&self, open: &Weak<OpenSnapshot>, stream: u32) {
        let mut all = self.all();
        let Some(open) = open.upgrade() else { return };
        if open.cursor().stream == stream {
            all.remove(&open.id);
        }
    }
}

impl OpenSnapshot {
    /// Creates a snapshot of which nothing was sent.
    pub(super) fn new(
        id: u64,
        (to, group): (NodeId, GroupId),
        snapshot: Box<dyn Snapshot>,
        stream: u32,
    ) -> OpenSnapshot {
        let cursor = SendCursor {
            snapshot,
            stream,
            next_number: 0,
            position: SendPosition::default(),
            is_complete: false,
            chunk_ends: VecDeque::from([SendPosition::default()]),
        };
        let active_at = AtomicU64::new(world::milliseconds());
        let (is_streaming, cursor) = (AtomicBool::new(true), Mutex::new(cursor));
        OpenSnapshot { id, group, to, active_at, is_streaming, cursor }
    }

    fn cursor(&self) -> MutexGuard<'_, SendCursor> {
        self.cursor.lock().expect("no one panics while holding it")
    }

    /// Notes that the network took a part.
    pub(super) fn mark_active(&self) {
        self.active_at.store(world::milliseconds(), Relaxed);
    }

    /// Notes that a stream has ended: completely, or because its connection broke.
    pub(super) fn end_stream(&self, stream: u32) {
        let cursor = self.cursor();
        if cursor.stream == stream {
            self.is_streaming.store(false, Relaxed);
            self.mark_active();
        }
    }

    /// Begins a new stream behind a key. Returns false if no chunk ended there lately.
    pub(super) fn resume(&self, stream: u32, after: Option<&Bytes>) -> bool {
        let mut cursor = self.cursor();
        let mut ends = cursor.chunk_ends.iter();
        let position = ends.find(|position| position.after.as_ref() == after).cloned();
        let Some(position) = position else { return false };
        (cursor.stream, cursor.next_number, cursor.position) = (stream, 0, position);
        cursor.is_complete = false;
        self.is_streaming.store(true, Relaxed);
        self.mark_active();
        true
    }

    /// Returns the parts of a stream's next chunk. `None`: there are no more, or another stream was
    /// requested.
    pub(super) fn next_parts(&self, stream: u32) -> Result<Option<Vec<(PartHead, Bytes)>>> {
        let cursor = &mut *self.cursor();
        if cursor.is_complete || cursor.stream != stream {
            return Ok(None);
        }
        let prefix = self.group.0.to_be_bytes();
        let after = cursor.position.after.as_ref();
        let chunk = Chunk::read(&*cursor.snapshot, &prefix, after, CHUNK_BYTES);
        let chunk = chunk.map_err(store_error)?;
        cursor.is_complete = chunk.more_after.is_none();
        let (mut rest, mut parts) = (message::write_rows(&chunk.rows), Vec::new());
        loop {
            let bytes = rest.split_to(rest.len().min(PART_BYTES));
            cursor.position.digest = message::digest(cursor.position.digest, &bytes);
            let end = match (rest.is_empty(), cursor.is_complete) {
                (false, _) => PartEnd::MidChunk,
                (true, false) => PartEnd::Chunk,
                (true, true) => PartEnd::Snapshot,
            };
            let (id, stream, number) = (self.id, cursor.stream, cursor.next_number);
            parts.push((
                PartHead { id, stream, number, end, digest: cursor.position.digest },
                bytes,
            ));
            cursor.next_number += 1;
            if rest.is_empty() {
                break;
            }
        }
        if let Some((last, _)) = chunk.rows.last() {
            // A copy: the row's own bytes would keep a whole block in memory.
            cursor.position.after = Some(Bytes::copy_from_slice(last));
        }
        cursor.chunk_ends.push_back(cursor.position.clone());
        if cursor.chunk_ends.len() > POSITIONS_MAX {
            cursor.chunk_ends.pop_front();
        }
        Ok(Some(parts))
    }
}
