//! Reaping of tombstones: a row without living values is dropped when no node can bring back what
//! it deleted.
//!
//! A tombstone has to stay as long as any node may hold what it deleted: an owner that missed it, a
//! fallback with a hint, a request under way. So the first owner of each partition goes through its
//! rows. For each row without living values it asks *all* members of the cluster, twice: does every
//! owner have exactly this row, on disk, and no other node any? Between the two lies more time than
//! any request, repair or hint is under way. If all agree twice, the owners drop it. A member that
//! is away can't answer, so while one is away nothing is dropped.
//!
//! A dropped row leaves no gap through which a dot could be given twice: a vnode counts on above
//! all that it ever gave (`logic::causal::Minter`). Expired values are dropped on the way: the row
//! keeps their dots in its context, as with any other delete.
//!
//! Promises: a turn asks about at most [`BARE_ROWS_MAX`] rows, all in one question to each member;
//! reads take a tenth of the time, and less if nothing is dropped; a row that differs anywhere, or
//! changed in between, stays.
//! Never: drops a row while the ring changes; uses a wall clock to decide whether a row may be
//! dropped.

use super::hash_trees::hash;
use super::join_set::JoinSet;
use super::layout::{first_key, mark_key, read_row, read_row_key, slot_of};
use super::message::{BARE_ROWS_MAX, VnodeQuestion};
use super::vnode_ops::{KeyRef, WritePolicy, living};
use crate::Available;
use base::codec::Malformed;
use base::error::corrupt;
use base::limits::FORWARD_MS_MAX;
use base::{NodeId, Result};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use runtime::world::{self, rest};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Ratio of the rest after a turn, at least [`REST_MIN`], to the time that its reads took.
const RESTS: u32 = 9;
const REST_MIN: Duration = Duration::from_millis(10);
/// Pause between two rounds. If the last round dropped nothing, the pause is as many times as long
/// as that round's reads took, up to the second of these.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of rows, living ones included, that a turn reads, and of their bytes, plus a row.
const PAGE_ROWS_MAX: usize = 4_096;
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of the keys that a turn asks about; it asks about one key more.
const ASKED_BYTES_MAX: usize = 256 << 10;
/// Maximum number of rows that were agreed on once and wait for the second time, and bytes of the
/// store's memory for each of them.
const AGREED_MAX: u64 = 1 << 19;
const MEMORY_PER_AGREED: u64 = 256;

/// Tree key behind which the next page begins. `None`: at the first row.
type ReapCursor = Option<Bytes>;

/// Rows of a page without living values.
struct TombstonePage {
    bare: Vec<Tombstone>,
    /// True if expired values were found.
    expired: bool,
    next: ReapCursor,
}

/// A row without living values in a partition of which this node is the first owner.
struct Tombstone {
    key_ref: KeyRef,
    digest: u128,
}

/// A first agreement of all nodes on a row.
struct Agreement {
    since_ms: u64,
    /// The last round in which it was there still.
    round: u64,
}

/// Reaps turn by turn until the node stops.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.stop().clone();
    let mut reaper = Reaper::default();
    while !stop.is_cancelled() {
        let time = match reaper.turn(&available).await {
            Ok(time) => time,
            Err(error) => {
                tracing::debug!(target: "node", %error, "tombstones stay for now");
                PAUSE
            }
        };
        rest(&stop, time).await;
    }
}

#[derive(Default)]
struct Reaper {
    epoch: u64,
    place: ReapCursor,
    /// Number of the round, the time of its reads, and true if a row was dropped or agreed on.
    round: u64,
    read: Duration,
    goes_on: bool,
    /// Rows that all agreed on once, by the digest of key and row.
    agreed: BTreeMap<u128, Agreement>,
}

