//! Receiving side of a snapshot transfer: from the request to the complete snapshot.

use super::message::{Offer, SnapshotAnswer, SnapshotQuestion};
use super::part_assembler::PartAssembler;
use super::part_queue::{PartEvent, PartReceiver};
use super::{RowIngest, SnapshotProgress, Snapshots, StagedSnapshot, applied_index, overtaken};
use base::error::shutting_down;
use base::{Error, GroupId, LogIndex, NodeId, Reason, Result};
use runtime::log_writer::store_error;
use runtime::metrics::Metrics;
use runtime::world;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;
use store::TreeRow;
use tokio::time::{sleep, timeout};
use transport::{Credit, Peers};

/// Timeout of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without a new row, in milliseconds, after which the fetch fails: consensus may ask for one
/// of another sender.
const ROWLESS_MS_MAX: u64 = 60_000;
/// Number of restarts from the beginning, before the fetch fails.
const RESTARTS_MAX: u32 = 3;

/// Outcome of an attempt.
enum FetchEnd {
    /// All rows are staged.
    Complete(StagedSnapshot),
    /// The sender has closed the snapshot.
    Expired,
}

/// Outcome of a wait.
enum WaitOutcome {
    /// Rows of a complete chunk, their credit, and true if they are the last.
    Rows(Vec<TreeRow>, Credit, bool),
    /// A part of an incomplete chunk.
    Part,
    /// The stream is lost, for this reason.
    Lost(&'static str),
}

/// A snapshot that is being received. Its progress is published until this is dropped.
struct Fetch<'a> {
    snapshots: &'a Snapshots,
    peers: &'a Peers,
    group: GroupId,
    from: NodeId,
    parts: PartReceiver<'a>,
    /// Time of the last row, or of the begin, in milliseconds.
    last_row_at: u64,
}

impl Snapshots {
    /// Fetches a snapshot of a group from a node that has one. The group's driver installs the
    /// result. Dropping the future cancels the fetch, and changes nothing.
    pub async fn fetch(
        &self,
        peers: &Peers,
        group: GroupId,
        from: NodeId,
    ) -> Result<StagedSnapshot> {
        let in_progress = || Error::new(Reason::Overloaded, "a snapshot is in progress already");
        let parts = self.part_queues.begin(group, from).ok_or_else(in_progress)?;
        let last_row_at = world::milliseconds();
        let mut fetch = Fetch { snapshots: self, peers, group, from, parts, last_row_at };
        self.lock_progress().insert(group, SnapshotProgress::begin(group, from));
        for _ in 0..RESTARTS_MAX {
            match fetch.attempt().await? {
                FetchEnd::Complete(staged) => return Ok(staged),
                FetchEnd::Expired => fetch.update_progress(|progress| {
                    (progress.rows, progress.bytes) = (0, 0);
                    progress.restarts += 1;
                }),
            }
            fetch.parts.begin_stream();
        }
        Err(Error::new(Reason::StaleReplica, "the sender dropped the snapshot repeatedly"))
    }

    /// Fetches the mark of a snapshot for a witness, without rows.
    pub async fn fetch_mark(
        &self,
        peers: &Peers,
        group: GroupId,
        from: NodeId,
    ) -> Result<StagedSnapshot> {
        let question = SnapshotQuestion::Mark.write();
        let answer = peers.call(from, group, question, ANSWER_TIMEOUT).await?;
        match SnapshotAnswer::read(&answer) {
            Ok(SnapshotAnswer::Offer(offer)) => {
                let trees = Arc::clone(&self.trees);
                Ok(StagedSnapshot { group, offer, rows: None, trees })
            }
            _ => Err(Error::new(
                Reason::StaleReplica,
                format!("node {from} has no snapshot mark at the moment"),
            )),
        }
    }

    fn lock_progress(&self) -> MutexGuard<'_, BTreeMap<GroupId, SnapshotProgress>> {
        self.progress.lock().expect("no one panics while holding it")
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        self.snapshots.lock_progress().remove(&self.group);
    }
}

