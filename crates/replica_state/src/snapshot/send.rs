//! Sending side of a snapshot transfer: open snapshots, and their parts.

use super::super::layout::{self, Mark};
use super::TransferTimeouts;
use super::message::{Offer, PartEnd, PartHead, SnapshotAnswer, SnapshotQuestion};
use super::open_snapshots::{OpenSnapshot, OpenSnapshots};
use base::error::corrupt;
use base::{GroupId, LogIndex, NodeId, Result};
use bytes::Bytes;
use logic::consensus::Configuration;
use runtime::log_writer::store_error;
use runtime::metrics::Metrics;
use runtime::{TaskScope, world};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use store::{Snapshot, Trees};
use tokio::time::{sleep, timeout};
use transport::{IncomingCall, Lane, Message, Peers, SendOutcome};

/// Sender of snapshots on one node.
pub(super) struct Sender {
    trees: Arc<dyn Trees>,
    metrics: Arc<Metrics>,
    timeouts: TransferTimeouts,
    pub(super) open: OpenSnapshots,
    tasks: TaskScope,
}

/// An answer, and the snapshot to send after it, with its stream.
type SendAnswer = (SnapshotAnswer, Option<(Arc<OpenSnapshot>, u32)>);

impl Sender {
    pub fn new(
        trees: Arc<dyn Trees>,
        metrics: Arc<Metrics>,
        timeouts: TransferTimeouts,
        tasks: TaskScope,
    ) -> Sender {
        Sender { trees, metrics, timeouts, open: OpenSnapshots::new(timeouts.unused), tasks }
    }

    /// Number of open snapshots.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.open.count()
    }

    /// Closes all snapshots, as a restart does.
    #[cfg(test)]
    pub fn close_all(&self) {
        self.open.close_all();
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
                self.open.end(id, from);
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
        if !self.open.make_room(to, group) {
            return Ok((SnapshotAnswer::Busy, None));
        }
        let (offer, open) = match self.open_snapshot(to, group, stream, initial)? {
            Ok(opened) => opened,
            Err(answer) => return Ok((answer, None)),
        };
        let (upto, id) = (offer.mark.applied, offer.id);
        let Some(open) = self.open.insert(open) else { return Ok((SnapshotAnswer::Busy, None)) };
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
        let open = OpenSnapshot::new(offer.id, (to, group), snapshot, stream);
        Ok(Ok((offer, open)))
    }

    fn resume(&self, to: NodeId, id: u64, stream: u32, after: Option<Bytes>) -> SendAnswer {
        let Some(open) = self.open.find(id, to) else { return (SnapshotAnswer::Expired, None) };
        // The digest is known only at the end of a chunk; elsewhere the receiver begins again.
        if open.resume(stream, after.as_ref()) {
            return (SnapshotAnswer::Accepted, Some((open, stream)));
        }
        (SnapshotAnswer::Expired, None)
    }

    /// Sends parts until the end, a failure, or another stream; then keeps the snapshot open for a
    /// while. Does not hold it open meanwhile: it may have to give its place to another.
    async fn stream(&self, peers: &Peers, open: Arc<OpenSnapshot>, stream: u32) {
        let receiver = (open.to, open.group);
        let weak = Arc::downgrade(&open);
        drop(open);
        while let Some(parts) = self.next_parts(&weak, stream).await {
            match parts {
                Ok(parts) => {
                    if !self.send(peers, receiver, &weak, parts).await {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!(
                        target: "store", %error, "the sending of a snapshot was interrupted"
                    );
                    self.open.close(&weak, stream);
                    return;
                }
            }
        }
        if let Some(open) = weak.upgrade() {
            open.end_stream(stream);
        }
        // The receiver may have lost the last parts, and request them again.
        sleep(self.timeouts.idle).await;
        self.open.close(&weak, stream);
    }

    /// Returns the parts of the next chunk. `None`: there are no more, another stream was
    /// requested, or the snapshot was closed.
    async fn next_parts(
        &self,
        open: &Weak<OpenSnapshot>,
        stream: u32,
    ) -> Option<Result<Vec<(PartHead, Bytes)>>> {
        let open = open.upgrade()?;
        let next = self.tasks.run_blocking(move || open.next_parts(stream));
        next.await.and_then(Result::transpose)
    }

    /// Returns true if the network accepted all parts.
    async fn send(
        &self,
        peers: &Peers,
        (to, group): (NodeId, GroupId),
        open: &Weak<OpenSnapshot>,
        parts: Vec<(PartHead, Bytes)>,
    ) -> bool {
        for (head, bytes) in parts {
            self.metrics.snapshot_bytes_sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            let message = Message::new(Lane::Bulk, group, bytes).with_head(&head.write());
            let sent = timeout(self.timeouts.idle, peers.send_bulk(to, message)).await;
            if sent != Ok(SendOutcome::Sent) {
                return false;
            }
            if let Some(open) = open.upgrade() {
                open.mark_active();
            }
            if head.end == PartEnd::Snapshot {
                Metrics::count(&self.metrics.snapshots_sent);
            }
        }
        true
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
