//! Anti-entropy: compares the copies of a partition in the background and repairs differences, also
//! for keys that are never read.
//!
//! The first of two owners in a partition's preference list asks the other. Differing rows are
//! sent, fetched and merged like any write of another replica. So it does not matter which side
//! repairs, nor that rows change meanwhile. The ring may change, too: then the other node refuses
//! rows that it no longer keeps, and a later round compares them.
//!
//! Promises: equal copies cost one question and one answer a round; the data moved are in
//! proportion to the differences; at most [`REPAIRS_MAX`] rows are repaired at a time.
//! Never: removes a row (a merge only adds newer values).

use super::key_owners::RingTarget;
use super::message::VnodeQuestion;
use super::vnode_ops::{KeyRef, WritePolicy};
use crate::Available;
use base::codec::{Malformed, Reader};
use base::error::corrupt;
use base::limits::FORWARD_MS_MAX;
use base::{Error, Key, NodeId, Reason, Result};
use logic::sync::{
    self, Effect, Event, Exchange, Leaf, ROWS_PER_PAGE_MAX, RowDigest, Side, Summary, SyncAnswer,
};
use runtime::join_set::JoinSet;
use runtime::metrics::Metrics;
use runtime::round::progress;
use runtime::world;
use runtime::world::{sleep, sleep_or_cancelled};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use vnode_rows::hash_trees::{TreeId, tree_of_row};
use vnode_rows::layout::{read_row, read_row_tail, row_tail};
use vnode_rows::slots::SlotSpan;
use vnode_rows::span_rows::rows_in_span;

/// Pause between two comparisons.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause between checks for a due comparison, if there was none.
const IDLE: Duration = Duration::from_secs(1);
/// Maximum number of differing rows that are repaired at a time.
const REPAIRS_MAX: usize = 32;
/// Maximum number of bytes of keys in an answer with rows.
const PAGE_KEYS_BYTES_MAX: usize = 256 * 1024;

/// Direction in which differing rows are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncDirection {
    /// Both sides get the rows that they lack.
    Both,
    /// Only the other side gets them.
    Other,
}

/// Compares copies, round by round, until the node stops.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.cancellation_token().clone();
    let round_ms = available.settings.anti_entropy_interval_ms;
    if round_ms == 0 {
        return;
    }
    let counters = &available.metrics.available;
    while !stop.is_cancelled() {
        let began = world::milliseconds();
        for (tree_id, other) in available.comparison_pairs(&available.schema.n_vals()) {
            progress();
            if stop.is_cancelled() {
                return;
            }
            if !available.reaches(other.node) {
                Metrics::count(&counters.anti_entropy_failed);
                continue;
            }
            match available.compare_copies(tree_id, other).await {
                Ok(Summary { rows: 0, .. }) => Metrics::count(&counters.anti_entropy_exchanges),
                Ok(Summary { rows, questions, is_complete }) => {
                    Metrics::count(&counters.anti_entropy_exchanges);
                    counters.rows_differed.fetch_add(rows, Ordering::Relaxed);
                    tracing::info!(
                    target: "node", partition = tree_id.0.partition.0, copies = tree_id.1,
                    other = %available.members.name_of(other.node), rows, questions, is_complete,
                    "two replicas of a partition differed"
                    );
                }
                Err(error) => {
                    Metrics::count(&counters.anti_entropy_failed);
                    tracing::debug!(
                        target: "node", %error, "two replicas of a partition could not be compared"
                    );
                }
            }
            sleep(PAUSE.min(Duration::from_millis(round_ms / 100))).await;
        }
        Metrics::count(&counters.anti_entropy_rounds);
        let left_ms = (began + round_ms).saturating_sub(world::milliseconds());
        let pause_min = IDLE.min(Duration::from_millis(round_ms));
        sleep_or_cancelled(&stop, Duration::from_millis(left_ms).max(pause_min)).await;
    }
}

impl Available {
    /// Returns the trees that this node compares, each with the other owner.
    pub fn comparison_pairs(&self, n_vals: &BTreeSet<u8>) -> Vec<(TreeId, RingTarget)> {
        let Some(ring) = self.schema.ring() else { return Vec::new() };
        let mut pairs = Vec::new();
        for span in SlotSpan::all(&ring) {
            let partition = span.partition;
            for copies in n_vals {
                // Its receivers compare it before it moves.
                if !ring.receivers(partition, usize::from(*copies)).is_empty() {
                    continue;
                }
                let owners = ring.owners(partition, usize::from(*copies));
                // Only the first of two owners asks, so that no pair compares twice.
                let later = owners.iter().skip_while(|node| **node != self.node).skip(1);
                let chosen = later.map(|other| RingTarget { node: *other, epoch: ring.epoch() });
                pairs.extend(chosen.map(|other| ((span, *copies), other)));
            }
        }
        pairs
    }

