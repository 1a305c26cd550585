//! Reaping of tombstones: a row without live values is dropped when no node can bring back a value
//! that it deleted.
//!
//! A tombstone must stay as long as any node may hold a value that it deleted: an owner that missed
//! it, a fallback with a hint, a request in flight. So the first owner of each partition scans its
//! rows. For each row without live values it asks *all* members of the cluster, twice: does every
//! owner have exactly this row, on disk, and no other node any? The time between the two is longer
//! than any request, repair or hint can be in flight. If all agree twice, the owners drop it. A
//! member that is down can't answer, so while one is down nothing is dropped.
//!
//! A dropped row can't cause a duplicate dot: a vnode's counter stays above all dots that it ever
//! created (`logic::causal::Minter`). The scan also drops expired values: the row keeps their dots
//! in its context, as with any other delete.
//!
//! Promises: a turn asks about at most [`TOMBSTONES_MAX`] rows, all in one question to each member;
//! reads take a tenth of the time, and less if nothing is dropped; a row that differs on any node,
//! or changed in between, stays.
//! Never: drops a row while the ring changes, or by a wall clock.

use super::message::{TOMBSTONES_MAX, VnodeQuestion};
use super::row_change::RowTransition;
use super::vnode_ops::{KeyRef, WritePolicy};
use crate::Available;
use base::codec::Malformed;
use base::error::corrupt;
use base::limits::FORWARD_MS_MAX;
use base::{NodeId, Result};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::join_set::JoinSet;
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use runtime::world::{self, sleep_or_cancelled, until_next};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::hash_trees::hash;
use vnode_rows::layout::{has_live_value, read_row, read_row_key, slot_keys, slot_of};

/// Ratio of the rest after a turn, at least [`REST_MIN`], to the time that its reads took.
const REST_FACTOR: u32 = 9;
const REST_MIN: Duration = Duration::from_millis(10);
/// Pause between two rounds. After a round that dropped nothing, it is [`REST_FACTOR`] times the
/// time of that round's reads, at most [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of rows that a turn reads, and of their bytes; one row may exceed the latter.
const PAGE_ROWS_MAX: usize = 4_096;
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of the keys that a turn asks about; one key may exceed it.
const ASKED_BYTES_MAX: usize = 256 << 10;
/// Maximum number of rows with a first agreement, and bytes of the store's memory per such row.
const AGREED_MAX: u64 = 1 << 19;
const MEMORY_PER_AGREED: u64 = 256;

/// Tree key after which the next page begins. `None`: at the first row.
type ReapCursor = Option<Bytes>;

/// Rows without live values of one page.
struct TombstonePage {
    rows: Vec<Tombstone>,
    /// True if expired values were found.
    expired: bool,
    next: ReapCursor,
}

/// Row without live values in a partition of which this node is the first owner.
struct Tombstone {
    key_ref: KeyRef,
    digest: u128,
}

/// First agreement of all nodes on a row.
struct Agreement {
    since_ms: u64,
    /// Last round in which the row was unchanged.
    round: u64,
}

/// Reaps turn by turn until the node stops.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.cancellation_token().clone();
    let mut reaper = Reaper::default();
    while !stop.is_cancelled() {
        let time = reaper.turn(&available).await.unwrap_or_else(|error| {
            tracing::debug!(target: "node", %error, "tombstones could not be reaped yet");
            PAUSE
        });
        // Between rounds it wakes together with other loops.
        let time = if time == PAUSE { until_next(PAUSE) } else { time };
        sleep_or_cancelled(&stop, time).await;
    }
}

/// Progress of the reaper over the rows of this node.
#[derive(Default)]
pub(super) struct Reaper {
    epoch: u64,
    cursor: ReapCursor,
    /// Number of the round, the time of its reads, and true if it made any progress.
    round: u64,
    read_time: Duration,
    made_progress: bool,
    /// Rows with a first agreement, by the digest of key and row.
    agreed: BTreeMap<u128, Agreement>,
}

