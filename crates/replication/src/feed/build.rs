//! Steps by which a feed is built and removed: pages of rows or entries, each with the cursor of
//! the next page in the same update.
//!
//! A builder reads the newest rows, decided or not, and adds entries for those that are older than
//! the feed. Rows that changed since it began have their entries from where they are applied.

use crate::indexing::{IndexStep, PAGE_BYTES, read_page};
use crate::overlay::Overlay;
use crate::seals::BOOKKEEPING_BUCKET;
use base::error::corrupt;
use base::{BucketId, Error, Reason, Result};
use change_feed::{FeedChange, FeedEntry, FeedPhase, FeedPosition, FeedRecord, feed_record_key};
use replica_state::feed::{feed_key, retention_key, totals_key};
use replica_state::layout::{self, Space, StoredRow};
use runtime::mutants::Mutant;

/// Takes the next step of a bucket's feed, if it is in the phase of its applied record still.
/// Entries of changes before a feed was ended are seen once the end is applied: of this feed, not
/// of one before it.
pub(super) fn step(
    overlay: &mut Overlay,
    bucket: BucketId,
    applied: &FeedRecord,
) -> Result<IndexStep> {
    let record = overlay.feed_record(bucket)?;
    let is_applied =
        |record: &FeedRecord| (record.phase, record.making) == (applied.phase, applied.making);
    match record.filter(is_applied) {
        Some(record) if applied.phase == FeedPhase::Building => build(overlay, bucket, record),
        Some(record) if applied.phase == FeedPhase::Dropping => remove(overlay, bucket, record),
        Some(_) | None => Ok(IndexStep { bytes: 0, is_last: true }),
    }
}

fn build(overlay: &mut Overlay, bucket: BucketId, mut record: FeedRecord) -> Result<IndexStep> {
    let mut prefix = Vec::new();
    layout::bucket_key(overlay.group, Space::Row, bucket, &[], &mut prefix);
    let page = read_page(overlay, prefix, record.cursor.as_ref())?;
    let begun_bytes = overlay.open.payload_bytes();
    let mut is_last = page.is_last;
    for (key, row) in page.rows {
        let written_bytes = overlay.open.payload_bytes();
        if written_bytes - begun_bytes >= PAGE_BYTES {
            is_last = false;
            break;
        }
        let StoredRow { version, expires, value, .. } = StoredRow::read(&row).map_err(corrupt)?;
        if version.0 < record.begun || Mutant::BuildFeedOfAllRows.is_active() {
            let change = match record.has_values {
                true => FeedChange::PutValue { expires, value },
                false => FeedChange::Put,
            };
            let Some(position) = FeedPosition::of_older(record.era, record.rows) else {
                let text = "a feed holds at most 4,294,967,295 records that are older than it";
                return Err(Error::new(Reason::TooLarge, text));
            };
            let entry = FeedEntry { version, time: overlay.open.time, key: key.clone(), change };
            let tree_key = feed_key(overlay.group, bucket, position);
            overlay.open.put_raw(&tree_key, &entry.encode());
        }
        record.cursor = Some(key);
        record.rows += 1;
    }
    if is_last {
        (record.phase, record.cursor) = (FeedPhase::Ready, None);
    }
    overlay.put_feed_record(bucket, &record)?;
    let written_bytes = overlay.open.payload_bytes() - begun_bytes;
    Ok(IndexStep { bytes: page.bytes + written_bytes, is_last })
}

fn remove(overlay: &mut Overlay, bucket: BucketId, mut record: FeedRecord) -> Result<IndexStep> {
    let mut prefix = Vec::new();
    layout::bucket_key(overlay.group, Space::Feed, bucket, &[], &mut prefix);
    let prefix_bytes = prefix.len();
    let page = read_page(overlay, prefix.clone(), record.cursor.as_ref())?;
    let begun_bytes = overlay.open.payload_bytes();
    for (name, _) in &page.rows {
        prefix.truncate(prefix_bytes);
        prefix.extend_from_slice(name);
        overlay.open.remove(&prefix);
    }
    if page.is_last {
        for key in [totals_key(overlay.group, bucket), retention_key(overlay.group, bucket)] {
            overlay.open.remove(&key);
        }
        overlay.remove(BOOKKEEPING_BUCKET, &feed_record_key(bucket), None)?;
    } else {
        record.cursor = page.rows.last().map(|(name, _)| name.clone()).or(record.cursor);
        overlay.put_feed_record(bucket, &record)?;
    }
    let written_bytes = overlay.open.payload_bytes() - begun_bytes;
    Ok(IndexStep { bytes: page.bytes + written_bytes, is_last: page.is_last })
}
