//! Removal of a partition's rows by a former owner: once the partition has gone over, and a grace
//! period later, in which nodes that have not learned of it still read here.
//!
//! First it makes sure that each owner has every row that is here, because a write may have arrived
//! here and nowhere else. It compares its copy with each owner, sends them what they lack, and then
//! removes the rows that are unchanged since the comparison began. Rows written since stay for the
//! next round. When none is left it reports to the directory. Until then no node may forget what
//! was deleted in this partition, or a row from here would bring it back.
//!
//! Until the directory knows, this node is sent writes (`epoch_check.rs`), and until it learns that
//! the directory knows, it may take one: from a coordinator that knows of a newer change elsewhere
//! on the ring, and not of this one. So once it has learned, it looks again. From then on it
//! refuses requests by an older ring, and coordinators with a newer ring send none. If it crashes
//! before, it looks when it has started (`orphan_sweep.rs`).
//!
//! The vnodes' records stay for good, and name other actors from now on. The dots that the vnode
//! gave are on rows that others keep. If the partition comes back, no row that comes with it is
//! mistaken for one that was lost here.

use super::orphan_sweep::OrphanSweep;
use crate::Available;
use crate::anti_entropy::SyncDirection;
use crate::hash_trees::{TreeId, which};
use crate::key_owners::RingTarget;
use crate::layout::{record_key, row_tail};
use crate::slots::{Slot, SlotSpan};
use crate::span_rows::rows_of;
use base::limits::FORWARD_MS_MAX;
use base::{Error, NodeId, Partition, Reason, Result};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::mutants::Mutant;
use runtime::world;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use store::Snapshot;

/// Number of rows removed at a time.
const ROWS: usize = 256;
/// Pause before the second look at an empty partition, and before a retry after a newer ring was
/// learned, in milliseconds.
const LOOK_MS: u64 = 200;
/// Pause before a failed removal is tried again, in milliseconds.
const AGAIN_MS: u64 = 1_000;

/// Partitions whose rows this node has to remove.
#[derive(Default)]
pub(super) struct Cleanup {
    /// Number of partitions of the ring to which the partitions below belong.
    of: u32,
    /// Time at which each is due, in milliseconds.
    due: BTreeMap<Partition, u64>,
    /// Partitions whose vnodes have become other actors.
    renewed: BTreeSet<Partition>,
    /// Partitions of which rows lie here that the ring does not name (`orphan_sweep.rs`).
    strays: BTreeSet<Partition>,
    sweep: OrphanSweep,
}

impl Cleanup {
    /// Returns a partition that is due. It becomes due `grace_ms` milliseconds after this node
    /// learned that it has left.
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

    /// Adds partitions with rows that the ring does not name. Keeps those that are scheduled for
    /// another look.
    pub(super) fn found(&mut self, strays: BTreeSet<Partition>) {
        self.strays.extend(strays);
    }

    /// Schedules another look at a partition that is empty here, once the directory knows of it.
    /// Until this node learns that every node knows, it may be sent a row that nobody would remove.
    pub(super) fn again(&mut self, partition: Partition) {
        if !Mutant::LooksOnce.is_active() {
            self.strays.insert(partition);
            self.due.insert(partition, world::milliseconds() + LOOK_MS);
        }
    }

    /// Notes that no row of a partition is left here.
    pub(super) fn is_done(&mut self, partition: Partition) {
        self.strays.remove(&partition);
    }

    /// Schedules the next try: soon, if another ring was learned meanwhile.
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
    /// Removes the rows of a partition. Returns true if none is left.
    pub(super) async fn clear(
        self: &Arc<Available>,
        ring: &Ring,
        partition: Partition,
        clearing: &mut Cleanup,
    ) -> Result<bool> {
        let mut all = true;
        for n in self.schema.numbers() {
            let of = (SlotSpan::new(ring, partition), n);
            if !self.keeps(ring, of) {
                all &= self.clear_copies(ring, of, clearing).await?;
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
    ) -> Result<bool> {
        // What was taken is to be seen, too.
        self.vnode_store.settled(self.vnode_store.last()).await?;
        // Before the comparison: only what it has seen may go, so a row written since stays.
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
        let alone = Mutant::LetsGoAlone.is_active()
            || Mutant::DropsStrays.is_active() && clearing.strays.contains(&of.0.partition);
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
        // Before a row goes: when it comes back with dots of this vnode, none may look like one
        // that was lost here.
        if clearing.renewed.insert(of.0.partition) {
            self.become_another(of.0)?;
        }
        let mut all = true;
        while !reading.rows.is_empty() {
            // Looked at for each page: the partition may come back while its rows go.
            let now = self.schema.ring();
            if self.tasks.is_cancelled() || now.is_none_or(|now| self.keeps(&now, of)) {
                return Err(Error::new(Reason::Changed, "the ring has changed, or the node stops"));
            }
            let (ticket, stays) = self.let_go(std::mem::take(&mut reading.rows))?;
            all &= !stays;
            self.vnode_store.settled(ticket).await?;
            reading = self.read_on(of, reading).await?;
        }
        // Built again if the partition comes back; until then it only costs memory.
        self.vnode_store.state().hash_trees.drop_one(of);
        Ok(all)
    }

    /// The next rows as they were.
    async fn read_on(self: &Arc<Available>, of: TreeId, mut reading: Reading) -> Result<Reading> {
        let available = self.clone();
        self.unhurried(move || {
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
