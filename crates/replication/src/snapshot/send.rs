//! Sending side of a snapshot transfer: open snapshots, and their parts.

use super::super::layout::{self, Mark};
use super::message::{
    self, HEAD_BYTES, Offer, PartEnd, PartHead, SnapshotAnswer, SnapshotQuestion,
};
use base::error::corrupt;
use base::limits::PEER_BULK_BYTES_MAX;
use base::{GroupId, LogIndex, NodeId, Result};
use bytes::Bytes;
use logic::consensus::Configuration;
use runtime::log_writer::store_error;
use runtime::metrics::Metrics;
use runtime::{TaskScope, world};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use store::{Chunk, Snapshot, Trees};
use tokio::time::{sleep, timeout};
use transport::{IncomingCall, Lane, Message, Peers, SendOutcome};

/// Maximum number of open snapshots: each keeps files from being removed.
pub(super) const OPEN_MAX: usize = 2;
/// Bytes of rows that are read at a time.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;
/// Maximum number of positions from which a receiver may resume: more than the full chunks in
/// flight.
const POSITIONS_MAX: usize = 64;
/// Bytes of rows in one part.
const PART_BYTES: usize = PEER_BULK_BYTES_MAX - HEAD_BYTES;

/// Sender of snapshots on one node.
pub(super) struct Sender {
    trees: Arc<dyn Trees>,
    metrics: Arc<Metrics>,
    /// Time without a request or a delivered part, after which a snapshot is closed.
    idle: Duration,
    open: Mutex<BTreeMap<u64, Arc<Mutex<OpenSnapshot>>>>,
    tasks: TaskScope,
}

/// A snapshot that a receiver fetches.
pub(super) struct OpenSnapshot {
    id: u64,
    group: GroupId,
    to: NodeId,
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

/// An answer, and the snapshot to send after it, with its stream.
type SendAnswer = (SnapshotAnswer, Option<(Arc<Mutex<OpenSnapshot>>, u32)>);

/// Position between two rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SendPosition {
    /// Key before the position. `None`: the position is before all rows.
    after: Option<Bytes>,
    /// Digest of all rows before the position.
    digest: u64,
}

impl Sender {
    pub fn new(
        trees: Arc<dyn Trees>,
        metrics: Arc<Metrics>,
        idle: Duration,
        tasks: TaskScope,
    ) -> Sender {
        Sender { trees, metrics, idle, open: Mutex::default(), tasks }
    }

    fn open_snapshots(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Mutex<OpenSnapshot>>>> {
        self.open.lock().expect("no one panics while holding it")
    }

    /// Number of open snapshots.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.open_snapshots().len()
    }

    /// Closes all snapshots, as a restart does.
    #[cfg(test)]
    pub fn close_all(&self) {
        self.open_snapshots().clear();
    }

    /// Answers a request, and sends the requested snapshot.
    pub async fn answer(
        self: Arc<Sender>,
        peers: Peers,
        call: IncomingCall,
        question: SnapshotQuestion,
        initial: Option<Configuration>,
    ) {
        let (from, group) = (call.from, call.group);
        let (answer, open) = match question {
            SnapshotQuestion::Begin { stream } => {
                let sender = Arc::clone(&self);
                let begin = move || sender.begin(from, group, stream, initial);
                match self.tasks.run_blocking(begin).await {
                    Some(Ok(begun)) => begun,
                    Some(Err(error)) => {
                        tracing::warn!(
                            target: "store", %error,
                            "a snapshot for another node could not be created"
                        );
                        (SnapshotAnswer::Busy, None)
                    }
                    None => return,
                }
            }
            SnapshotQuestion::Resume { stream, id, after } => self.resume(from, id, stream, after),
            SnapshotQuestion::Mark => match offer(&*self.trees.snapshot(), group, initial) {
                Ok(offered) => (offered.map_or_else(|answer| answer, SnapshotAnswer::Offer), None),
                Err(error) => {
                    tracing::warn!(
                        target: "store", %error,
                        "a snapshot mark for another node could not be created"
                    );
                    (SnapshotAnswer::Busy, None)
                }
            },
            SnapshotQuestion::End { id } => {
                let mut all = self.open_snapshots();
                let known = all.get(&id).is_some_and(|open| lock(open).to == from);
                known.then(|| all.remove(&id));
                (SnapshotAnswer::Accepted, None)
            }
        };
        // A receiver asks again if its answer was dropped for lack of space.
        let _ = peers.answer(&call, answer.write());
        if let Some((open, stream)) = open {
            self.stream(&peers, open, stream).await;
        }
    }