impl Reaper {
    /// Processes one page; returns the rest afterwards.
    pub(super) async fn turn(&mut self, available: &Arc<Available>) -> Result<Duration> {
        let Some(ring) = available.schema.ring() else { return Ok(PAUSE) };
        if ring.epoch() != self.epoch {
            // The owners have changed: agreements of the former ones are void.
            *self = Reaper { epoch: ring.epoch(), ..Reaper::default() };
        }
        if ring.pending().is_some() {
            return Ok(PAUSE);
        }
        let began = world::nanoseconds();
        let (cursor, node, ring_copy) = (self.cursor.clone(), available.clone(), ring.clone());
        let page =
            available.read_blocking(move || node.read_tombstones(&ring_copy, cursor)).await?;
        let read_time = Duration::from_nanos(world::nanoseconds().saturating_sub(began));
        self.cursor = page.next;
        self.made_progress |= page.expired;
        let (first, second) = self.split(page.rows, available.settings.reap_after_ms);
        if Mutant::ReapWithoutQuery.is_active() {
            let all: Vec<_> = first.into_iter().chain(second).collect();
            available.reap_local(key_digests(&all), ring.epoch()).await?;
            return Ok(self.rest_after(read_time));
        }
        let free = (available.settings.memory_bytes_max / MEMORY_PER_AGREED).min(AGREED_MAX);
        let free = free.saturating_sub(self.agreed.len() as u64) as usize;
        let first: Vec<_> = first.into_iter().take(free).collect();
        let (round, agreed) = (self.round, available.agreed_by_all(&ring, first).await?);
        let since_ms = world::milliseconds();
        self.agreed.extend(agreed.iter().map(|row| (row.digest, Agreement { since_ms, round })));
        let reapable = available.agreed_by_all(&ring, second).await?;
        self.made_progress |= !agreed.is_empty() || !reapable.is_empty();
        available.reap(&ring, reapable).await?;
        Ok(self.rest_after(read_time))
    }

    /// Returns the rows to ask about for the first time, and those for the second time.
    fn split(&mut self, rows: Vec<Tombstone>, after_ms: u64) -> (Vec<Tombstone>, Vec<Tombstone>) {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for row in rows {
            match self.agreed.get_mut(&row.digest) {
                None => first.push(row),
                Some(agreed) if world::milliseconds() < agreed.since_ms + after_ms => {
                    agreed.round = self.round;
                }
                Some(_) => {
                    self.agreed.remove(&row.digest);
                    second.push(row);
                }
            }
        }
        (first, second)
    }

    /// Returns the rest after a turn with this time of reads.
    fn rest_after(&mut self, read_time: Duration) -> Duration {
        self.read_time += read_time;
        if self.cursor.is_some() {
            return (read_time * REST_FACTOR).max(REST_MIN);
        }
        // A row that was not found in this round has changed or was removed.
        self.agreed.retain(|_, agreed| agreed.round == self.round);
        self.round += 1;
        let read_time = std::mem::take(&mut self.read_time);
        match std::mem::take(&mut self.made_progress) {
            true => PAUSE,
            false => (read_time * REST_FACTOR).clamp(PAUSE, PAUSE_MAX),
        }
    }
}

fn key_digests(rows: &[Tombstone]) -> Vec<(KeyRef, u128)> {
    rows.iter().map(|row| (row.key_ref.clone(), row.digest)).collect()
}

/// Returns the confirmed rows. `answers` has one answer for each row.
fn confirmed<T>(rows: Vec<T>, answers: Vec<bool>) -> Vec<T> {
    rows.into_iter().zip(answers).filter_map(|(row, is_yes)| is_yes.then_some(row)).collect()
}

impl Available {
    /// Reads a page of rows and drops expired values. Returns the rows without live values of which
    /// this node is the first owner.
    fn read_tombstones(&self, ring: &Ring, after: ReapCursor) -> Result<TombstonePage> {
        let snapshot = self.trees.snapshot();
        let mut page = TombstonePage { rows: Vec::new(), expired: false, next: None };
        let (low, high) = slot_keys(after);
        let keys = snapshot.range(low, high, false);
        let (mut bytes, mut asked_bytes) = (0, 0);
        for (seen, found) in (1..).zip(keys) {
            let (tree_key, row) = found.map_err(store_error)?;
            bytes += tree_key.len() + row.len();
            // The range also contains hints and records.
            if slot_of(&tree_key).is_some() {
                let before = page.rows.len();
                self.inspect_row(ring, (&tree_key, row), &mut page)?;
                asked_bytes += if page.rows.len() > before { tree_key.len() } else { 0 };
            }
            let full = seen >= PAGE_ROWS_MAX || bytes > PAGE_BYTES_MAX;
            if full || asked_bytes > ASKED_BYTES_MAX || page.rows.len() >= TOMBSTONES_MAX {
                page.next = Some(tree_key);
                break;
            }
        }
        Ok(page)
    }

