//! Anti-entropy: compares the copies of a partition in the background and repairs differences, also
//! for keys that are never read.
//!
//! Between two owners of a partition the one that stands first in its list asks. Differing rows are
//! sent, fetched and merged like any write of another replica. So it does not matter which side
//! does it, nor that rows change meanwhile. The ring may change, too: then the other refuses rows
//! that it does not keep any more, and a later round compares them.
//!
//! Promises: equal copies cost one question and one answer a round; the data moved are in
//! proportion to the differences; at most [`MENDING`] rows are under way at a time.
//! Never: removes a row (a merge only adds what is newer).

use super::hash_trees::{TreeId, which};
use super::held::held;
use super::join_set::JoinSet;
use super::key_owners::RingTarget;
use super::layout::{read_row_tail, row_tail};
use super::message::VnodeQuestion;
use super::slots::SlotSpan;
use super::span_rows::rows_of;
use super::vnode_ops::{KeyRef, WritePolicy};
use crate::Available;
use base::codec::{Malformed, Reader};
use base::error::corrupt;
use base::limits::FORWARD_MS_MAX;
use base::{Error, Key, NodeId, Reason, Result};
use logic::sync::{
    self, Effect, Event, Exchange, Leaf, ROWS_PER_PAGE_MAX, RowDigest, Side, Summary, SyncAnswer,
};
use runtime::metrics::Metrics;
use runtime::world;
use runtime::world::{rest, sleep};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Between two comparisons.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause between checks for a due comparison, if there was none.
const IDLE: Duration = Duration::from_secs(1);
/// Maximum number of differing rows that are sent at a time.
const MENDING: usize = 32;
/// Maximum number of bytes of keys in an answer with rows.
const PAGE_KEYS_BYTES_MAX: usize = 256 * 1024;

/// Direction in which differing rows are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncDirection {
    /// Each side gets the rows that it lacks.
    Both,
    /// Only the other side does.
    Other,
}

/// Compares, round by round, until the node stops.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.stop().clone();
    let round_ms = available.settings.anti_entropy_interval_ms;
    if round_ms == 0 {
        return;
    }
    let mut copies = Vec::new();
    let counts = &available.metrics.available;
    while !stop.is_cancelled() {
        let began = world::milliseconds();
        let now = available.schema.copies();
        if now != copies {
            // Trees are kept by numbers of copies: a bucket that changed its own is in the wrong
            // ones.
            available.vnode_store.forget_trees();
            copies = now;
        }
        let numbers: BTreeSet<u8> = copies.iter().map(|(_, copies)| *copies).collect();
        for (which, other) in available.pairs(&numbers) {
            if stop.is_cancelled() {
                return;
            }
            if !available.reaches(other.node) {
                Metrics::count(&counts.anti_entropy_failed);
                continue;
            }
            match available.compare_copies(which, other).await {
                Ok(Summary { rows: 0, .. }) => Metrics::count(&counts.anti_entropy_exchanges),
                Ok(Summary { rows, questions, complete }) => {
                    Metrics::count(&counts.anti_entropy_exchanges);
                    counts.rows_differed.fetch_add(rows, Ordering::Relaxed);
                    tracing::info!(
                    target: "node", partition = which.0.partition.0, copies = which.1,
                    other = %available.members.name_of(other.node), rows, questions, complete,
                    "two copies of a partition differed"
                    );
                }
                Err(error) => {
                    Metrics::count(&counts.anti_entropy_failed);
                    tracing::debug!(target: "node", %error, "two copies were not compared");
                }
            }
            sleep(PAUSE.min(Duration::from_millis(round_ms / 100))).await;
        }
        Metrics::count(&counts.anti_entropy_rounds);
        let left = (began + round_ms).saturating_sub(world::milliseconds());
        let least = IDLE.min(Duration::from_millis(round_ms));
        rest(&stop, Duration::from_millis(left).max(least)).await;
    }
}

