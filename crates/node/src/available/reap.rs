//! Rows without living values go, when nobody can bring back what they deleted.
//!
//! A tombstone has to stay as long as anyone may still hold what it deleted: an owner that missed
//! it, a fallback with a hint, a request that is under way. So the first owner of each partition
//! goes through its rows, and of each that holds nothing living it asks *all* members of the
//! cluster, twice: does every owner have exactly this row, on disk, and nobody else any? Between
//! the two lies more time than any request, repair or hint is under way. Agreed twice, the owners
//! drop it. Nobody who is away can be asked, so while a member is away nothing goes.
//!
//! What goes leaves no gap for dots to be given twice: a vnode counts on above all it ever gave
//! (`logic::causal::Minter`). Values whose time is over are dropped on the way: the row has heard
//! of them and holds them no more, which is a delete like any other.
//!
//! Promises: at most [`PAGE`] rows are read in a turn, and as many asked about; a row that differs
//! anywhere, or changed in between, stays.
//! Never: drops a row while the ring changes; asks a clock on the wall whether a row may go.

use super::crowd::Crowd;
use super::hashes::hash;
use super::layout::{first_key, mark_key, read_row, read_row_key, slot_of};
use super::letter::Question;
use super::list::unhurried;
use super::local::{Rules, Spot, living};
use crate::Inner;
use crate::consistent::view::damaged;
use crate::flaws::{Flaw, flawed};
use crate::keeper::store_error;
use crate::world::{self, rest};
use base::codec::Malformed;
use base::limits::FORWARD_MS_MAX;
use base::{NodeId, Result};
use bytes::Bytes;
use logic::ring::Ring;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Between two turns.
const PAUSE: Duration = Duration::from_secs(1);
/// Rows that are read in a turn.
const PAGE: usize = 512;
/// Rows that were agreed on once and wait for the second time.
const AGREED_MAX: usize = 65_536;

/// Rows to be looked at, and where the next ones begin: behind a tree key, or at the first.
type Turn = (Vec<Bare>, Place);
type Place = Option<Bytes>;

/// A row without living values, of whose partition this node is the first owner.
struct Bare {
    tree_key: Bytes,
    spot: Spot,
    digest: u128,
}

/// Goes through the rows, turn by turn, until the node stops.
pub(crate) async fn tend(inner: Arc<Inner>, mut stop: watch::Receiver<bool>) {
    let mut reaper = Reaper::default();
    while !*stop.borrow_and_update() {
        if let Err(error) = reaper.turn(&inner, &stop).await {
            tracing::debug!(target: "node", %error, "tombstones stay for now");
        }
        rest(&mut stop, PAUSE).await;
    }
}

#[derive(Default)]
struct Reaper {
    epoch: u64,
    place: Place,
    /// What all agreed on once, and when, milliseconds.
    agreed: BTreeMap<Bytes, (u128, u64)>,
}

impl Reaper {
    async fn turn(&mut self, inner: &Arc<Inner>, stop: &watch::Receiver<bool>) -> Result<()> {
        let Some(ring) = inner.catalog.available.ring() else { return Ok(()) };
        if ring.epoch() != self.epoch {
            *self = Reaper { epoch: ring.epoch(), ..Reaper::default() };
        }
        if ring.pending().is_some() {
            return Ok(());
        }
        let (place, owner, asked) = (self.place.clone(), inner.clone(), ring.clone());
        let (rows, next) = unhurried(move || owner.bare_rows(&asked, place)).await?;
        self.place = next;
        for bare in rows {
            if *stop.borrow() {
                break;
            }
            self.look(inner, &ring, bare).await?;
        }
        Ok(())
    }

    async fn look(&mut self, inner: &Arc<Inner>, ring: &Ring, bare: Bare) -> Result<()> {
        let Bare { tree_key, spot, digest } = bare;
        if flawed(Flaw::ReapsAlone) {
            return inner.reap_here(&spot, ring.epoch(), digest).await.map(|_| ());
        }
        let known = self.agreed.get(&tree_key).filter(|(known, _)| *known == digest);
        match known.map(|(_, since)| *since) {
            Some(since) if world::milliseconds() < since + inner.settings.reap_after_ms => {}
            Some(_) => {
                self.agreed.remove(&tree_key);
                if inner.all_agree(ring, &spot, digest).await {
                    inner.reap(ring, &spot, digest).await?;
                }
            }
            None => {
                self.agreed.remove(&tree_key);
                if self.agreed.len() < AGREED_MAX && inner.all_agree(ring, &spot, digest).await {
                    self.agreed.insert(tree_key, (digest, world::milliseconds()));
                }
            }
        }
        Ok(())
    }
}

impl Inner {
    /// A page of rows: what in them has expired is dropped; those of which nothing living is left,
    /// and for which this node speaks.
    fn bare_rows(&self, ring: &Ring, after: Place) -> Result<Turn> {
        let snapshot = self.trees.snapshot();
        let mut bare = Vec::new();
        let low = after.map_or(Bound::Included(first_key()), Bound::Excluded);
        let keys = snapshot.range(low, Bound::Excluded(mark_key()), false);
        for (seen, found) in (1..).zip(keys) {
            let (tree_key, bytes) = found.map_err(store_error)?;
            // Hints and records lie between the rows.
            if slot_of(&tree_key).is_some() {
                bare.extend(self.bare(ring, (tree_key.clone(), bytes))?);
            }
            if seen == PAGE {
                return Ok((bare, Some(tree_key)));
            }
        }
        Ok((bare, None))
    }