    fn inspect_row(
        &self,
        ring: &Ring,
        (tree_key, bytes): (&Bytes, Bytes),
        page: &mut TombstonePage,
    ) -> Result<()> {
        let row = read_row(&bytes).map_err(corrupt)?;
        let expired = row.values().any(|value| value.has_expired(world::unix_ms()));
        if has_live_value(&row) && !expired {
            return Ok(());
        }
        let pair = read_row_key(tree_key).ok_or_else(|| corrupt(Malformed("row's key")))?;
        let (bucket, key) = pair;
        let Some(properties) = self.schema.find(&bucket) else { return Ok(()) };
        let key_ref = KeyRef::new(bucket, key);
        if expired {
            page.expired = true;
            return self.vnode_store.expire(&key_ref, WritePolicy::from_properties(&properties));
        }
        let owners = ring.owners(key_ref.partition(ring), properties.replication.n_val.into());
        if owners.first() == Some(&self.node) {
            page.rows.push(Tombstone { digest: hash(tree_key, &bytes).digest, key_ref });
        }
        Ok(())
    }

    /// Returns the rows that every owner has in exactly this form, and that no other node has.
    async fn agreed_by_all(
        self: &Arc<Available>,
        ring: &Ring,
        rows: Vec<Tombstone>,
    ) -> Result<Vec<Tombstone>> {
        let cluster = self.members.cluster();
        let members = cluster.members.iter().map(|member| member.node);
        let mut all: BTreeSet<_> = members.chain(ring.layout().nodes().keys().copied()).collect();
        all.remove(&self.node);
        if rows.is_empty() || all.iter().any(|node| !self.reaches(*node)) {
            return Ok(Vec::new());
        }
        let epoch = ring.epoch();
        let local_answers = self.have_exactly(key_digests(&rows), epoch).await?;
        let rows = confirmed(rows, local_answers);
        let is_asked = |node: NodeId, row: &Tombstone| {
            !Mutant::ReapWithoutFallbacks.is_active()
                || self.owners_of(ring, &row.key_ref).contains(&node)
        };
        let answers = self.ask_all(all, epoch, &rows, is_asked, false).await;
        Ok(confirmed(rows, answers))
    }

    fn owners_of(&self, ring: &Ring, key_ref: &KeyRef) -> Vec<NodeId> {
        let copies = (self.vnode_store.copies)(&key_ref.bucket).unwrap_or_default();
        ring.owners(key_ref.partition(ring), copies.into())
    }

    /// Asks the nodes. Returns for each row true if every node with `is_asked` confirmed it.
    async fn ask_all(
        self: &Arc<Available>,
        all: impl IntoIterator<Item = NodeId>,
        epoch: u64,
        rows: &[Tombstone],
        is_asked: impl Fn(NodeId, &Tombstone) -> bool,
        drop: bool,
    ) -> Vec<bool> {
        let (mut tasks, mut waiting) = (JoinSet::new(), 0);
        for node in all {
            let indexes = (0..rows.len()).filter(|index| is_asked(node, &rows[*index]));
            let indexes: Vec<usize> = indexes.collect();
            let asked_rows =
                indexes.iter().map(|index| (rows[*index].key_ref.clone(), rows[*index].digest));
            let question = VnodeQuestion::Tombstones { epoch, rows: asked_rows.collect(), drop };
            if indexes.is_empty() {
                continue;
            }
            let available = self.clone();
            tasks.push(async move {
                let within = Duration::from_millis(FORWARD_MS_MAX);
                (
                    indexes,
                    available.ask_vnode(node, question.write(), within).await.unwrap_or_default(),
                )
            });
            waiting += 1;
        }
        let mut agreed = vec![true; rows.len()];
        for _ in 0..waiting {
            let (indexes, answer) = tasks.next().await;
            for (at, index) in indexes.into_iter().enumerate() {
                agreed[index] &= answer.get(at) == Some(&1);
            }
        }
        agreed
    }