    fn begin(
        &self,
        to: NodeId,
        group: GroupId,
        stream: u32,
        initial: Option<Configuration>,
    ) -> Result<SendAnswer> {
        if !make_room(&mut self.open_snapshots(), to, group) {
            return Ok((SnapshotAnswer::Busy, None));
        }
        let (offer, open) = match self.open_snapshot(to, group, stream, initial)? {
            Ok(opened) => opened,
            Err(answer) => return Ok((answer, None)),
        };
        let (upto, id) = (offer.mark.applied, offer.id);
        let Some(open) = self.register(open) else { return Ok((SnapshotAnswer::Busy, None)) };
        tracing::info!(
            target: "consensus", %group, %to, upto, id, "a snapshot is sent to another node"
        );
        Ok((SnapshotAnswer::Offer(offer), Some((open, stream))))
    }

    /// Takes a snapshot for a receiver. The inner error is the answer of a node that has no state
    /// to send.
    pub(super) fn open_snapshot(
        &self,
        to: NodeId,
        group: GroupId,
        stream: u32,
        initial: Option<Configuration>,
    ) -> Result<std::result::Result<(Offer, OpenSnapshot), SnapshotAnswer>> {
        let snapshot = self.trees.snapshot();
        let offer = match offer(&*snapshot, group, initial)? {
            Ok(offer) => offer,
            Err(answer) => return Ok(Err(answer)),
        };
        let totals = self.trees.statistics();
        let (rows_estimated, bytes_estimated) =
            (totals.rows_estimated, totals.disk_bytes + totals.memory_bytes);
        let offer = Offer { rows_estimated, bytes_estimated, ..offer };
        let open = OpenSnapshot {
            id: offer.id,
            group,
            to,
            snapshot,
            stream,
            next_number: 0,
            position: SendPosition::default(),
            is_complete: false,
            chunk_ends: VecDeque::from([SendPosition::default()]),
        };
        Ok(Ok((offer, open)))
    }

    /// Registers an open snapshot. `None`: too many others are open.
    pub(super) fn register(&self, open: OpenSnapshot) -> Option<Arc<Mutex<OpenSnapshot>>> {
        let (id, to, group) = (open.id, open.to, open.group);
        let mut all = self.open_snapshots();
        // Checked again, in one step with the insertion: another request, also of this receiver and
        // group, may have begun while the snapshot was taken.
        if !make_room(&mut all, to, group) {
            return None;
        }
        let open = Arc::new(Mutex::new(open));
        all.insert(id, Arc::clone(&open));
        Some(open)
    }

    fn resume(&self, to: NodeId, id: u64, stream: u32, after: Option<Bytes>) -> SendAnswer {
        let found = self.open_snapshots().get(&id).cloned();
        let Some(found) = found else { return (SnapshotAnswer::Expired, None) };
        let mut open = lock(&found);
        let position = open.chunk_ends.iter().find(|position| position.after == after).cloned();
        match position {
            // The digest is known only at the end of a chunk; elsewhere the receiver begins again.
            Some(position) if open.to == to => {
                (open.stream, open.next_number, open.position) = (stream, 0, position);
                open.is_complete = false;
                drop(open);
                (SnapshotAnswer::Accepted, Some((found, stream)))
            }
            _ => (SnapshotAnswer::Expired, None),
        }
    }

    /// Sends parts until the end, a failure, or another stream; then keeps the snapshot open for a
    /// while.
    async fn stream(&self, peers: &Peers, open: Arc<Mutex<OpenSnapshot>>, stream: u32) {
        while let Some(parts) = self.next_parts(&open, stream).await {
            match parts {
                Ok(parts) => {
                    if !self.send(peers, &open, parts).await {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        target: "store", %error, "the sending of a snapshot was interrupted"
                    );
                    self.close(&open, stream);
                    return;
                }
            }
        }
        // The receiver may have lost the last parts, and request them again.
        sleep(self.idle).await;
        self.close(&open, stream);
    }

    /// Returns the parts of the next chunk. `None`: there are no more, or another stream was
    /// requested.
    async fn next_parts(
        &self,
        open: &Arc<Mutex<OpenSnapshot>>,
        stream: u32,
    ) -> Option<Result<Vec<(PartHead, Bytes)>>> {
        let open = Arc::clone(open);
        let next = self.tasks.run_blocking(move || {
            let mut open = lock(&open);
            if open.stream == stream { open.next_parts() } else { Ok(None) }
        });
        next.await.and_then(Result::transpose)
    }

