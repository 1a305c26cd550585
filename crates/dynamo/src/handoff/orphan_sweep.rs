//! Sweep of orphaned rows: rows on a node that neither owns them nor is recorded as having
//! leftovers.
//!
//! A node that starts may have an older ring than before its crash, by which it owns a partition
//! that it has removed and reported. Until it receives the new ring it accepts writes for it, and
//! may even acknowledge them. So once a ring has been in force here for a while, the node scans for
//! rows that it should not keep, and removes them like leftovers (`cleanup.rs`): only after all
//! owners have them. The first sweep is a fixed time after the start, however often the ring
//! changes then: a node that has removed a partition may receive late writes (`cleanup.rs`), and
//! after a restart its schedule for a second check is lost. A node also scans after a bucket got
//! another number of copies: with fewer, the last of its owners keeps rows that no other removes.
//!
//! Never: runs while this node stores hints. Their rows belong here until hinted handoff delivers
//! them.

use crate::Available;
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
use vnode_rows::layout::{bucket_prefix, read_row_key, rows_prefix};
use vnode_rows::slots::{Slot, SlotSpan};

/// Epoch of a ring, and number of changes of some bucket's number of copies: both determine which
/// rows a node keeps.
type Epochs = (u64, u64);

/// State of the sweep: the current epochs, and those of the last sweep.
#[derive(Default)]
pub(super) struct OrphanSweep {
    /// Epochs in force here, and the time since which they have been, in milliseconds.
    current: Option<(Epochs, u64)>,
    /// Epochs of the last sweep.
    swept: Option<Epochs>,
}

impl OrphanSweep {
    /// Returns true if a sweep is due: these epochs, or at first any, have been in force here for
    /// `wait_ms` milliseconds.
    pub(super) fn is_due(&mut self, epochs: Epochs, wait_ms: u64) -> bool {
        let now = world::milliseconds();
        let first = self.swept.is_none() && !Mutant::SearchLeftoversOnce.is_active();
        let current = self.current.filter(|(current, _)| *current == epochs || first);
        let since = current.map_or(now, |(_, since)| since);
        self.current = Some((epochs, since));
        self.swept != Some(epochs) && now >= since + wait_ms
    }

    /// Records that the sweep under these epochs is done.
    pub(super) fn mark_done(&mut self, epochs: Epochs) {
        self.swept = Some(epochs);
    }
}

impl Available {
    /// Returns the partitions with local rows that this node should not keep.
    pub(crate) async fn orphaned_partitions(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orphan_sweep_is_due_after_a_change_of_the_ring_or_of_copies() {
        let at = |ms: u64| world::set_time(Some(ms * 1_000_000));
        let mut sweep = OrphanSweep::default();
        at(1_000);
        assert!(!sweep.is_due((1, 1), 100));
        at(1_100);
        assert!(sweep.is_due((2, 1), 100), "the first one waits for no other change");
        sweep.mark_done((2, 1));
        at(9_000);
        assert!(!sweep.is_due((2, 1), 100));
        for epochs in [(3, 1), (3, 2)] {
            assert!(!sweep.is_due(epochs, 100));
            at(world::milliseconds() + 100);
            assert!(sweep.is_due(epochs, 100));
            sweep.mark_done(epochs);
            assert!(!sweep.is_due(epochs, 100));
        }
        world::set_time(None);
    }
}
