//! The sending side: open snapshots, and the parts made of them.

use super::super::layout::{self, Mark};
use super::message::{self, Ends, HEAD_BYTES, Offer, PartHead, SnapshotAnswer, SnapshotQuestion};
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
use transport::{IncomingCall, Lane, Message, Peers, Sending};

/// Most snapshots open at a time: each keeps files from being removed.
pub(super) const OPEN_MAX: usize = 2;
/// Bytes of rows that are read at a time.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;
/// Number of positions that a receiver may go back to: more than the full chunks in flight.
const PLACES_MAX: usize = 64;
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
    /// Parts of the stream that were made.
    number: u32,
    at: SendPosition,
    /// All parts were made.
    done: bool,
    /// Positions at which the last chunks ended.
    passed: VecDeque<SendPosition>,
}

/// An answer, and the snapshot to send behind it, by a stream.
type SendAnswer = (SnapshotAnswer, Option<(Arc<Mutex<OpenSnapshot>>, u32)>);

/// Between two rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SendPosition {
    /// Behind this key; none: before all.
    after: Option<Bytes>,
    /// Digest of everything before.
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

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Mutex<OpenSnapshot>>>> {
        self.open.lock().expect("no one panics while holding it")
    }

    /// Number of open snapshots.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.open().len()
    }

    /// Forgets all snapshots, as a restart does.
    #[cfg(test)]
    pub fn forget(&self) {
        self.open().clear();
    }

    /// Answers a question, and sends the requested snapshot.
    pub async fn answer(
        self: Arc<Sender>,
        peers: Peers,
        asked: IncomingCall,
        question: SnapshotQuestion,
        first: Option<Configuration>,
    ) {
        let (from, group) = (asked.from, asked.group);
        let (answer, open) = match question {
            SnapshotQuestion::Begin { stream } => {
                let sender = Arc::clone(&self);
                let begin = move || sender.begin(from, group, stream, first);
                match self.tasks.run_blocking(begin).await {
                    Some(Ok(begun)) => begun,
                    Some(Err(error)) => {
                        tracing::warn!(target: "store", %error, "no snapshot for another node");
                        (SnapshotAnswer::Busy, None)
                    }
                    None => return,
                }
            }
            SnapshotQuestion::Resume { stream, id, after } => self.resume(from, id, stream, after),
            SnapshotQuestion::Mark => match offer(&*self.trees.snapshot(), group, first) {
                Ok(offered) => (offered.map_or_else(|answer| answer, SnapshotAnswer::Offer), None),
                Err(error) => {
                    tracing::warn!(target: "store", %error, "no mark for another node");
                    (SnapshotAnswer::Busy, None)
                }
            },
            SnapshotQuestion::End { id } => {
                let mut all = self.open();
                let known = all.get(&id).is_some_and(|open| lock(open).to == from);
                known.then(|| all.remove(&id));
                (SnapshotAnswer::GoesOn, None)
            }
        };
        // A receiver asks again if its answer was dropped for lack of space.
        let _ = peers.answer(&asked, answer.write());
        if let Some((open, stream)) = open {
            self.stream(&peers, open, stream).await;
        }
    }

    fn begin(
        &self,
        to: NodeId,
        group: GroupId,
        stream: u32,
        first: Option<Configuration>,
    ) -> Result<SendAnswer> {
        if !make_room(&mut self.open(), to, group) {
            return Ok((SnapshotAnswer::Busy, None));
        }
        let (offer, open) = match self.opened(to, group, stream, first)? {
            Ok(opened) => opened,
            Err(answer) => return Ok((answer, None)),
        };
        let (upto, id) = (offer.mark.applied, offer.id);
        let Some(open) = self.keep(open) else { return Ok((SnapshotAnswer::Busy, None)) };
        tracing::info!(
            target: "consensus", %group, %to, upto, id, "a snapshot goes to another node"
        );
        Ok((SnapshotAnswer::Offer(offer), Some((open, stream))))
    }

    /// Takes a snapshot for a receiver. The inner error is the answer of a node that has none.
    pub(super) fn opened(
        &self,
        to: NodeId,
        group: GroupId,
        stream: u32,
        first: Option<Configuration>,
    ) -> Result<std::result::Result<(Offer, OpenSnapshot), SnapshotAnswer>> {
        let snapshot = self.trees.snapshot();
        let offer = match offer(&*snapshot, group, first)? {
            Ok(offer) => offer,
            Err(answer) => return Ok(Err(answer)),
        };
        let about = self.trees.statistics();
        let (rows_estimated, bytes_estimated) =
            (about.rows_estimated, about.disk_bytes + about.memory_bytes);
        let offer = Offer { rows_estimated, bytes_estimated, ..offer };
        let open = OpenSnapshot {
            id: offer.id,
            group,
            to,
            snapshot,
            stream,
            number: 0,
            at: SendPosition::default(),
            done: false,
            passed: VecDeque::from([SendPosition::default()]),
        };
        Ok(Ok((offer, open)))
    }

    /// Keeps a snapshot open. `None`: too many others are.
    pub(super) fn keep(&self, open: OpenSnapshot) -> Option<Arc<Mutex<OpenSnapshot>>> {
        let (id, to, group) = (open.id, open.to, open.group);
        let mut all = self.open();
        // Again, in one step with the insertion: others, also of this receiver and group, may have
        // begun while the snapshot was taken.
        if !make_room(&mut all, to, group) {
            return None;
        }
        let open = Arc::new(Mutex::new(open));
        all.insert(id, Arc::clone(&open));
        Some(open)
    }

    fn resume(&self, to: NodeId, id: u64, stream: u32, after: Option<Bytes>) -> SendAnswer {
        let found = self.open().get(&id).cloned();
        let Some(found) = found else { return (SnapshotAnswer::Gone, None) };
        let mut open = lock(&found);
        let place = open.passed.iter().find(|place| place.after == after).cloned();
        match place {
            // The digest is only known where a chunk ended; from elsewhere the receiver begins
            // anew.
            Some(place) if open.to == to => {
                (open.stream, open.number, open.at) = (stream, 0, place);
                open.done = false;
                drop(open);
                (SnapshotAnswer::GoesOn, Some((found, stream)))
            }
            _ => (SnapshotAnswer::Gone, None),
        }
    }

    /// Sends until the end, a break, or another stream; then keeps the snapshot for a while.
    async fn stream(&self, peers: &Peers, open: Arc<Mutex<OpenSnapshot>>, stream: u32) {
        while let Some(parts) = self.next(&open, stream).await {
            match parts {
                Ok(parts) => {
                    if !self.send(peers, &open, parts).await {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!(target: "store", %error, "a snapshot breaks off");
                    self.close(&open, stream);
                    return;
                }
            }
        }
        // The receiver may have lost the last parts, and ask for them again.
        sleep(self.idle).await;
        self.close(&open, stream);
    }

    /// Returns the parts of the next chunk. `None`: there are no more, or another stream was
    /// requested.
    async fn next(
        &self,
        open: &Arc<Mutex<OpenSnapshot>>,
        stream: u32,
    ) -> Option<Result<Vec<(PartHead, Bytes)>>> {
        let open = Arc::clone(open);
        let next = self.tasks.run_blocking(move || {
            let mut open = lock(&open);
            if open.stream == stream { open.next() } else { Ok(None) }
        });
        next.await.and_then(Result::transpose)
    }

    /// Returns true if all were taken by the network.
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
            if sent != Ok(Sending::Sent) {
                return false;
            }
            if head.ends == Ends::All {
                Metrics::count(&self.metrics.snapshots_sent);
            }
        }
        true
    }

    /// Closes a snapshot, unless another stream of it was requested.
    fn close(&self, open: &Mutex<OpenSnapshot>, stream: u32) {
        let mut all = self.open();
        let open = lock(open);
        if open.stream == stream {
            all.remove(&open.id);
        }
    }
}