    /// Returns true if the network accepted all parts.
    async fn send(
        &self,
        peers: &Peers,
        open: &Mutex<OpenSnapshot>,
        parts: Vec<(PartHead, Bytes)>,
    ) -> bool {
        let (to, group) = {
            let open = lock(open);
            (open.to, open.group)
        };
        for (head, bytes) in parts {
            self.metrics.snapshot_bytes_sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            let message = Message::new(Lane::Bulk, group, bytes).with_head(&head.write());
            let sent = timeout(self.idle, peers.send_bulk(to, message)).await;
            if sent != Ok(SendOutcome::Sent) {
                return false;
            }
            if head.end == PartEnd::Snapshot {
                Metrics::count(&self.metrics.snapshots_sent);
            }
        }
        true
    }

    /// Closes a snapshot, unless another stream of it was requested.
    fn close(&self, open: &Mutex<OpenSnapshot>, stream: u32) {
        let mut all = self.open_snapshots();
        let open = lock(open);
        if open.stream == stream {
            all.remove(&open.id);
        }
    }
}

/// Describes a snapshot. The inner error is the answer of a node that has no state to send.
pub(super) fn offer(
    snapshot: &dyn Snapshot,
    group: GroupId,
    initial: Option<Configuration>,
) -> Result<std::result::Result<Offer, SnapshotAnswer>> {
    let mut key = Vec::new();
    layout::mark_key(group, &mut key);
    let Some(mark) = snapshot.get(&key).map_err(store_error)? else {
        return Ok(Err(SnapshotAnswer::UnknownGroup));
    };
    let mark = Mark::read(&mark).map_err(corrupt)?;
    layout::configuration_key(group, &mut key);
    let (base, configuration) = match (snapshot.get(&key).map_err(store_error)?, initial) {
        (Some(bytes), _) => layout::read_configuration(&bytes).map_err(corrupt)?,
        (None, Some(initial)) => (LogIndex(0), initial),
        // The first stop-sign is decided and not applied yet.
        (None, None) => return Ok(Err(SnapshotAnswer::Busy)),
    };
    let id = world::random_u64();
    Ok(Ok(Offer { id, mark, base, configuration, rows_estimated: 0, bytes_estimated: 0 }))
}

/// Returns true if one more snapshot may be open. One for each receiver and group: a receiver that
/// begins again drops the earlier one.
fn make_room(
    all: &mut BTreeMap<u64, Arc<Mutex<OpenSnapshot>>>,
    to: NodeId,
    group: GroupId,
) -> bool {
    all.retain(|_, open| {
        let open = lock(open);
        (open.to, open.group) != (to, group)
    });
    all.len() < OPEN_MAX
}

fn lock(open: &Mutex<OpenSnapshot>) -> MutexGuard<'_, OpenSnapshot> {
    open.lock().expect("no one panics while holding it")
}

impl OpenSnapshot {
    fn next_parts(&mut self) -> Result<Option<Vec<(PartHead, Bytes)>>> {
        if self.is_complete {
            return Ok(None);
        }
        let prefix = self.group.0.to_be_bytes();
        let after = self.position.after.as_ref();
        let chunk = Chunk::read(&*self.snapshot, &prefix, after, CHUNK_BYTES);
        let chunk = chunk.map_err(store_error)?;
        self.is_complete = chunk.more_after.is_none();
        let (mut rest, mut parts) = (message::write_rows(&chunk.rows), Vec::new());
        loop {
            let bytes = rest.split_to(rest.len().min(PART_BYTES));
            self.position.digest = message::digest(self.position.digest, &bytes);
            let end = match (rest.is_empty(), self.is_complete) {
                (false, _) => PartEnd::MidChunk,
                (true, false) => PartEnd::Chunk,
                (true, true) => PartEnd::Snapshot,
            };
            let (id, stream, number) = (self.id, self.stream, self.next_number);
            parts.push((PartHead { id, stream, number, end, digest: self.position.digest }, bytes));
            self.next_number += 1;
            if rest.is_empty() {
                break;
            }
        }
        if let Some((last, _)) = chunk.rows.last() {
            // A copy: the row's own bytes would keep a whole block in memory.
            self.position.after = Some(Bytes::copy_from_slice(last));
        }
        self.chunk_ends.push_back(self.position.clone());
        if self.chunk_ends.len() > POSITIONS_MAX {
            self.chunk_ends.pop_front();
        }
        Ok(Some(parts))
    }
}