    fn bare(&self, ring: &Ring, (tree_key, bytes): (Bytes, Bytes)) -> Result<Option<Bare>> {
        let row = read_row(&bytes).map_err(damaged)?;
        let expired = row.values().any(|value| value.has_expired(world::unix_ms()));
        if living(&row) && !expired {
            return Ok(None);
        }
        let named = read_row_key(&tree_key).ok_or_else(|| damaged(Malformed("row's key")))?;
        let (bucket, key) = named;
        let Some(properties) = self.catalog.available.find(&bucket) else { return Ok(None) };
        let spot = Spot::new(bucket, key);
        if expired {
            self.shelf.expire(&spot, Rules::of(&properties))?;
            return Ok(None);
        }
        let owners = ring.owners(spot.partition(ring), properties.replication.n_val.into());
        let digest = hash(&tree_key, &bytes).digest;
        let speaks = owners.first() == Some(&self.node);
        Ok(speaks.then_some(Bare { tree_key, spot, digest }))
    }

    /// Whether every owner has exactly this row, and nobody else has any.
    async fn all_agree(self: &Arc<Inner>, ring: &Ring, spot: &Spot, digest: u128) -> bool {
        let known = self.catalog.cluster();
        let members = known.members.iter().map(|member| member.node);
        let mut all: BTreeSet<_> = members.chain(ring.layout().nodes().keys().copied()).collect();
        if flawed(Flaw::ReapsWithoutGuests) {
            all = self.owners_of(ring, spot).into_iter().collect();
        }
        all.remove(&self.node);
        if all.iter().any(|node| !self.reaches(*node)) {
            return false;
        }
        let here = self.has_just(spot, ring.epoch(), digest);
        here.unwrap_or(false) && self.all_say_yes(all, ring.epoch(), spot, digest, false).await
    }

    fn owners_of(&self, ring: &Ring, spot: &Spot) -> Vec<NodeId> {
        let copies = (self.shelf.copies)(&spot.bucket).unwrap_or_default();
        ring.owners(spot.partition(ring), copies.into())
    }

    async fn all_say_yes(
        self: &Arc<Inner>,
        all: impl IntoIterator<Item = NodeId>,
        epoch: u64,
        spot: &Spot,
        digest: u128,
        drop: bool,
    ) -> bool {
        let (mut crowd, mut waiting) = (Crowd::new(), 0);
        for node in all {
            let (inner, spot) = (self.clone(), spot.clone());
            let question = Question::Bare { spot, epoch, digest, drop };
            crowd.push(async move {
                let within = Duration::from_millis(FORWARD_MS_MAX);
                let answer = inner.ask_vnode(node, question.write(), within).await;
                answer.is_ok_and(|bytes| bytes.first() == Some(&1))
            });
            waiting += 1;
        }
        let mut agreed = true;
        for _ in 0..waiting {
            agreed &= crowd.next().await;
        }
        agreed
    }

    /// All owners drop the row. One that does not sends it to the others again, and it is looked at
    /// anew.
    async fn reap(self: &Arc<Inner>, ring: &Ring, spot: &Spot, digest: u128) -> Result<()> {
        let mut owners = self.owners_of(ring, spot);
        owners.retain(|node| *node != self.node);
        if self.all_say_yes(owners, ring.epoch(), spot, digest, true).await {
            self.reap_here(spot, ring.epoch(), digest).await?;
        }
        Ok(())
    }

    /// An answer to whoever asks whether a row may go, or that it go.
    pub(super) async fn is_bare(
        &self,
        spot: &Spot,
        (epoch, digest): (u64, u128),
        drop: bool,
    ) -> Result<bool> {
        match drop {
            true => self.reap_here(spot, epoch, digest).await,
            false => self.has_just(spot, epoch, digest),
        }
    }

    /// Whether this node has of a key just the row of this digest, firm, if it is an owner, and
    /// nothing otherwise.
    fn has_just(&self, spot: &Spot, epoch: u64, digest: u128) -> Result<bool> {
        let Some(ring) = self.catalog.available.ring() else { return Ok(false) };
        if ring.epoch() != epoch || ring.pending().is_some() {
            return Ok(false);
        }
        let owns = self.owners_of(&ring, spot).contains(&self.node);
        let (state, tree_key) = (self.shelf.state(), spot.row_key());
        let (batch, row) = self.shelf.newest(&state, &tree_key)?;
        let found = row.map(|row| hash(&tree_key, &row).digest);
        Ok(batch == 0 && found == owns.then_some(digest))
    }

    /// Drops a row, if it is the one that was agreed on; whether it is gone, for good.
    async fn reap_here(&self, spot: &Spot, epoch: u64, digest: u128) -> Result<bool> {
        if !self.has_just(spot, epoch, digest)? {
            return Ok(false);
        }
        let tree_key = spot.row_key();
        let ticket = {
            let mut guard = self.shelf.admit()?;
            let (_, row) = self.shelf.newest(&guard, &tree_key)?;
            if row.map(|row| hash(&tree_key, &row).digest) != Some(digest) {
                return Ok(false);
            }
            self.shelf.change(&mut guard, [(tree_key, None)], true)
        };
        self.shelf.settled(ticket).await?;
        Ok(true)
    }
}
