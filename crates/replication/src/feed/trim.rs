//! Trimming of a feed: removes deletes and dead entries that are old enough, from the oldest on,
//! with the cursor of the next step in the same update.

use crate::bucket::Bucket;
use crate::overlay::Overlay;
use base::error::corrupt;
use base::range::{Direction, prefix_end};
use base::{BucketId, Result};
use bytes::Bytes;
use change_feed::{FeedEntry, FeedPhase, FeedPosition, KeptEntry, Retention, RetentionBounds};
use replica_state::feed::{
    feed_key, feed_prefix, read_feed_key, read_retention, read_totals, retention_key, totals_key,
};
use runtime::mutants::Mutant;
use std::ops::Bound;

/// Maximum number of entries that a step examines.
const PAGE_ENTRIES: usize = 1_000;
/// Bytes of entries at which a step ends. The last entry may exceed it.
const PAGE_BYTES: usize = 1 << 20;

/// Outcome of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimStep {
    /// Bytes that were read.
    pub bytes: usize,
    /// Number of entries that were removed.
    pub removed: u64,
    /// True if another step may be due now.
    pub has_more: bool,
}

/// Takes the next step of a bucket's feed. Changes nothing if no entry is old enough.
pub(super) fn step(overlay: &mut Overlay, bucket: &Bucket) -> Result<TrimStep> {
    let id = bucket.id;
    let record = overlay.feed_record(id)?;
    let Some(record) = record.filter(|record| record.phase == FeedPhase::Ready) else {
        return Ok(TrimStep::default());
    };
    let retention_key = retention_key(overlay.group, id);
    let mut retention = read_retention(overlay.meta_row(&retention_key)?.as_ref())?;
    let totals_key = totals_key(overlay.group, id);
    let bounds = RetentionBounds {
        now: overlay.open.time,
        keep_ms: bucket.properties.feed_keep_ms,
        keep_bytes: bucket.properties.feed_keep_bytes,
        totals: read_totals(overlay.meta_row(&totals_key)?.as_ref())?,
    };
    let has_begun = retention.begin_round_if_due();
    let page = overlay.due_entries(id, &retention, &bounds)?;
    let mut step = TrimStep { bytes: page.bytes, has_more: page.is_full, ..TrimStep::default() };
    let floor = retention.floor;
    for (key, kept, entry) in &page.entries {
        // Entries that are kept for their age become fewer with each that is examined.
        if !retention.is_due(kept.position, kept.time, &bounds) {
            step.has_more = false;
            break;
        }
        let is_living = !kept.is_delete && {
            let row = overlay.stored_row(id, &entry.key)?;
            row.is_some_and(|row| row.version == entry.version)
        };
        if retention.examine(KeptEntry { is_living, ..*kept }, record.has_values) {
            overlay.open.remove(key);
            step.removed += 1;
        }
    }
    if Mutant::ForgetFeedFloor.is_active() {
        retention.floor = floor;
    }
    if has_begun || !page.entries.is_empty() {
        overlay.open.put_raw(&retention_key, &retention.encode());
    }
    Ok(step)
}

/// Entries behind the cursor that are due.
#[derive(Default)]
struct DuePage {
    /// Tree key of each, what retention examines, and the entry.
    entries: Vec<(Bytes, KeptEntry, FeedEntry)>,
    bytes: usize,
    /// True if more may be due.
    is_full: bool,
}

impl Overlay<'_> {
    /// Returns a row of the numbers that a bucket keeps.
    pub fn meta_row(&mut self, key: &Bytes) -> Result<Option<Bytes>> {
        self.scratch.clear();
        self.scratch.extend_from_slice(key);
        self.get_raw()
    }

    fn due_entries(
        &mut self,
        bucket: BucketId,
        retention: &Retention,
        bounds: &RetentionBounds,
    ) -> Result<DuePage> {
        let prefix = feed_prefix(self.group, bucket);
        let high = Bytes::from(prefix_end(&prefix).expect("a space is not all 0xFF"));
        let low = Bound::Excluded(feed_key(self.group, bucket, retention.cursor));
        let mut page = DuePage::default();
        self.walk(low, Bound::Excluded(high), Direction::Ascending, |key, row| {
            if page.entries.len() == PAGE_ENTRIES || page.bytes >= PAGE_BYTES {
                page.is_full = true;
                return Ok(false);
            }
            let position: FeedPosition = read_feed_key(key)?;
            let entry = FeedEntry::decode(row).map_err(corrupt)?;
            let (time, is_delete) = (entry.time, entry.change.is_delete());
            if !retention.is_due(position, time, bounds) {
                return Ok(false);
            }
            let bytes = key.len() + row.len();
            page.bytes += bytes;
            let kept = KeptEntry { position, time, bytes, is_delete, is_living: false };
            page.entries.push((key.clone(), kept, entry));
            Ok(true)
        })?;
        Ok(page)
    }
}
