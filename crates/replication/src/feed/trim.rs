//! Trimming of a feed: removes deletes and dead entries that are old enough, from the oldest on,
//! with the cursor of the next step in the same update.

use crate::overlay::Overlay;
use base::{BucketId, Result};
use bytes::Bytes;
use change_feed::{FeedPhase, FeedRecord, KeptEntry};
use replica_state::feed::{DuePage, read_retention, retention_key};
use runtime::mutants::Mutant;

/// Outcome of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimStep {
    /// Number of entries that were removed.
    pub removed: u64,
    /// True if another step may be due now.
    pub has_more: bool,
}

/// Examines the entries of a page, and removes those that need not be kept. Rows are looked up as
/// they are now, decided or not. Does nothing if the page is out of date.
pub(super) fn step(overlay: &mut Overlay, bucket: BucketId, page: &DuePage) -> Result<TrimStep> {
    let record = overlay.feed_record(bucket)?;
    let is_due =
        |record: &FeedRecord| record.phase == FeedPhase::Ready && record.making == page.making;
    let Some(record) = record.filter(is_due) else {
        return Ok(TrimStep::default());
    };
    let key = retention_key(overlay.group, bucket);
    let mut retention = read_retention(overlay.meta_row(&key)?.as_ref())?;
    if retention != page.retention {
        // The step before is not applied yet.
        return Ok(TrimStep { removed: 0, has_more: true });
    }
    retention.begin_round_if_due();
    let (mut step, floor) = (TrimStep { removed: 0, has_more: page.is_full }, retention.floor);
    for due in &page.entries {
        // What is kept for its age becomes less with each entry that is examined.
        if !retention.is_due(due.kept.position, due.kept.time, &page.bounds) {
            step.has_more = false;
            break;
        }
        let is_living = !due.kept.is_delete && {
            let row = overlay.stored_row(bucket, &due.entry.key)?;
            row.is_some_and(|row| row.version == due.entry.version)
        };
        if retention.examine(KeptEntry { is_living, ..due.kept }, record.has_values) {
            overlay.open.remove(&due.tree_key);
            step.removed += 1;
        }
    }
    if Mutant::ForgetFeedFloor.is_active() {
        retention.floor = floor;
    }
    overlay.open.put_raw(&key, &retention.encode());
    Ok(step)
}

impl Overlay<'_> {
    /// Returns a row of the numbers that a bucket keeps.
    pub(super) fn meta_row(&mut self, key: &Bytes) -> Result<Option<Bytes>> {
        self.scratch.clear();
        self.scratch.extend_from_slice(key);
        self.get_raw()
    }
}
