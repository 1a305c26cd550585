//! A former owner lets go of a partition's rows: after the partition has gone over, and a while
//! more, in which nodes that have not heard of it yet still find here what they look for.
//!
//! First it sees to it that each owner has whatever is here: a write may have been brought here and
//! nowhere else. So it compares with each of them, brings them what they lack, and then takes away
//! what is still as it was before the comparison began. What was written since stays for the next
//! round. When nothing is left it tells the directory; until then nobody may forget what was
//! deleted in this partition, or a row from here would bring it back.
//!
//! As long as the directory was not told, it is sent writes (`epoch_check.rs`), and until it hears
//! of that itself it may take one: from a coordinator that knows of something newer elsewhere on
//! the ring, and of this not yet. So once it has heard it looks again. From then on it refuses
//! whoever knows less, and who knows as much does not send. Should it fall before, it looks when it
//! has started (`orphan_sweep.rs`).
//!
//! The vnodes' records stay for good, and name other actors from now on: the dots it gave are on
//! rows that others keep, and should the partition come back, no row that comes with it is mistaken
//! for one that was lost here.

use super::orphan_sweep::OrphanSweep;
use crate::Available;
use crate::anti_entropy::SyncDirection;
use crate::hash_trees::{TreeId, which};
use crate::key_owners::RingTarget;
use crate::layout::{record_key, row_tail};
use crate::slots::{Slot, SlotSpan};
use crate::span_rows::rows_of;
use crate::timing::unhurried;
use base::limits::FORWARD_MS_MAX;
use base::{Error, NodeId, Partition, Reason, Result};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::mutants::{Flaw, flawed};
use runtime::world;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use store::Snapshot;
use tokio::sync::watch;

/// So many rows are taken away at a time.
const ROWS: usize = 256;
/// Where all was let go of it is looked once more after this, milliseconds; and it is tried again
/// where another ring was learned.
const LOOK_MS: u64 = 200;
/// What could not be let go of is tried again after this, milliseconds.
const AGAIN_MS: u64 = 1_000;

/// What this node is to let go of.
#[derive(Default)]
pub(super) struct Cleanup {
    /// Partitions are those of a ring of so many.
    of: u32,
    /// And when.
    due: BTreeMap<Partition, u64>,
    /// Whose vnode has become another actor.
    renewed: BTreeSet<Partition>,
    /// Of which rows lie here that nobody knows of (`orphan_sweep.rs`).
    strays: BTreeSet<Partition>,
    sweep: OrphanSweep,
}

impl Cleanup {
    /// What it is time for; `grace_ms`: behind the moment in which this node heard of it.
    pub(super) fn next(&mut self, ring: &Ring, me: NodeId, grace_ms: u64) -> Option<Partition> {
        let now = world::milliseconds();
        if self.of != ring.partitions() {
            *self = Cleanup { of: ring.partitions(), ..Cleanup::default() };
        }
        let left: BTreeSet<_> = ring.left_at(me).chain(self.strays.iter().copied()).collect();
        self.due.retain(|partition, _| left.contains(partition));
        self.renewed.retain(|partition| left.contains(partition));
        for partition in left {
            self.due.entry(partition).or_insert(now + grace_ms);
        }
        let due = self.due.iter().find(|(_, due)| **due <= now);
        due.map(|(partition, _)| *partition)
    }

    /// For which ring it was looked, and is to be looked, for strays.
    pub(super) fn sweep(&mut self) -> &mut OrphanSweep {
        &mut self.sweep
    }

    /// Rows that nobody knows of lie in these partitions. What is looked at once more still is.
    pub(super) fn found(&mut self, strays: BTreeSet<Partition>) {
        self.strays.extend(strays);
    }

    /// Nothing of a partition is left here, and the directory was told so. Until this node hears
    /// that everybody knows, it may be brought what nobody lets go of: it looks once more.
    pub(super) fn again(&mut self, partition: Partition) {
        if !flawed(Flaw::LooksOnce) {
            self.strays.insert(partition);
            self.due.insert(partition, world::milliseconds() + LOOK_MS);
        }
    }

    /// Nothing of a partition is left here.
    pub(super) fn is_done(&mut self, partition: Partition) {
        self.strays.remove(&partition);
    }

    /// Not now; soon, if another ring is known by now.
    pub(super) fn later(&mut self, partition: Partition, cleared: &Result<bool>) {
        let changed = cleared.as_ref().is_err_and(|error| error.reason == Reason::Changed);
        let wait_ms = if changed { LOOK_MS } else { AGAIN_MS };
        self.due.insert(partition, world::milliseconds() + wait_ms);
    }
}

/// Rows as they were, and which of them come next.
struct Reading {
    snapshot: Box<dyn Snapshot>,
    after: Option<Bytes>,
    rows: Vec<(Bytes, Bytes)>,
}

impl Available {
    /// Lets go of a partition; whether nothing of it is left.
    pub(super) async fn clear(
        self: &Arc<Available>,
        ring: &Ring,
        partition: Partition,
        clearing: &mut Cleanup,
        stop: &watch::Receiver<bool>,
    ) -> Result<bool> {
        let mut all = true;
        for n in self.schema.numbers() {
            let of = (SlotSpan::new(ring, partition), n);
            if !self.keeps(ring, of) {
                all &= self.clear_copies(ring, of, clearing, stop).await?;
            }
        }
        Ok(all)
    }

