//! Removal of a partition's rows by a former owner: a grace period after the partition has moved,
//! in which nodes without the new ring still read here.
//!
//! First it makes sure that each owner has every row that is here, because a write may have been
//! stored here alone. It compares its copy with each owner, sends the rows that they lack, and then
//! removes the rows that are unchanged since the comparison began. Rows written since stay for the
//! next round. When none is left it reports to the directory. Until then no tombstone of this
//! partition may be reaped, or a row from here would bring the deleted value back.
//!
//! Until the directory has recorded the report, this node is sent writes (`epoch_check.rs`), and
//! until it receives the resulting ring it may accept one: from a coordinator whose ring is newer
//! because of another partition, and lacks this change. So it checks once more after it has that
//! ring. From then on it refuses requests by an older ring, and coordinators with a newer ring send
//! none. After a crash in between, the orphan sweep finds such rows (`orphan_sweep.rs`).
//!
//! The vnodes' records stay for good, and name new actors from then on. The dots of the former
//! actors are on rows of other nodes. If the partition comes back, no received row is mistaken for
//! one that was lost here.

use super::orphan_sweep::OrphanSweep;
use crate::Available;
use crate::anti_entropy::SyncDirection;
use crate::key_owners::RingTarget;
use crate::row_change::RowTransition;
use base::limits::FORWARD_MS_MAX;
use base::{Error, NodeId, Partition, Reason, Result};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::mutants::Mutant;
use runtime::round::progress;
use runtime::world;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use store::Snapshot;
use vnode_rows::hash_trees::{TreeId, tree_of_row};
use vnode_rows::layout::{record_key, row_tail};
use vnode_rows::slots::{Slot, SlotSpan};
use vnode_rows::span_rows::rows_in_span;

/// Number of rows removed at a time.
const ROWS: usize = 256;
/// Pause before the second check of an empty partition, and before a retry after a newer ring was
/// received, in milliseconds.
const RECHECK_MS: u64 = 200;
/// Pause before a retry of a failed removal, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// Partitions whose rows this node has to remove.
#[derive(Default)]
pub(super) struct Cleanup {
    /// Number of partitions of the ring to which the partitions below belong.
    partitions: u32,
    /// Time at which each is due, in milliseconds.
    due: BTreeMap<Partition, u64>,
    /// Partitions whose vnodes have new actors.
    renewed: BTreeSet<Partition>,
    /// Partitions with local rows that the ring does not list as leftovers (`orphan_sweep.rs`).
    orphans: BTreeSet<Partition>,
    sweep: OrphanSweep,
}

impl Cleanup {
    /// Returns a partition that is due. It becomes due `grace_ms` milliseconds after this node
    /// learned that it has moved.
    pub(super) fn next(&mut self, ring: &Ring, node: NodeId, grace_ms: u64) -> Option<Partition> {
        let now = world::milliseconds();
        if self.partitions != ring.partitions() {
            *self = Cleanup { partitions: ring.partitions(), ..Cleanup::default() };
        }
        let leftovers: BTreeSet<_> =
            ring.leftover_partitions(node).chain(self.orphans.iter().copied()).collect();
        self.due.retain(|partition, _| leftovers.contains(partition));
        self.renewed.retain(|partition| leftovers.contains(partition));
        for partition in leftovers {
            self.due.entry(partition).or_insert(now + grace_ms);
        }
        let due = self.due.iter().find(|(_, due)| **due <= now);
        due.map(|(partition, _)| *partition)
    }

    /// Returns the state of the orphan sweep.
    pub(super) fn sweep(&mut self) -> &mut OrphanSweep {
        &mut self.sweep
    }

    /// Adds partitions with orphaned rows. Keeps those that are scheduled for another check.
    pub(super) fn add_orphans(&mut self, orphans: BTreeSet<Partition>) {
        self.orphans.extend(orphans);
    }

    /// Schedules another check of a partition that is empty here and reported to the directory.
    /// Until all nodes have the resulting ring, a late row may arrive that nothing else would
    /// remove.
    pub(super) fn schedule_recheck(&mut self, partition: Partition) {
        if !Mutant::SearchLeftoversOnce.is_active() {
            self.orphans.insert(partition);
            self.due.insert(partition, world::milliseconds() + RECHECK_MS);
        }
    }

    /// Records that no row of a partition is left here.
    pub(super) fn mark_done(&mut self, partition: Partition) {
        self.orphans.remove(&partition);
    }

    /// Schedules the next attempt: soon, if the ring has changed.
    pub(super) fn schedule_retry(&mut self, partition: Partition, cleared: &Result<bool>) {
        let changed = cleared.as_ref().is_err_and(|error| error.reason == Reason::Changed);
        let wait_ms = if changed { RECHECK_MS } else { RETRY_MS };
        self.due.insert(partition, world::milliseconds() + wait_ms);
    }
}