impl Available {
    /// The copies that this node compares with another's.
    pub fn pairs(&self, numbers: &BTreeSet<u8>) -> Vec<(TreeId, RingTarget)> {
        let Some(ring) = self.schema.ring() else { return Vec::new() };
        let mut pairs = Vec::new();
        for span in SlotSpan::all(&ring) {
            let partition = span.partition;
            for copies in numbers {
                // Its receivers compare it, before it goes over.
                if !ring.receivers(partition, usize::from(*copies)).is_empty() {
                    continue;
                }
                let owners = ring.owners(partition, usize::from(*copies));
                // Only the one that stands first asks, so that no pair compares twice.
                let behind = owners.iter().skip_while(|node| **node != self.node).skip(1);
                let chosen = behind.map(|other| RingTarget { node: *other, epoch: ring.epoch() });
                pairs.extend(chosen.map(|other| ((span, *copies), other)));
            }
        }
        pairs
    }

    /// Compares one copy with another node's, and brings together what differs.
    pub async fn compare_copies(
        self: &Arc<Available>,
        which: TreeId,
        other: RingTarget,
    ) -> Result<Summary> {
        self.bring_together(which, other, SyncDirection::Both).await
    }

    /// Compares one copy with another node's, and sends the differing rows in the given direction.
    /// The summary is complete if every difference was found and has arrived.
    pub(super) async fn bring_together(
        self: &Arc<Available>,
        which: TreeId,
        other: RingTarget,
        toward: SyncDirection,
    ) -> Result<Summary> {
        let mut mended = true;
        self.whole_tree(which).await?;
        let mut exchange = Exchange::new();
        let mut event = Event::Begun;
        loop {
            let mut effects = Vec::new();
            // May be gone since the last step: all trees together have a limit. The next round
            // builds it.
            let looked = self.vnode_store.hashed(which, |tree| {
                exchange.step(event.clone(), tree, &mut effects);
            });
            looked.ok_or_else(forgotten)?;
            let mut differ = Vec::new();
            let mut next = None;
            for effect in effects {
                match effect {
                    Effect::Ask(question) => {
                        next = Some(self.ask_other(which, other.node, question).await)
                    }
                    Effect::List { leaves, after, upto } => {
                        next = Some(match self.rows_here(which, leaves, after, upto).await {
                            Ok(rows) => Event::Listed(rows),
                            Err(_) => Event::Failed,
                        });
                    }
                    Effect::Differs { key, at } => differ.push((key, at)),
                    Effect::Done(summary) => {
                        mended &= self.mend((other, toward), differ).await;
                        return Ok(Summary { complete: summary.complete && mended, ..summary });
                    }
                }
            }
            mended &= self.mend((other, toward), differ).await;
            event = next.unwrap_or(Event::Failed);
        }
    }

    async fn ask_other(
        self: &Arc<Available>,
        which: TreeId,
        other: NodeId,
        question: sync::SyncQuestion,
    ) -> Event {
        let within = Duration::from_millis(FORWARD_MS_MAX);
        let question = VnodeQuestion::Compare { which, question }.write();
        // It has to know as much of this partition as this node.
        let epoch = self.schema.changed_in(which.0.slots());
        let answer = self.ask_vnode_of(epoch, other, question, within).await;
        match answer.map(|bytes| SyncAnswer::read(&mut Reader::new(&bytes))) {
            Ok(Ok(answer)) => Event::Answered(answer),
            _ => Event::Failed,
        }
    }

    /// Answers another node's question of a comparison.
    pub(super) async fn compared(
        self: &Arc<Available>,
        which: TreeId,
        question: sync::SyncQuestion,
    ) -> Result<SyncAnswer> {
        self.whole_tree(which).await?;
        let answer = self.vnode_store.hashed(which, |tree| question.answer(tree));
        // The tree knows of rows that are not in the store yet, and the store holds rows that are
        // not synced yet. The asking node may drop its own copies by this answer: so it is given
        // once a loss of power could not take them back.
        if let Some(answer) = answer.ok_or_else(forgotten)? {
            self.vnode_store.synced().await?;
            return Ok(answer);
        }
        let sync::SyncQuestion::Rows { leaves, after } = question else {
            return Err(forgotten());
        };
        let available = self.clone();
        let answer = self.unhurried(move || {
            let (rows, more) = available.scan(which, &leaves, after.as_ref(), None, true)?;
            Ok(SyncAnswer::Rows { rows, more })
        });
        let answer = answer.await?;
        self.vnode_store.synced().await?;
        Ok(answer)
    }