/// Describes a snapshot. The inner error is the answer of a node that has none to offer.
pub(super) fn offer(
    snapshot: &dyn Snapshot,
    group: GroupId,
    first: Option<Configuration>,
) -> Result<std::result::Result<Offer, SnapshotAnswer>> {
    let mut key = Vec::new();
    layout::mark_key(group, &mut key);
    let Some(mark) = snapshot.get(&key).map_err(store_error)? else {
        return Ok(Err(SnapshotAnswer::Nothing));
    };
    let mark = Mark::read(&mark).map_err(corrupt)?;
    layout::configuration_key(group, &mut key);
    let (base, configuration) = match (snapshot.get(&key).map_err(store_error)?, first) {
        (Some(bytes), _) => layout::read_configuration(&bytes).map_err(corrupt)?,
        (None, Some(first)) => (LogIndex(0), first),
        // The first stop-sign is decided and not applied yet.
        (None, None) => return Ok(Err(SnapshotAnswer::Busy)),
    };
    let id = world::chance();
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
    fn next(&mut self) -> Result<Option<Vec<(PartHead, Bytes)>>> {
        if self.done {
            return Ok(None);
        }
        let prefix = self.group.0.to_be_bytes();
        let after = self.at.after.as_ref();
        let chunk = Chunk::read(&*self.snapshot, &prefix, after, CHUNK_BYTES);
        let chunk = chunk.map_err(store_error)?;
        self.done = chunk.more_after.is_none();
        let (mut rest, mut parts) = (message::write_rows(&chunk.rows), Vec::new());
        loop {
            let bytes = rest.split_to(rest.len().min(PART_BYTES));
            self.at.digest = message::digest(self.at.digest, &bytes);
            let ends = match (rest.is_empty(), self.done) {
                (false, _) => Ends::Within,
                (true, false) => Ends::Rows,
                (true, true) => Ends::All,
            };
            let (id, stream, number) = (self.id, self.stream, self.number);
            parts.push((PartHead { id, stream, number, ends, digest: self.at.digest }, bytes));
            self.number += 1;
            if rest.is_empty() {
                break;
            }
        }
        if let Some((last, _)) = chunk.rows.last() {
            // A copy, for the row's own bytes hang on a whole block.
            self.at.after = Some(Bytes::copy_from_slice(last));
        }
        self.passed.push_back(self.at.clone());
        if self.passed.len() > PLACES_MAX {
            self.passed.pop_front();
        }
        Ok(Some(parts))
    }
}
