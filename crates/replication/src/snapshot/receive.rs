//! The receiving side: from the question to a snapshot that is here whole.

use super::message::{Offer, SnapshotAnswer, SnapshotQuestion};
use super::part_queue::{PartEvent, PartReceiver};
use super::take::Take;
use super::{Installing, SnapshotProgress, Snapshots, StagedSnapshot, applied_here, overtaken};
use base::error::shutting_down;
use base::{Error, GroupId, LogIndex, NodeId, Reason, Result};
use runtime::log_writer::store_error;
use runtime::metrics::Metrics;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;
use store::TreeRow;
use tokio::time::{sleep, timeout};
use transport::{Credit, Peers};

/// Timeout of one answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Attempts to resume without a new row, before the fetch fails: a minute, if nobody answers.
const FRUITLESS_MAX: u32 = 300;
/// Number of restarts from the beginning, before the fetch fails.
const ANEW_MAX: u32 = 3;

/// Outcome of an attempt.
enum FetchEnd {
    Whole(StagedSnapshot),
    /// The sender has forgotten the snapshot.
    Forgotten,
}

/// Outcome of a wait.
enum WaitOutcome {
    Rows(Vec<TreeRow>, Credit, bool),
    /// A part of a chunk that is not complete.
    Part,
    /// The stream is lost, for this reason.
    Lost(&'static str),
}

/// A snapshot that is being received. Its progress is shown until this is dropped.
struct Fetch<'a> {
    snapshots: &'a Snapshots,
    peers: &'a Peers,
    group: GroupId,
    from: NodeId,
    intake: PartReceiver<'a>,
    /// Number of losses since the last row came.
    fruitless: u32,
}

impl Snapshots {
    /// Fetches a snapshot of a group from a node that has one. The group's driver installs the
    /// result. Dropping the future cancels it, and nothing has changed.
    pub async fn fetch(
        &self,
        peers: &Peers,
        group: GroupId,
        from: NodeId,
    ) -> Result<StagedSnapshot> {
        let under_way = || Error::new(Reason::Overloaded, "a snapshot is under way already");
        let intake = self.intakes.begin(group, from).ok_or_else(under_way)?;
        let mut fetch = Fetch { snapshots: self, peers, group, from, intake, fruitless: 0 };
        self.shown().insert(group, SnapshotProgress::begin(group, from));
        for _ in 0..ANEW_MAX {
            match fetch.attempt().await? {
                FetchEnd::Whole(staged) => return Ok(staged),
                FetchEnd::Forgotten => fetch.note(|progress| {
                    (progress.rows, progress.bytes) = (0, 0);
                    progress.restarts += 1;
                }),
            }
            fetch.intake.renew();
        }
        Err(Error::new(
            Reason::StaleReplica,
            "the snapshot is forgotten by its sender again and again",
        ))
    }

    /// Fetches the mark of a snapshot for a witness, without rows.
    pub async fn fetch_mark(
        &self,
        peers: &Peers,
        group: GroupId,
        from: NodeId,
    ) -> Result<StagedSnapshot> {
        let question = SnapshotQuestion::Mark.write();
        let answer = peers.ask(from, group, question, ANSWER_MAX).await?;
        match SnapshotAnswer::read(&answer) {
            Ok(SnapshotAnswer::Offer(offer)) => {
                let trees = Arc::clone(&self.trees);
                Ok(StagedSnapshot { group, offer, install: None, trees })
            }
            _ => Err(Error::new(
                Reason::StaleReplica,
                format!("node {from} has no mark to give now"),
            )),
        }
    }

    fn shown(&self) -> MutexGuard<'_, BTreeMap<GroupId, SnapshotProgress>> {
        self.progress.lock().expect("no one panics while holding it")
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        self.snapshots.shown().remove(&self.group);
    }
}