/// Scan of a snapshot, with the next rows to remove.
struct RowScan {
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
        cleanup: &mut Cleanup,
    ) -> Result<bool> {
        let mut is_cleared = true;
        for n in self.schema.n_vals() {
            let tree_id = (SlotSpan::new(ring, partition), n);
            if !self.keeps(ring, tree_id) {
                is_cleared &= self.clear_tree(ring, tree_id, cleanup).await?;
            }
        }
        Ok(is_cleared)
    }

    /// Returns true if this node is a current or next owner of any part of a span.
    pub(super) fn keeps(&self, ring: &Ring, (span, n): TreeId) -> bool {
        let (n, node) = (usize::from(n), &self.node);
        span.in_ring(ring).any(|partition| {
            ring.owners(partition, n).contains(node) || ring.receivers(partition, n).contains(node)
        })
    }

    async fn clear_tree(
        self: &Arc<Available>,
        ring: &Ring,
        tree_id: TreeId,
        cleanup: &mut Cleanup,
    ) -> Result<bool> {
        let copies_epoch = self.schema.copies_epoch();
        // The snapshot must show every accepted change.
        self.vnode_store.wait_stored(self.vnode_store.last_ticket()).await?;
        // Taken before the comparison: only rows that it has compared are removed.
        let scan = RowScan { snapshot: self.trees.snapshot(), after: None, rows: Vec::new() };
        let mut scan = self.read_next_rows(tree_id, scan).await?;
        if scan.rows.is_empty() {
            return Ok(true);
        }
        let owners = ring.owners(tree_id.0.partition, tree_id.1.into());
        let unreachable: Vec<_> =
            owners.iter().copied().filter(|node| !self.reaches(*node)).collect();
        if !unreachable.is_empty() {
            let (partition, names) = (tree_id.0.partition, self.node_names(&unreachable));
            let text = format!(
                "partition {partition} is transferred; this node removes its copy once all owners \
                 are reached; unreachable: {names}"
            );
            return Err(Error::new(Reason::NoQuorum, text));
        }
        let skips_owners = Mutant::DeleteLeftoversUnchecked.is_active()
            || Mutant::DropUnownedRowsUnchecked.is_active()
                && cleanup.orphans.contains(&tree_id.0.partition);
        for owner in owners.into_iter().filter(|_| !skips_owners) {
            // By a newer ring this node may own the partition again.
            let within = Duration::from_millis(FORWARD_MS_MAX);
            if self.fetch_ring(owner, ring.epoch(), within).await {
                return Err(Error::new(Reason::Changed, "the ring has changed"));
            }
            let chosen = RingTarget { node: owner, epoch: ring.epoch() };
            let summary = self.synchronize(tree_id, chosen, SyncDirection::Other).await?;
            if !summary.is_complete {
                let text =
                    format!("a comparison with {} was interrupted", self.members.name_of(owner));
                return Err(Error::new(Reason::NoQuorum, text));
            }
        }
        // Before the first removal: if a row comes back with dots of this vnode, it must not look
        // like a row that was lost here.
        if cleanup.renewed.insert(tree_id.0.partition) {
            self.renew_minters(tree_id.0)?;
        }
        let mut is_cleared = true;
        while !scan.rows.is_empty() {
            progress();
            // Checked for each page: the partition may come back while its rows are removed.
            let now = self.schema.ring();
            // Or a bucket may have another number of copies: its rows are compared by another tree.
            let has_changed = self.schema.copies_epoch() != copies_epoch
                || now.is_none_or(|now| self.keeps(&now, tree_id));
            if self.tasks.is_cancelled() || has_changed {
                return Err(Error::new(Reason::Changed, "the ring has changed, or the node stops"));
            }
            let (ticket, remain) = self.remove_rows(std::mem::take(&mut scan.rows))?;
            is_cleared &= !remain;
            self.vnode_store.wait_stored(ticket).await?;
            scan = self.read_next_rows(tree_id, scan).await?;
        }
        // Without rows the tree only costs memory; it is built again if the partition comes back.
        self.vnode_store.state().hash_trees.drop_tree(tree_id);
        Ok(is_cleared)
    }

    /// Reads the next rows of the snapshot.
    async fn read_next_rows(
        self: &Arc<Available>,
        tree_id: TreeId,
        mut scan: RowScan,
    ) -> Result<RowScan> {
        let available = self.clone();
        self.read_blocking(move || {
            let RowScan { snapshot, after, rows: found } = &mut scan;
            let mut last = None;
            for row in rows_in_span(&**snapshot, tree_id.0, after.as_deref()) {
                let (key, row) = row?;
                last = Some(key.slice_ref(row_tail(&key)));
                if tree_of_row(&key, tree_id.0.partitions, &available.vnode_store.copies)
                    == Some(tree_id)
                {
                    found.push((key, row));
                    if found.len() == ROWS {
                        break;
                    }
                }
            }
            *after = last.or(after.take());
            Ok(scan)
        })
        .await
    }

    /// Gives the vnodes of a span new actors.
    fn renew_minters(&self, span: SlotSpan) -> Result<()> {
        let mut guard = self.vnode_store.admit()?;
        let state = &mut *guard;
        let mut records = Vec::new();
        for slot in span.slots().map(Slot) {
            let mut minter = self.vnode_store.minter(state, slot)?;
            minter.renew(world::random_u64());
            state.minters.insert(slot, minter);
            records.push((record_key(slot), Some(Bytes::from(minter.record()))));
        }
        self.vnode_store.change(state, records, false);
        Ok(())
    }

    /// Removes the rows that are unchanged. Returns the ticket, and true if any row remains.
    pub(crate) fn remove_rows(&self, rows: Vec<(Bytes, Bytes)>) -> Result<(u64, bool)> {
        let mut guard = self.vnode_store.admit()?;
        let state = &mut *guard;
        let (mut removals, mut remain) = (Vec::with_capacity(rows.len()), false);
        for (key, row) in rows {
            let (_, newest) = self.vnode_store.newest(state, &key)?;
            match newest {
                Some(newest) if newest == row => {
                    let transition = RowTransition::of_bytes(key, Some(&newest), None);
                    self.vnode_store.change_row(state, transition, &mut removals);
                }
                newest => remain |= newest.is_some(),
            }
        }
        Ok((self.vnode_store.log_changes(state, removals, false), remain))
    }
}