    /// Compares one copy with another node's, and repairs differences on both sides.
    pub async fn compare_copies(
        self: &Arc<Available>,
        tree_id: TreeId,
        other: RingTarget,
    ) -> Result<Summary> {
        let begun = self.begin_bridge(other.node).await;
        let summary = self.synchronize(tree_id, other, SyncDirection::Both).await?;
        if let Some(begun) = begun.filter(|_| summary.is_complete)
            && let Err(error) = self.end_bridge(tree_id, other.node, begun).await
        {
            tracing::debug!(target: "node", %error, "a bridge between feeds is not noted");
        }
        Ok(summary)
    }

    /// Compares one copy with another node's, and sends the differing rows in the given direction.
    /// The summary is complete if every difference was found and repaired.
    pub(super) async fn synchronize(
        self: &Arc<Available>,
        tree_id: TreeId,
        other: RingTarget,
        direction: SyncDirection,
    ) -> Result<Summary> {
        let mut repaired = true;
        // A row whose bucket has another number of copies since may be in no tree of the two.
        let copies_epoch = self.schema.copies_epoch();
        self.ensure_tree(tree_id).await?;
        let mut exchange = Exchange::new();
        let mut event = Event::Started;
        loop {
            progress();
            let mut effects = Vec::new();
            // The tree may have been evicted since the last step. The next round builds it again.
            let stepped = self.vnode_store.with_tree(tree_id, |tree| {
                exchange.step(event.clone(), tree, &mut effects);
            });
            stepped.ok_or_else(tree_unavailable)?;
            let mut differing = Vec::new();
            let mut next = None;
            for effect in effects {
                match effect {
                    Effect::Ask(question) => {
                        next = Some(self.ask_other(tree_id, other.node, question).await)
                    }
                    Effect::List { leaves, after, last } => {
                        next = Some(match self.local_digests(tree_id, leaves, after, last).await {
                            Ok(rows) => Event::Listed(rows),
                            Err(_) => Event::Failed,
                        });
                    }
                    Effect::Differs { key, at } => differing.push((key, at)),
                    Effect::Done(summary) => {
                        repaired &= self.repair((other, direction), differing).await;
                        repaired &= self.schema.copies_epoch() == copies_epoch;
                        return Ok(Summary {
                            is_complete: summary.is_complete && repaired,
                            ..summary
                        });
                    }
                }
            }
            repaired &= self.repair((other, direction), differing).await;
            event = next.unwrap_or(Event::Failed);
        }
    }

    async fn ask_other(
        self: &Arc<Available>,
        tree_id: TreeId,
        other: NodeId,
        question: sync::SyncQuestion,
    ) -> Event {
        let within = Duration::from_millis(FORWARD_MS_MAX);
        let question = VnodeQuestion::Compare { tree_id, question }.write();
        // The receiver must have a ring at least as new as the last change of this partition.
        let epoch = self.schema.change_epoch_in(tree_id.0.slots());
        let answer = self.ask_vnode_of(epoch, other, question, within).await;
        match answer.map(|bytes| SyncAnswer::read(&mut Reader::new(&bytes))) {
            Ok(Ok(answer)) => Event::Answered(answer),
            _ => Event::Failed,
        }
    }

    /// Answers another node's question of a comparison.
    pub(super) async fn answer_comparison(
        self: &Arc<Available>,
        tree_id: TreeId,
        question: sync::SyncQuestion,
    ) -> Result<SyncAnswer> {
        self.ensure_tree(tree_id).await?;
        let answer = self.vnode_store.with_tree(tree_id, |tree| question.answer(tree));
        // The tree covers rows that are not applied yet, and the store holds rows that are not
        // synced yet. The asking node may drop its own copies after this answer: so it is sent only
        // after a sync.
        if let Some(answer) = answer.ok_or_else(tree_unavailable)? {
            self.vnode_store.wait_synced().await?;
            return Ok(answer);
        }
        let sync::SyncQuestion::Rows { leaves, after } = question else {
            return Err(tree_unavailable());
        };
        let available = self.clone();
        let answer = self.read_blocking(move || {
            let (rows, more) = available.scan(tree_id, &leaves, after.as_ref(), None, true)?;
            Ok(SyncAnswer::Rows { rows, more })
        });
        let answer = answer.await?;
        self.vnode_store.wait_synced().await?;
        Ok(answer)
    }