impl Reaper {
    /// Looks at one page; returns how long to rest afterwards.
    async fn turn(&mut self, available: &Arc<Available>) -> Result<Duration> {
        let Some(ring) = available.schema.ring() else { return Ok(PAUSE) };
        if ring.epoch() != self.epoch {
            // Other nodes own the rows now: what the former ones agreed on is void.
            *self = Reaper { epoch: ring.epoch(), ..Reaper::default() };
        }
        if ring.pending().is_some() {
            return Ok(PAUSE);
        }
        let began = world::nanoseconds();
        let (place, owner, asked) = (self.place.clone(), available.clone(), ring.clone());
        let page = available.unhurried(move || owner.bare_rows(&asked, place)).await?;
        let read = Duration::from_nanos(world::nanoseconds().saturating_sub(began));
        self.place = page.next;
        self.goes_on |= page.expired;
        let (first, second) = self.sorted(page.bare, available.settings.reap_after_ms);
        if Mutant::ReapsAlone.is_active() {
            let all: Vec<_> = first.into_iter().chain(second).collect();
            available.reap_here(named(&all), ring.epoch()).await?;
            return Ok(self.rest_after(read));
        }
        let room = (available.settings.memory_bytes_max / MEMORY_PER_AGREED).min(AGREED_MAX);
        let room = room.saturating_sub(self.agreed.len() as u64) as usize;
        let first: Vec<_> = first.into_iter().take(room).collect();
        let (round, agreed) = (self.round, available.all_agree(&ring, first).await?);
        let since_ms = world::milliseconds();
        self.agreed.extend(agreed.iter().map(|row| (row.digest, Agreement { since_ms, round })));
        let gone = available.all_agree(&ring, second).await?;
        self.goes_on |= !agreed.is_empty() || !gone.is_empty();
        available.reap(&ring, gone).await?;
        Ok(self.rest_after(read))
    }

    /// Returns the rows to ask about for the first time, and those for the second time.
    fn sorted(&mut self, rows: Vec<Tombstone>, after_ms: u64) -> (Vec<Tombstone>, Vec<Tombstone>) {
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

    /// Returns the rest after a turn whose reads took so long.
    fn rest_after(&mut self, read: Duration) -> Duration {
        self.read += read;
        if self.place.is_some() {
            return (read * RESTS).max(REST_MIN);
        }
        // A row that was not seen in the round that ends has changed, or is gone.
        self.agreed.retain(|_, agreed| agreed.round == self.round);
        self.round += 1;
        let read = std::mem::take(&mut self.read);
        match std::mem::take(&mut self.goes_on) {
            true => PAUSE,
            false => (read * RESTS).clamp(PAUSE, PAUSE_MAX),
        }
    }
}

fn named(rows: &[Tombstone]) -> Vec<(KeyRef, u128)> {
    rows.iter().map(|row| (row.key_ref.clone(), row.digest)).collect()
}

/// Filters the rows that were confirmed. `said` has one answer for each row.
fn those<T>(rows: Vec<T>, said: Vec<bool>) -> Vec<T> {
    rows.into_iter().zip(said).filter_map(|(row, said)| said.then_some(row)).collect()
}

impl Available {
    /// Reads a page of rows and drops expired values. Returns the rows without living values of
    /// which this node is the first owner.
    fn bare_rows(&self, ring: &Ring, after: ReapCursor) -> Result<TombstonePage> {
        let snapshot = self.trees.snapshot();
        let mut page = TombstonePage { bare: Vec::new(), expired: false, next: None };
        let low = after.map_or(Bound::Included(first_key()), Bound::Excluded);
        let keys = snapshot.range(low, Bound::Excluded(mark_key()), false);
        let (mut bytes, mut asked) = (0, 0);
        for (seen, found) in (1..).zip(keys) {
            let (tree_key, row) = found.map_err(store_error)?;
            bytes += tree_key.len() + row.len();
            // Hints and records lie between the rows.
            if slot_of(&tree_key).is_some() {
                let before = page.bare.len();
                self.look(ring, (&tree_key, row), &mut page)?;
                asked += if page.bare.len() > before { tree_key.len() } else { 0 };
            }
            let full = seen >= PAGE_ROWS_MAX || bytes > PAGE_BYTES_MAX;
            if full || asked > ASKED_BYTES_MAX || page.bare.len() >= BARE_ROWS_MAX {
                page.next = Some(tree_key);
                break;
            }
        }
        Ok(page)
    }

