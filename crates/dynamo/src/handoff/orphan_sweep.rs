//! Rows that lie at a node which neither keeps them nor is known to have them left over.
//!
//! A node that starts may know an older ring than it knew before it fell, by which it owns a
//! partition that it has let go of, and told so. Until it hears more it takes writes for it, and
//! may even have answered them. So once a ring has been in force here for a while it is looked for
//! rows that have no business here, and they are let go of like leftovers (`cleanup.rs`): all
//! owners have them before they go. The first time is a while after the start, however often the
//! ring changes then: whoever has let go of a partition is brought what comes late (`cleanup.rs`),
//! and has forgotten by now that it was to look for that.
//!
//! Never: while rows are kept for nodes that are away. Those have their business here, and go home
//! by themselves.

use crate::Available;
use crate::layout::{bucket_prefix, read_row_key, rows_prefix};
use crate::slots::{Slot, SlotSpan};
use crate::timing::unhurried;
use base::codec::Malformed;
use base::error::corrupt;
use base::range::prefix_end;
use base::{Partition, Result};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::log_writer::store_error;
use runtime::mutants::{Flaw, flawed};
use runtime::world;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use store::Snapshot;

/// For which ring it was looked.
#[derive(Default)]
pub(super) struct OrphanSweep {
    /// The ring in force here, and since when, milliseconds.
    known: Option<(u64, u64)>,
    /// The last ring that was looked for.
    done: Option<u64>,
}

impl OrphanSweep {
    /// Returns true if it is time: the ring of this epoch, or the first time any, has been in force
    /// here for so long.
    pub(super) fn is_due(&mut self, epoch: u64, wait_ms: u64) -> bool {
        let now = world::milliseconds();
        let first = self.done.is_none() && !flawed(Flaw::LooksOnce);
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
    /// The partitions of which rows lie here that are not this node's to keep.
    pub(super) async fn strays(
        self: &Arc<Available>,
        ring: &Arc<Ring>,
    ) -> Result<BTreeSet<Partition>> {
        let (available, ring) = (self.clone(), ring.clone());
        unhurried(move || {
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

    /// Returns true if rows of buckets with one of these numbers of copies lie here: the first row
    /// of each bucket says it.
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
