//! Sweep of orphaned rows: rows on a node that neither owns them nor is recorded as having
//! leftovers.
//!
//! A node that starts may have an older ring than before its crash, by which it owns a partition
//! that it has removed and reported. Until it receives the new ring it accepts writes for it, and
//! may even acknowledge them. So once a ring has been in force here for a while, the node scans for
//! rows that it should not keep, and removes them like leftovers (`cleanup.rs`): only after all
//! owners have them. The first sweep is a fixed time after the start, however often the ring
//! changes then: a node that has removed a partition may receive late writes (`cleanup.rs`), and
//! after a restart its schedule for a second check is lost.
//!
//! Never: runs while this node stores hints. Their rows belong here until hinted handoff delivers
//! them.

use crate::Available;
use crate::layout::{bucket_prefix, read_row_key, rows_prefix};
use crate::slots::{Slot, SlotSpan};
use base::codec::Malformed;
use base::error::corrupt;
use base::range::prefix_end;
use base::{Partition, Result};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use runtime::world;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use store::Snapshot;

/// State of the sweep: the current ring, and the ring of the last sweep.
#[derive(Default)]
pub(super) struct OrphanSweep {
    /// Epoch of the ring in force here, and the time since which it has been, in milliseconds.
    current: Option<(u64, u64)>,
    /// Epoch of the ring of the last sweep.
    swept: Option<u64>,
}

impl OrphanSweep {
    /// Returns true if a sweep is due: the ring of this epoch, or at first any ring, has been in
    /// force here for `wait_ms` milliseconds.
    pub(super) fn is_due(&mut self, epoch: u64, wait_ms: u64) -> bool {
        let now = world::milliseconds();
        let first = self.swept.is_none() && !Mutant::SearchLeftoversOnce.is_active();
        let current = self.current.filter(|(current, _)| *current == epoch || first);
        let since = current.map_or(now, |(_, since)| since);
        self.current = Some((epoch, since));
        self.swept != Some(epoch) && now >= since + wait_ms
    }

    /// Records that the sweep under the ring of this epoch is done.
    pub(super) fn mark_done(&mut self, epoch: u64) {
        self.swept = Some(epoch);
    }
}

impl Available {
    /// Returns the partitions with local rows that this node should not keep.
    pub(super) async fn orphaned_partitions(
        self: &Arc<Available>,
        ring: &Arc<Ring>,
    ) -> Result<BTreeSet<Partition>> {
        let (available, ring) = (self.clone(), ring.clone());
        self.read_blocking(move || {
            let snapshot = available.trees.snapshot();
            let n_vals = available.schema.n_vals();
            let mut orphans = BTreeSet::new();
            for span in SlotSpan::all(&ring) {
                let unowned = n_vals.iter().filter(|n| !available.keeps(&ring, (span, **n)));
                let unowned: BTreeSet<u8> = unowned.copied().collect();
                if !unowned.is_empty() && available.has_rows_of(&*snapshot, span, &unowned)? {
                    orphans.insert(span.partition);
                }
            }
            Ok(orphans)
        })
        .await
    }

    /// Returns true if there are local rows of buckets with one of these numbers of copies. Checks
    /// the first row of each bucket.
    fn has_rows_of(
        &self,
        snapshot: &dyn Snapshot,
        span: SlotSpan,
        n_vals: &BTreeSet<u8>,
    ) -> Result<bool> {
        for slot in span.slots().map(Slot) {
            let all = rows_prefix(slot);
            let mut low = Bytes::from(all.clone());
            loop {
                let mut rows = snapshot.range(Bound::Included(low), Bound::Unbounded, false);
                let Some(row) = rows.next() else { break };
                let (key, _) = row.map_err(store_error)?;
                if !key.starts_with(&all) {
                    break;
                }
                let bucket_and_key =
                    read_row_key(&key).ok_or_else(|| corrupt(Malformed("row's key")))?;
                if (self.vnode_store.copies)(&bucket_and_key.0).is_some_and(|n| n_vals.contains(&n))
                {
                    return Ok(true);
                }
                // After every key of this bucket.
                let Some(next) = prefix_end(&bucket_prefix(slot, &bucket_and_key.0)) else { break };
                low = next.into();
            }
        }
        Ok(false)
    }
}