    fn look(
        &self,
        ring: &Ring,
        (tree_key, bytes): (&Bytes, Bytes),
        page: &mut TombstonePage,
    ) -> Result<()> {
        let row = read_row(&bytes).map_err(corrupt)?;
        let expired = row.values().any(|value| value.has_expired(world::unix_ms()));
        if living(&row) && !expired {
            return Ok(());
        }
        let named = read_row_key(tree_key).ok_or_else(|| corrupt(Malformed("row's key")))?;
        let (bucket, key) = named;
        let Some(properties) = self.schema.find(&bucket) else { return Ok(()) };
        let key_ref = KeyRef::new(bucket, key);
        if expired {
            page.expired = true;
            return self.vnode_store.expire(&key_ref, WritePolicy::of(&properties));
        }
        let owners = ring.owners(key_ref.partition(ring), properties.replication.n_val.into());
        if owners.first() == Some(&self.node) {
            page.bare.push(Tombstone { digest: hash(tree_key, &bytes).digest, key_ref });
        }
        Ok(())
    }

    /// Returns the rows that every owner has in exactly this form, and that no other node has.
    async fn all_agree(
        self: &Arc<Available>,
        ring: &Ring,
        rows: Vec<Tombstone>,
    ) -> Result<Vec<Tombstone>> {
        let known = self.members.cluster();
        let members = known.members.iter().map(|member| member.node);
        let mut all: BTreeSet<_> = members.chain(ring.layout().nodes().keys().copied()).collect();
        all.remove(&self.node);
        if rows.is_empty() || all.iter().any(|node| !self.reaches(*node)) {
            return Ok(Vec::new());
        }
        let epoch = ring.epoch();
        let here = self.have_just(named(&rows), epoch).await?;
        let rows = those(rows, here);
        let asked = |node: NodeId, row: &Tombstone| {
            !Mutant::ReapsWithoutGuests.is_active()
                || self.owners_of(ring, &row.key_ref).contains(&node)
        };
        let said = self.all_say_yes(all, epoch, &rows, asked, false).await;
        Ok(those(rows, said))
    }

    fn owners_of(&self, ring: &Ring, key_ref: &KeyRef) -> Vec<NodeId> {
        let copies = (self.vnode_store.copies)(&key_ref.bucket).unwrap_or_default();
        ring.owners(key_ref.partition(ring), copies.into())
    }

    /// Asks the nodes. Returns one answer for each row: true if every node in `asked` confirmed it.
    async fn all_say_yes(
        self: &Arc<Available>,
        all: impl IntoIterator<Item = NodeId>,
        epoch: u64,
        rows: &[Tombstone],
        asked: impl Fn(NodeId, &Tombstone) -> bool,
        drop: bool,
    ) -> Vec<bool> {
        let (mut tasks, mut waiting) = (JoinSet::new(), 0);
        for node in all {
            let places = (0..rows.len()).filter(|place| asked(node, &rows[*place]));
            let places: Vec<usize> = places.collect();
            let about =
                places.iter().map(|place| (rows[*place].key_ref.clone(), rows[*place].digest));
            let question = VnodeQuestion::Tombstones { epoch, rows: about.collect(), drop };
            if places.is_empty() {
                continue;
            }
            let available = self.clone();
            tasks.push(async move {
                let within = Duration::from_millis(FORWARD_MS_MAX);
                (
                    places,
                    available.ask_vnode(node, question.write(), within).await.unwrap_or_default(),
                )
            });
            waiting += 1;
        }
        let mut agreed = vec![true; rows.len()];
        for _ in 0..waiting {
            let (places, answer) = tasks.next().await;
            for (at, place) in places.into_iter().enumerate() {
                agreed[place] &= answer.get(at) == Some(&1);
            }
        }
        agreed
    }