impl Fetch<'_> {
    fn note(&self, change: impl FnOnce(&mut SnapshotProgress)) {
        if let Some(progress) = self.snapshots.shown().get_mut(&self.group) {
            change(progress);
        }
    }

    /// Receives a snapshot from its beginning to its end, or until the sender has forgotten it.
    async fn attempt(&mut self) -> Result<FetchEnd> {
        let offer = match self.ask(&SnapshotQuestion::Begin { stream: self.intake.stream }).await {
            Ok(SnapshotAnswer::Offer(offer)) => offer,
            Ok(other) => return Err(self.refused(&other)),
            Err(error) => return Err(error),
        };
        // The log may have caught up meanwhile: an older state must never replace a newer one.
        if applied_here(&*self.snapshots.trees, self.group)? >= offer.mark.applied {
            self.end(&offer).await;
            return Err(overtaken());
        }
        self.note(|progress| {
            progress.last_index = LogIndex(offer.mark.applied);
            progress.rows_estimated = offer.rows_estimated;
        });
        let prefix = self.group.0.to_be_bytes();
        let trees = Arc::clone(&self.snapshots.trees);
        let mut install = Installing::begin(&trees, &self.snapshots.file_tasks, &prefix)?;
        let mut take = Take::new(self.group, &offer);
        loop {
            match self.wait(&mut take).await {
                WaitOutcome::Part => {}
                WaitOutcome::Rows(rows, credit, all) => {
                    self.count(&rows);
                    install = put(install, rows, all).await?;
                    // Only after `put`: the sender gets no credit for rows that the store has not
                    // taken.
                    drop(credit);
                    if all {
                        self.end(&offer).await;
                        Metrics::count(&self.snapshots.metrics.snapshots_received);
                        let group = self.group;
                        let install = Some(install);
                        return Ok(FetchEnd::Whole(StagedSnapshot {
                            group,
                            offer,
                            install,
                            trees,
                        }));
                    }
                }
                WaitOutcome::Lost(why) => {
                    if !self.go_on(&offer, &mut take, why).await? {
                        return Ok(FetchEnd::Forgotten);
                    }
                }
            }
        }
    }

    /// Waits for the next part.
    async fn wait(&mut self, take: &mut Take) -> WaitOutcome {
        let (head, bytes, credit) =
            match timeout(self.snapshots.pace.quiet, self.intake.next()).await {
                Ok(PartEvent::Part(head, bytes, credit)) => (head, bytes, credit),
                Ok(PartEvent::Broken) => return WaitOutcome::Lost("the connection"),
                Err(_) => return WaitOutcome::Lost("everything, for a while"),
            };
        let received = &self.snapshots.metrics.snapshot_bytes_received;
        received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        match take.part(head, bytes) {
            Ok(Some((rows, all))) => WaitOutcome::Rows(rows, credit, all),
            Ok(None) => WaitOutcome::Part,
            Err(malformed) => WaitOutcome::Lost(malformed.0),
        }
    }

    fn count(&mut self, rows: &[TreeRow]) {
        self.fruitless = 0;
        let bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.note(|progress| {
            progress.rows += rows.len() as u64;
            progress.bytes += bytes as u64;
        });
    }

    /// Requests the rest behind the last row taken. Returns false if the sender has forgotten the
    /// snapshot.
    async fn go_on(&mut self, offer: &Offer, take: &mut Take, why: &'static str) -> Result<bool> {
        Metrics::count(&self.snapshots.metrics.snapshot_resumes);
        self.note(|progress| progress.resumes += 1);
        tracing::info!(
            target: "consensus", group = %self.group, from = %self.from, lost = why,
            "the rest of a snapshot is asked for again"
        );
        // A new stream first: parts of the old one that still arrive would come in between.
        let (stream, after) = (self.intake.renew(), take.after());
        take.go_back();
        let question = SnapshotQuestion::Resume { stream, id: offer.id, after };
        loop {
            self.fruitless += 1;
            if self.fruitless > FRUITLESS_MAX {
                let text = format!("node {} does not go on with its snapshot: {why}", self.from);
                return Err(Error::new(Reason::NoQuorum, text));
            }
            match self.ask(&question).await {
                Ok(SnapshotAnswer::GoesOn) => return Ok(true),
                Ok(SnapshotAnswer::Gone) => return Ok(false),
                Ok(other) => return Err(self.refused(&other)),
                Err(_) => sleep(self.snapshots.pace.pause).await,
            }
        }
    }

    async fn ask(&self, question: &SnapshotQuestion) -> Result<SnapshotAnswer> {
        let answer = self.peers.ask(self.from, self.group, question.write(), ANSWER_MAX).await?;
        SnapshotAnswer::read(&answer).map_err(|malformed| {
            Error::new(Reason::NotSupported, format!("an answer's {} has no sense", malformed.0))
        })
    }

    /// Tells the sender that the snapshot is not needed any more. A sender that misses it closes
    /// the snapshot after a while.
    async fn end(&self, offer: &Offer) {
        let _ = self.ask(&SnapshotQuestion::End { id: offer.id }).await;
    }

    fn refused(&self, answer: &SnapshotAnswer) -> Error {
        let (reason, words) = match answer {
            SnapshotAnswer::Busy => (Reason::Overloaded, "sends too many snapshots now"),
            SnapshotAnswer::Nothing => (Reason::NotFound, "has nothing of this group"),
            _ => (Reason::NotSupported, "gave an answer that has no sense"),
        };
        Error::new(reason, format!("node {} {words}", self.from))
    }
}

/// Gives rows to the store; behind the last ones all of them are on disk.
pub(super) async fn put(
    mut installing: Installing,
    rows: Vec<TreeRow>,
    all: bool,
) -> Result<Installing> {
    let taken = tokio::task::spawn_blocking(move || {
        installing.install.put(rows)?;
        if all {
            installing.install.complete()?;
        }
        Ok(installing)
    });
    match taken.await {
        Ok(taken) => taken.map_err(store_error),
        Err(_) => Err(shutting_down()),
    }
}