    /// Returns true if this node keeps any of it, or is to.
    pub(super) fn keeps(&self, ring: &Ring, (span, n): TreeId) -> bool {
        let (n, me) = (usize::from(n), &self.node);
        span.in_ring(ring).any(|partition| {
            ring.owners(partition, n).contains(me) || ring.receivers(partition, n).contains(me)
        })
    }

    async fn clear_copies(
        self: &Arc<Available>,
        ring: &Ring,
        of: TreeId,
        clearing: &mut Cleanup,
        stop: &watch::Receiver<bool>,
    ) -> Result<bool> {
        // What was taken is to be seen, too.
        self.vnode_store.settled(self.vnode_store.last()).await?;
        let reading = Reading { snapshot: self.trees.snapshot(), after: None, rows: Vec::new() };
        let mut reading = self.read_on(of, reading).await?;
        if reading.rows.is_empty() {
            return Ok(true);
        }
        let owners = ring.owners(of.0.partition, of.1.into());
        let away: Vec<_> = owners.iter().copied().filter(|node| !self.reaches(*node)).collect();
        if !away.is_empty() {
            let (partition, names) = (of.0.partition, self.names(&away));
            let text = format!(
                "partition {partition} has gone over; this node lets go of it when all its owners \
                 can be reached, and these can't: {names}"
            );
            return Err(Error::new(Reason::NoQuorum, text));
        }
        let alone = flawed(Flaw::LetsGoAlone)
            || flawed(Flaw::DropsStrays) && clearing.strays.contains(&of.0.partition);
        for owner in owners.into_iter().filter(|_| !alone) {
            // What this node does not own by an older ring it may own by the one that is in force.
            let within = Duration::from_millis(FORWARD_MS_MAX);
            if self.learn_ring(owner, ring.epoch(), within).await {
                return Err(Error::new(Reason::Changed, "the ring has changed"));
            }
            let chosen = RingTarget { node: owner, epoch: ring.epoch() };
            let summary = self.bring_together(of, chosen, SyncDirection::Other).await?;
            if !summary.complete {
                let text =
                    format!("a comparison with {} was cut short", self.members.name_of(owner));
                return Err(Error::new(Reason::NoQuorum, text));
            }
        }
        if clearing.renewed.insert(of.0.partition) {
            self.become_another(of.0)?;
        }
        let mut all = true;
        while !reading.rows.is_empty() {
            let now = self.schema.ring();
            if *stop.borrow() || now.is_none_or(|now| self.keeps(&now, of)) {
                return Err(Error::new(Reason::Changed, "the ring has changed, or the node stops"));
            }
            let (ticket, stays) = self.let_go(std::mem::take(&mut reading.rows))?;
            all &= !stays;
            self.vnode_store.settled(ticket).await?;
            reading = self.read_on(of, reading).await?;
        }
        self.vnode_store.state().hash_trees.drop_one(of);
        Ok(all)
    }

    /// The next rows as they were.
    async fn read_on(self: &Arc<Available>, of: TreeId, mut reading: Reading) -> Result<Reading> {
        let available = self.clone();
        unhurried(move || {
            let Reading { snapshot, after, rows: found } = &mut reading;
            let mut upto = None;
            for row in rows_of(&**snapshot, of.0, after.as_deref()) {
                let (key, row) = row?;
                upto = Some(key.slice_ref(row_tail(&key)));
                if which(&key, of.0.of, &available.vnode_store.copies) == Some(of) {
                    found.push((key, row));
                    if found.len() == ROWS {
                        break;
                    }
                }
            }
            *after = upto.or(after.take());
            Ok(reading)
        })
        .await
    }

    /// The vnodes' next dots are those of other actors.
    fn become_another(&self, span: SlotSpan) -> Result<()> {
        let mut guard = self.vnode_store.admit()?;
        let state = &mut *guard;
        let mut records = Vec::new();
        for slot in span.slots().map(Slot) {
            let mut minter = self.vnode_store.minter(state, slot)?;
            minter.renew(world::chance());
            state.minters.insert(slot, minter);
            records.push((record_key(slot), Some(Bytes::from(minter.record()))));
        }
        self.vnode_store.change(state, records, false);
        Ok(())
    }

    /// Takes away those of these rows that are what they were; gives the ticket, and whether any
    /// stays.
    fn let_go(&self, rows: Vec<(Bytes, Bytes)>) -> Result<(u64, bool)> {
        let mut guard = self.vnode_store.admit()?;
        let state = &mut *guard;
        let (mut gone, mut stays) = (Vec::with_capacity(rows.len()), false);
        for (key, row) in rows {
            let (_, newest) = self.vnode_store.newest(state, &key)?;
            match newest {
                Some(newest) if newest == row => gone.push((key, None)),
                newest => stays |= newest.is_some(),
            }
        }
        Ok((self.vnode_store.change(state, gone, false), stays))
    }
}