    /// Makes all owners drop the rows: this node last, and only what the others have dropped, since
    /// it alone looks for these rows. An owner that keeps one sends it to the others again.
    async fn reap(self: &Arc<Available>, ring: &Ring, rows: Vec<Tombstone>) -> Result<()> {
        let owners: Vec<_> = rows.iter().map(|row| self.owners_of(ring, &row.key_ref)).collect();
        let mut others: BTreeSet<_> = owners.into_iter().flatten().collect();
        others.remove(&self.node);
        let asked =
            |node: NodeId, row: &Tombstone| self.owners_of(ring, &row.key_ref).contains(&node);
        let said = self.all_say_yes(others, ring.epoch(), &rows, asked, true).await;
        self.reap_here(named(&those(rows, said)), ring.epoch()).await.map(|_| ())
    }

    /// Answers whether rows may be dropped, or drops them.
    pub(super) async fn are_bare(
        self: &Arc<Available>,
        rows: Vec<(KeyRef, u128)>,
        epoch: u64,
        drop: bool,
    ) -> Result<Vec<bool>> {
        match drop {
            true => self.reap_here(rows, epoch).await,
            false => self.have_just(rows, epoch).await,
        }
    }

    /// `has_just` for each row, off the threads that answer; false for one that can't be read.
    async fn have_just(
        self: &Arc<Available>,
        rows: Vec<(KeyRef, u128)>,
        epoch: u64,
    ) -> Result<Vec<bool>> {
        let available = self.clone();
        let look = move || {
            let said = |row| available.has_just(row, epoch).unwrap_or(false);
            Ok(rows.iter().map(said).collect())
        };
        self.unhurried(look).await
    }

    /// Returns true if this node has exactly this row, durably, or, as no owner, none of the key.
    fn has_just(&self, (key_ref, digest): &(KeyRef, u128), epoch: u64) -> Result<bool> {
        let Some(ring) = self.schema.ring() else { return Ok(false) };
        if ring.epoch() != epoch || ring.pending().is_some() {
            return Ok(false);
        }
        let owns = self.owners_of(&ring, key_ref).contains(&self.node);
        let (state, tree_key) = (self.vnode_store.state(), key_ref.row_key());
        let (batch, row) = self.vnode_store.newest(&state, &tree_key)?;
        let found = row.map(|row| hash(&tree_key, &row).digest);
        // Batch 0: a change that is under way, of this row or a new one, is no agreement.
        Ok(batch == 0 && found == owns.then_some(*digest))
    }

    /// Drops rows, if they are those that were agreed on; of each whether it is gone, for good.
    async fn reap_here(
        self: &Arc<Available>,
        rows: Vec<(KeyRef, u128)>,
        epoch: u64,
    ) -> Result<Vec<bool>> {
        let available = self.clone();
        let dropped = move || {
            let (mut gone, mut last) = (Vec::with_capacity(rows.len()), None);
            for row in &rows {
                // A row that can't be dropped now stays. The results of the others are reported.
                let ticket = available.drop_just(row, epoch).unwrap_or(None);
                gone.push(ticket.is_some());
                last = ticket.or(last);
            }
            Ok((gone, last))
        };
        let (gone, last) = self.unhurried(dropped).await?;
        if let Some(ticket) = last {
            self.vnode_store.settled(ticket).await?;
        }
        Ok(gone)
    }

    /// Drops one row, if it is the one that was agreed on; the ticket.
    fn drop_just(&self, row: &(KeyRef, u128), epoch: u64) -> Result<Option<u64>> {
        let (tree_key, is_there) = (row.0.row_key(), self.has_just(row, epoch)?);
        let mut guard = self.vnode_store.admit()?;
        // Again, under the lock of the change: a write may have come since `has_just`.
        let (_, newest) = self.vnode_store.newest(&guard, &tree_key)?;
        let same = newest.is_some_and(|newest| hash(&tree_key, &newest).digest == row.1);
        let drop = is_there && same;
        Ok(drop.then(|| self.vnode_store.change(&mut guard, [(tree_key, None)], true)))
    }
}

#[cfg(test)]
mod tests;