    /// Makes all owners drop the rows: this node last, and only rows that the others have dropped,
    /// since it alone scans for them. An owner that keeps a row sends it to the others again.
    async fn reap(self: &Arc<Available>, ring: &Ring, rows: Vec<Tombstone>) -> Result<()> {
        let owners: Vec<_> = rows.iter().map(|row| self.owners_of(ring, &row.key_ref)).collect();
        let mut other_owners: BTreeSet<_> = owners.into_iter().flatten().collect();
        other_owners.remove(&self.node);
        let is_asked =
            |node: NodeId, row: &Tombstone| self.owners_of(ring, &row.key_ref).contains(&node);
        let answers = self.ask_all(other_owners, ring.epoch(), &rows, is_asked, true).await;
        self.reap_local(key_digests(&confirmed(rows, answers)), ring.epoch()).await.map(|_| ())
    }

    /// Checks whether rows may be dropped, or drops them. Returns one answer for each row.
    pub(super) async fn check_tombstones(
        self: &Arc<Available>,
        rows: Vec<(KeyRef, u128)>,
        epoch: u64,
        drop: bool,
    ) -> Result<Vec<bool>> {
        match drop {
            true => self.reap_local(rows, epoch).await,
            false => self.have_exactly(rows, epoch).await,
        }
    }

    /// Runs `has_exactly` for each row on a blocking thread. False for a row that can't be read.
    async fn have_exactly(
        self: &Arc<Available>,
        rows: Vec<(KeyRef, u128)>,
        epoch: u64,
    ) -> Result<Vec<bool>> {
        let available = self.clone();
        let check = move || {
            let answer = |row| available.has_exactly(row, epoch).unwrap_or(false);
            Ok(rows.iter().map(answer).collect())
        };
        self.read_blocking(check).await
    }

    /// Returns true if this node has exactly this row, durably, or, as no owner, none of the key.
    fn has_exactly(&self, (key_ref, digest): &(KeyRef, u128), epoch: u64) -> Result<bool> {
        let Some(ring) = self.schema.ring() else { return Ok(false) };
        if ring.epoch() != epoch || ring.pending().is_some() {
            return Ok(false);
        }
        let owns = self.owners_of(&ring, key_ref).contains(&self.node);
        let (state, tree_key) = (self.vnode_store.state(), key_ref.row_key());
        let (batch, row) = self.vnode_store.newest(&state, &tree_key)?;
        let found = row.map(|row| hash(&tree_key, &row).digest);
        // Batch 0: applied. A row with a pending change is no agreement.
        Ok(batch == 0 && found == owns.then_some(*digest))
    }

    /// Drops rows that are exactly those agreed on. Returns true for each that is durably dropped.
    async fn reap_local(
        self: &Arc<Available>,
        rows: Vec<(KeyRef, u128)>,
        epoch: u64,
    ) -> Result<Vec<bool>> {
        let available = self.clone();
        let drop_rows = move || {
            let (mut dropped, mut last) = (Vec::with_capacity(rows.len()), None);
            for row in &rows {
                // A row that can't be dropped stays. The results of the others are reported.
                let ticket = available.drop_exactly(row, epoch).unwrap_or(None);
                dropped.push(ticket.is_some());
                last = ticket.or(last);
            }
            Ok((dropped, last))
        };
        let (dropped, last) = self.read_blocking(drop_rows).await?;
        if let Some(ticket) = last {
            self.vnode_store.wait_stored(ticket).await?;
        }
        Ok(dropped)
    }

    /// Drops one row if it is exactly the one agreed on. Returns the ticket. `None`: it stays.
    fn drop_exactly(&self, row: &(KeyRef, u128), epoch: u64) -> Result<Option<u64>> {
        let (tree_key, is_there) = (row.0.row_key(), self.has_exactly(row, epoch)?);
        let mut guard = self.vnode_store.admit()?;
        // Checked again under the lock of the change: a write may have come since `has_exactly`.
        let (_, newest) = self.vnode_store.newest(&guard, &tree_key)?;
        let is_same = |newest: &Bytes| is_there && hash(&tree_key, newest).digest == row.1;
        let Some(before) = newest.filter(is_same) else { return Ok(None) };
        let transition = RowTransition::of_bytes(tree_key, Some(&before), None);
        Ok(Some(self.vnode_store.change_row_alone(&mut guard, transition, true)))
    }
}

#[cfg(test)]
mod tests;