    /// Builds the tree, unless there is one.
    async fn whole_tree(self: &Arc<Available>, which: TreeId) -> Result<()> {
        if self.vnode_store.hashed(which, |_| ()).is_some() {
            return Ok(());
        }
        let available = self.clone();
        self.unhurried(move || available.vnode_store.build(which)).await?;
        self.vnode_store.hashed(which, |_| ()).ok_or_else(forgotten)
    }

    async fn rows_here(
        self: &Arc<Available>,
        which: TreeId,
        leaves: Vec<Leaf>,
        after: Option<Key>,
        upto: Option<Key>,
    ) -> Result<Vec<RowDigest>> {
        let available = self.clone();
        self.unhurried(move || {
            let rows = available.scan(which, &leaves, after.as_ref(), upto.as_ref(), false)?;
            Ok(rows.0)
        })
        .await
    }

    /// The rows here that fall into these leaves, and whether more follow.
    fn scan(
        &self,
        of: TreeId,
        leaves: &[Leaf],
        after: Option<&Key>,
        upto: Option<&Key>,
        page: bool,
    ) -> Result<(Vec<RowDigest>, bool)> {
        let snapshot = self.trees.snapshot();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for row in rows_of(&*snapshot, of.0, after.map(|after| &after[..])) {
            let (key, row) = row?;
            let tail = row_tail(&key);
            if upto.is_some_and(|upto| tail > &upto[..]) {
                break;
            }
            let hash = super::hash_trees::hash(&key, &row);
            let wanted = leaves.binary_search(&hash.leaf).is_ok();
            if !wanted || which(&key, of.0.of, &self.vnode_store.copies) != Some(of) {
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

    /// Brings together what differs, a few rows at a time; whether all of it.
    async fn mend(
        self: &Arc<Available>,
        how: (RingTarget, SyncDirection),
        differ: Vec<(Key, Side)>,
    ) -> bool {
        let mut tasks = JoinSet::new();
        let (mut waiting, mut all) = (0, true);
        let mut differ = differ.into_iter();
        loop {
            while waiting < MENDING
                && let Some((tail, at)) = differ.next()
            {
                let available = self.clone();
                tasks.push(async move { available.mend_one(how, &tail, at).await });
                waiting += 1;
            }
            if waiting == 0 {
                return all;
            }
            if let Err(error) = tasks.next().await {
                tracing::debug!(target: "node", %error, "a row that differs stays so for now");
                all = false;
            }
            waiting -= 1;
        }
    }

    async fn mend_one(
        self: &Arc<Available>,
        (other, toward): (RingTarget, SyncDirection),
        tail: &Key,
        at: Side,
    ) -> Result<()> {
        let named = read_row_tail(tail).ok_or_else(|| corrupt(Malformed("row's key")))?;
        let (bucket, key) = named;
        let Some(properties) = self.schema.find(&bucket) else { return Ok(()) };
        // The sender may drop its copy afterwards, whatever risk the bucket accepts for its writes.
        let policy = WritePolicy { sync: true, ..WritePolicy::of(&properties) };
        let key_ref = KeyRef::new(bucket, key);
        let within = Duration::from_millis(FORWARD_MS_MAX);
        if at != Side::There
            && let Some(row) = self.vnode_store.read(&key_ref)?
        {
            let question =
                VnodeQuestion::Store { key_ref: key_ref.clone(), policy, hint: None, row };
            self.ask_chosen(other, question.write(), within).await?;
            Metrics::count(&self.metrics.available.rows_sent);
        }
        if at != Side::Here && toward == SyncDirection::Both {
            let question = VnodeQuestion::Fetch(key_ref.clone()).write();
            let answer = self.ask_chosen(other, question, within).await?;
            if answer.first() == Some(&1)
                && let Some(theirs) = held(Some(&answer.slice(1..)))?
            {
                // The partition may have gone over since the comparison began.
                self.takes_still(0, &key_ref)?;
                let ticket = self.vnode_store.merge(&key_ref, theirs.0, policy, None)?;
                self.vnode_store.settled(ticket).await?;
                Metrics::count(&self.metrics.available.rows_fetched);
            }
        }
        Ok(())
    }
}

fn forgotten() -> Error {
    Error::new(Reason::Overloaded, "the tree of the partition is being built: try again later")
}
