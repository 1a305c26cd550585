//! Feed of a bucket that moves to another group, as its source reads it.

use super::rows::{load_mark, load_record, load_retention, read_totals, totals_key};
use base::{BucketId, GroupId, Result};
use change_feed::{FeedPhase, SentFeed};
use runtime::log_writer::store_error;
use store::Snapshot;

/// Returns the feed of a bucket for the group to which the bucket moves, as of a snapshot, and the
/// group time of the snapshot: no entry is later. `None`: it has none, or one that stays behind
/// with its entries because it is being removed, or can't be received any more.
pub fn sent_feed(
    snapshot: &dyn Snapshot,
    (group, bucket): (GroupId, BucketId),
) -> Result<Option<(SentFeed, u64)>> {
    let record = load_record(snapshot, group, bucket)?;
    let is_sent = |phase: FeedPhase| phase.is_in_force();
    let record = record.filter(|record| is_sent(record.phase));
    let Some(record) = record.filter(|record| SentFeed::received_era(record).is_some()) else {
        return Ok(None);
    };
    let totals = snapshot.get(&totals_key(group, bucket)).map_err(store_error)?;
    let totals = read_totals(totals.as_ref())?;
    let retention = load_retention(snapshot, group, bucket)?;
    Ok(Some((SentFeed { record, totals, retention }, load_mark(snapshot, group)?.time)))
}
