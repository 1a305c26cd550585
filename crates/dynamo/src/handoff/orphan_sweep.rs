//! Sweep of orphaned rows: rows on a node that neither owns them nor is recorded as having
//! leftovers.
//!
//! A node that starts may know an older ring than before its crash, by which it owns a partition
//! that it has removed and reported. Until it learns more it takes writes for it, and may even have
//! answered them. So once a ring has been in force here for a while, the node looks for rows that
//! it should not keep, and removes them like leftovers (`cleanup.rs`): all owners have them before
//! they go. The first sweep is a while after the start, however often the ring changes then: a node
//! that has removed a partition is sent late writes (`cleanup.rs`), and after a restart does not
//! know that it was to look for them.
//!
//! Never: runs while this node keeps hints. Their rows belong here, and are handed back by
//! themselves.

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

/// State of the sweep: the ring in force, and the ring last swept for.
#[derive(Default)]
pub(super) struct OrphanSweep {
    /// Epoch of the ring in force here, and the time since which it is, in milliseconds.
    known: Option<(u64, u64)>,
    /// Epoch of the ring of the last sweep.
    done: Option<u64>,
}

impl OrphanSweep {
    /// Returns true if a sweep is due: the ring of this epoch, or at first any ring, has been in
    /// force here for `wait_ms` milliseconds.
    pub(super) fn is_due(&mut self, epoch: u64, wait_ms: u64) -> bool {
        let now = world::milliseconds();
        let first = self.done.is_none() && !Mutant::LooksOnce.is_active();
        let known = self.known.filter(|(known, _)| *known == epoch || first);
        let since = known.map_or(now, |(_, since)| since);
        self.known = Some((epoch, since));
        self.done != Some(epoch) && now >= since + wait_ms
    }

    /// Notes that the sweep under the ring of this epoch is done.
    pub(super) fn is_done(&mut self, epoch: u64) {
        self.done = Some(epoch);
    }
}

impl Available {
    /// Returns the partitions of which rows lie here that this node should not keep.
    pub(super) async fn strays(
        self: &Arc<Available>,
        ring: &Arc<Ring>,
    ) -> Result<BTreeSet<Partition>> {
        let (available, ring) = (self.clone(), ring.clone());
        self.unhurried(move || {
            let snapshot = available.trees.snapshot();
            let numbers = available.schema.numbers();
            let mut strays = BTreeSet::new();
            for span in SlotSpan::all(&ring) {
                let foreign = numbers.iter().filter(|n| !available.keeps(&ring, (span, **n)));
                let foreign: BTreeSet<u8> = foreign.copied().collect();
                if !foreign.is_empty() && available.has_rows_of(&*snapshot, span, &foreign)? {
                    strays.insert(span.partition);
                }
            }
            Ok(strays)
        })
        .await
    }

    /// Returns true if rows of buckets with one of these numbers of copies lie here. The first row
    /// of each bucket decides.
    fn has_rows_of(
        &self,
        snapshot: &dyn Snapshot,
        span: SlotSpan,
        ns: &BTreeSet<u8>,
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
                let named = read_row_key(&key).ok_or_else(|| corrupt(Malformed("row's key")))?;
                if (self.vnode_store.copies)(&named.0).is_some_and(|n| ns.contains(&n)) {
                    return Ok(true);
                }
                // Behind every key of this bucket.
                let Some(next) = prefix_end(&bucket_prefix(slot, &named.0)) else { break };
                low = next.into();
            }
        }
        Ok(false)
    }
}