impl Fetch<'_> {
    fn update_progress(&self, change: impl FnOnce(&mut SnapshotProgress)) {
        if let Some(progress) = self.snapshots.lock_progress().get_mut(&self.group) {
            change(progress);
        }
    }

    /// Receives a snapshot from its beginning to its end, or until the sender has closed it.
    async fn attempt(&mut self) -> Result<FetchEnd> {
        let offer = match self.ask(&SnapshotQuestion::Begin { stream: self.parts.stream }).await {
            Ok(SnapshotAnswer::Offer(offer)) => offer,
            Ok(other) => return Err(self.refusal(&other)),
            Err(error) => return Err(error),
        };
        // The log may have caught up meanwhile: an older state must never replace a newer one.
        if applied_index(&*self.snapshots.trees, self.group)? >= offer.mark.applied {
            self.send_end(&offer).await;
            return Err(overtaken());
        }
        self.update_progress(|progress| {
            progress.last_index = LogIndex(offer.mark.applied);
            progress.rows_estimated = offer.rows_estimated;
        });
        let prefix = self.group.0.to_be_bytes();
        let trees = Arc::clone(&self.snapshots.trees);
        self.check_space(&offer).await?;
        let mut ingest = RowIngest::begin(&trees, &self.snapshots.file_tasks, &prefix)?;
        let mut assembler = PartAssembler::new(self.group, &offer);
        loop {
            match self.wait(&mut assembler).await {
                WaitOutcome::Part => {}
                WaitOutcome::Rows(rows, credit, is_last) => {
                    self.check_space(&offer).await?;
                    self.count_rows(&rows);
                    ingest = ingest_rows(ingest, rows, is_last).await?;
                    // Only after `ingest_rows`: the sender gets no credit for rows that the store
                    // has not taken.
                    drop(credit);
                    if is_last {
                        self.send_end(&offer).await;
                        Metrics::count(&self.snapshots.metrics.snapshots_received);
                        let group = self.group;
                        let rows = Some(ingest);
                        return Ok(FetchEnd::Complete(StagedSnapshot {
                            group,
                            offer,
                            rows,
                            trees,
                        }));
                    }
                }
                WaitOutcome::Lost(why) => {
                    if !self.resume(&offer, &mut assembler, why).await? {
                        return Ok(FetchEnd::Expired);
                    }
                }
            }
        }
    }

    /// Waits for the next part.
    async fn wait(&mut self, assembler: &mut PartAssembler) -> WaitOutcome {
        let (head, bytes, credit) =
            match timeout(self.snapshots.timeouts.part, self.parts.next()).await {
                Ok(PartEvent::Part(head, bytes, credit)) => (head, bytes, credit),
                Ok(PartEvent::Broken) => return WaitOutcome::Lost("the connection"),
                Err(_) => return WaitOutcome::Lost("everything, for a while"),
            };
        let received = &self.snapshots.metrics.snapshot_bytes_received;
        received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        match assembler.accept(head, bytes) {
            Ok(Some((rows, is_last))) => WaitOutcome::Rows(rows, credit, is_last),
            Ok(None) => WaitOutcome::Part,
            Err(malformed) => WaitOutcome::Lost(malformed.0),
        }
    }

    /// Refuses rows when the disk is nearly full: the rest is for the log, without which no group
    /// of this node could go on.
    async fn check_space(&self, offer: &Offer) -> Result<()> {
        if !self.snapshots.space.is_full() {
            return Ok(());
        }
        self.send_end(offer).await;
        let text = "the disk is nearly full, so this snapshot is not received: free some space";
        Err(Error::new(Reason::OutOfSpace, text))
    }

    fn count_rows(&mut self, rows: &[TreeRow]) {
        self.last_row_at = world::milliseconds();
        let bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.update_progress(|progress| {
            progress.rows += rows.len() as u64;
            progress.bytes += bytes as u64;
        });
    }

    /// Requests the rest behind the last verified row. Returns false if the sender has closed the
    /// snapshot.
    async fn resume(
        &mut self,
        offer: &Offer,
        assembler: &mut PartAssembler,
        why: &'static str,
    ) -> Result<bool> {
        Metrics::count(&self.snapshots.metrics.snapshot_resumes);
        self.update_progress(|progress| progress.resumes += 1);
        tracing::info!(
            target: "consensus", group = %self.group, from = %self.from, lost = why,
            "the rest of a snapshot is requested again"
        );
        // A new stream first: parts of the old one may still arrive.
        let (stream, after) = (self.parts.begin_stream(), assembler.last_key());
        assembler.rewind();
        let question = SnapshotQuestion::Resume { stream, id: offer.id, after };
        loop {
            if world::milliseconds().saturating_sub(self.last_row_at) > ROWLESS_MS_MAX {
                let text = format!("node {} does not continue its snapshot: {why}", self.from);
                return Err(Error::new(Reason::NoQuorum, text));
            }
            match self.ask(&question).await {
                Ok(SnapshotAnswer::Accepted) => return Ok(true),
                Ok(SnapshotAnswer::Expired) => return Ok(false),
                Ok(other) => return Err(self.refusal(&other)),
                Err(_) => sleep(self.snapshots.timeouts.retry).await,
            }
        }
    }

    async fn ask(&self, question: &SnapshotQuestion) -> Result<SnapshotAnswer> {
        let answer =
            self.peers.call(self.from, self.group, question.write(), ANSWER_TIMEOUT).await?;
        SnapshotAnswer::read(&answer).map_err(|malformed| {
            Error::new(
                Reason::NotSupported,
                format!("the field `{}` of an answer is malformed", malformed.0),
            )
        })
    }

    /// Notifies the sender that the snapshot is not needed any more. A sender that misses it closes
    /// the snapshot after a while.
    async fn send_end(&self, offer: &Offer) {
        let _ = self.ask(&SnapshotQuestion::End { id: offer.id }).await;
    }

    fn refusal(&self, answer: &SnapshotAnswer) -> Error {
        let (reason, words) = match answer {
            SnapshotAnswer::Busy => (Reason::Overloaded, "sends too many snapshots at the moment"),
            SnapshotAnswer::UnknownGroup => (Reason::NotFound, "has no replica of this group"),
            _ => (Reason::NotSupported, "sent a malformed answer"),
        };
        Error::new(reason, format!("node {} {words}", self.from))
    }
}

/// Passes rows to the store. After the last ones all of them are on disk.
pub(super) async fn ingest_rows(
    mut ingest: RowIngest,
    rows: Vec<TreeRow>,
    is_last: bool,
) -> Result<RowIngest> {
    let ingested = tokio::task::spawn_blocking(move || {
        ingest.ingest.put(rows)?;
        if is_last {
            ingest.ingest.complete()?;
        }
        Ok(ingest)
    });
    match ingested.await {
        Ok(ingested) => ingested.map_err(store_error),
        Err(_) => Err(shutting_down()),
    }
}