    /// Builds a tree, unless it is complete.
    async fn ensure_tree(self: &Arc<Available>, tree_id: TreeId) -> Result<()> {
        self.vnode_store.reset_trees(self.schema.copies_epoch());
        if self.vnode_store.with_tree(tree_id, |_| ()).is_some() {
            return Ok(());
        }
        let available = self.clone();
        self.read_blocking(move || available.vnode_store.build_tree(tree_id)).await?;
        self.vnode_store.with_tree(tree_id, |_| ()).ok_or_else(tree_unavailable)
    }

    async fn local_digests(
        self: &Arc<Available>,
        tree_id: TreeId,
        leaves: Vec<Leaf>,
        after: Option<Key>,
        end: Option<Key>,
    ) -> Result<Vec<RowDigest>> {
        let available = self.clone();
        self.read_blocking(move || {
            let rows = available.scan(tree_id, &leaves, after.as_ref(), end.as_ref(), false)?;
            Ok(rows.0)
        })
        .await
    }

    /// Returns the digests of local rows in these leaves, and true if more follow.
    fn scan(
        &self,
        tree_id: TreeId,
        leaves: &[Leaf],
        after: Option<&Key>,
        end: Option<&Key>,
        page: bool,
    ) -> Result<(Vec<RowDigest>, bool)> {
        let snapshot = self.trees.snapshot();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for row in rows_in_span(&*snapshot, tree_id.0, after.map(|after| &after[..])) {
            let (key, row) = row?;
            let tail = row_tail(&key);
            if end.is_some_and(|end| tail > &end[..]) {
                break;
            }
            let hash = vnode_rows::hash_trees::hash(&key, &row);
            let matches = leaves.binary_search(&hash.leaf).is_ok();
            if !matches
                || tree_of_row(&key, tree_id.0.partitions, &self.vnode_store.copies)
                    != Some(tree_id)
            {
                continue;
            }
            if page && (rows.len() >= ROWS_PER_PAGE_MAX || bytes >= PAGE_KEYS_BYTES_MAX) {
                return Ok((rows, true));
            }
            bytes += tail.len();
            rows.push(RowDigest { key: key.slice_ref(tail), digest: hash.digest });
        }
        Ok((rows, false))
    }

    /// Repairs differing rows, a few at a time. Returns true if all were repaired.
    async fn repair(
        self: &Arc<Available>,
        target: (RingTarget, SyncDirection),
        differing: Vec<(Key, Side)>,
    ) -> bool {
        let mut tasks = JoinSet::new();
        let (mut waiting, mut all) = (0, true);
        let mut differing = differing.into_iter();
        loop {
            while waiting < REPAIRS_MAX
                && let Some((tail, at)) = differing.next()
            {
                let available = self.clone();
                tasks.push(async move { available.repair_row(target, &tail, at).await });
                waiting += 1;
            }
            if waiting == 0 {
                return all;
            }
            progress();
            if let Err(error) = tasks.next().await {
                tracing::debug!(
                    target: "node", %error, "a differing row could not be repaired yet"
                );
                all = false;
            }
            waiting -= 1;
        }
    }

    async fn repair_row(
        self: &Arc<Available>,
        (other, direction): (RingTarget, SyncDirection),
        tail: &Key,
        at: Side,
    ) -> Result<()> {
        let bucket_and_key = read_row_tail(tail).ok_or_else(|| corrupt(Malformed("row's key")))?;
        let (bucket, key) = bucket_and_key;
        let Some(properties) = self.schema.find(&bucket) else { return Ok(()) };
        // Synced even in a bucket that does not require it: the sender may drop its copy
        // afterwards.
        let policy = WritePolicy { sync: true, ..WritePolicy::from_properties(&properties) };
        let key_ref = KeyRef::new(bucket, key);
        let within = Duration::from_millis(FORWARD_MS_MAX);
        if at != Side::Remote
            && let Some(row) = self.vnode_store.read(&key_ref)?
        {
            let question =
                VnodeQuestion::Store { key_ref: key_ref.clone(), policy, hint: None, row };
            self.ask_ring_target(other, question.write(), within).await?;
            Metrics::count(&self.metrics.available.rows_sent);
        }
        if at != Side::Local && direction == SyncDirection::Both {
            let question = VnodeQuestion::Fetch(key_ref.clone()).write();
            let answer = self.ask_ring_target(other, question, within).await?;
            if answer.first() == Some(&1) {
                let received = read_row(&answer.slice(1..)).map_err(corrupt)?;
                // The partition may have moved since the comparison began.
                self.check_write_epoch(0, &key_ref)?;
                let ticket = self.vnode_store.merge(&key_ref, received, policy, None)?;
                self.vnode_store.wait_stored(ticket).await?;
                Metrics::count(&self.metrics.available.rows_fetched);
            }
        }
        Ok(())
    }
}

fn tree_unavailable() -> Error {
    Error::new(Reason::Overloaded, "the hash tree of the partition is being built: try again later")
}
