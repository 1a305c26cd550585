//! Derivation of feed entries from an entry of the log, while its effects are applied.

use super::applied::{AppliedFeeds, FeedRecords};
use super::rows::{feed_key, totals_key};
use crate::layout::{BOOKKEEPING_BUCKET, ROW_PREFIX_BYTES, RowView, Space, read_bucket_prefix};
use base::error::corrupt;
use base::{BucketId, Error, GroupId, LogIndex, Result, Version};
use bytes::Bytes;
use change_feed::{
    FEED_RECORD, FeedChange, FeedEntry, FeedPhase, FeedPosition, FeedTotals, TOTALS_NAME,
};
use runtime::mutants::Mutant;
use std::collections::BTreeMap;
use store::RowChange;

/// Time and versions of an entry of the log.
#[derive(Clone, Copy, Debug)]
pub struct EntryStamp {
    /// Group time of its updates, milliseconds.
    pub time: u64,
    /// Version of the next update behind it.
    pub next_version: u64,
}

/// See the head of this file.
pub struct FeedDerivation<'a> {
    feeds: &'a AppliedFeeds,
    group: GroupId,
    index: LogIndex,
    /// Records as of the effect that is observed. `None`: no bucket has a feed.
    records: Option<FeedRecords>,
    /// Last effect on each row, by tree key.
    last_effects: BTreeMap<Bytes, LastEffect>,
    /// Number of effects on rows of buckets with feeds.
    effects: u32,
    /// Entries that the effects themselves add: those of builders, and of another group.
    added: BTreeMap<BucketId, FeedTotals>,
    error: Option<Error>,
}

struct LastEffect {
    /// Number of the effect.
    number: u32,
    bucket: BucketId,
    era: u16,
    has_values: bool,
    /// True if another group sends the bucket.
    is_arriving: bool,
    /// New row. `None`: it was removed.
    row: Option<Bytes>,
}

impl<'a> FeedDerivation<'a> {
    pub(super) fn new(
        feeds: &'a AppliedFeeds,
        group: GroupId,
        index: LogIndex,
    ) -> FeedDerivation<'a> {
        FeedDerivation {
            feeds,
            group,
            index,
            records: feeds.records(),
            last_effects: BTreeMap::new(),
            effects: 0,
            added: BTreeMap::new(),
            error: None,
        }
    }

    /// Takes the next effect.
    #[inline]
    pub fn observe(&mut self, change: &RowChange) {
        // The directory has rows of other kinds under the same key.
        let is_record = || is_record(change.key()) && self.group != GroupId::DIRECTORY;
        if self.records.is_some() || is_record() {
            self.note(change);
        }
    }

    fn note(&mut self, change: &RowChange) {
        let (key, row) = (change.key(), new_row(change));
        let Some((space, bucket)) = read_bucket_prefix(key) else { return };
        if bucket == BOOKKEEPING_BUCKET {
            if is_record(key) {
                let changed = self.feeds.change_record(&key[ROW_PREFIX_BYTES..], row);
                self.note_error(changed);
                // It counts for the effects behind it.
                self.records = self.feeds.records();
            }
            return;
        }
        let record = self.records.as_ref().and_then(|records| records.get(&bucket));
        let Some(record) = record.filter(|record| record.phase != FeedPhase::Dropping) else {
            return;
        };
        match space {
            Space::Row => {
                self.effects += 1;
                let effect = LastEffect {
                    number: self.effects,
                    bucket,
                    era: record.era,
                    has_values: record.has_values,
                    is_arriving: record.phase == FeedPhase::Receiving,
                    row: row.cloned(),
                };
                self.last_effects.insert(key.clone(), effect);
            }
            Space::Feed => {
                if let Some(row) = row {
                    self.added.entry(bucket).or_default().add(key.len() + row.len());
                }
            }
            Space::Meta if key[ROW_PREFIX_BYTES..] == *TOTALS_NAME => {
                let changed = self.feeds.change_totals(bucket, row);
                self.note_error(changed);
            }
            _ => {}
        }
    }

    fn note_error(&mut self, result: Result<()>) {
        self.error = self.error.take().or(result.err());
    }

    /// Returns the changes of rows that the effects mean for feeds. Called once behind the last
    /// effect. Errors: `corrupt` for a row that can't be decoded.
    #[inline]
    pub fn finish(self, stamp: EntryStamp) -> Result<Vec<RowChange>> {
        if self.error.is_none() && self.last_effects.is_empty() && self.added.is_empty() {
            return Ok(Vec::new());
        }
        self.entries(stamp)
    }

    fn entries(mut self, stamp: EntryStamp) -> Result<Vec<RowChange>> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut effects: Vec<_> = self.last_effects.into_iter().collect();
        // In the order of the effects, so that a reader meets changes as they were made.
        effects.sort_unstable_by_key(|(_, effect)| effect.number);
        let mut changes = Vec::with_capacity(effects.len() + 1);
        for (tree_key, effect) in effects {
            let LastEffect { bucket, era, is_arriving, .. } = effect;
            // A row that arrives has its entry in the group that sends it.
            if is_arriving && effect.row.is_some() && !Mutant::AddArrivingRows.is_active() {
                continue;
            }
            let ordinal = match Mutant::ReuseFeedPositions.is_active() {
                true => 0,
                false => changes.len() as u32,
            };
            let position = FeedPosition { era, index: self.index, ordinal };
            let entry = effect.entry(tree_key.slice(ROW_PREFIX_BYTES..), stamp)?.encode();
            let key = feed_key(self.group, bucket, position);
            self.added.entry(bucket).or_default().add(key.len() + entry.len());
            changes.push(RowChange::Put(key, entry.into()));
        }
        for (bucket, added) in self.added {
            let totals = self.feeds.add(bucket, added);
            let key = totals_key(self.group, bucket);
            changes.push(RowChange::Put(key, totals.encode().into()));
        }
        Ok(changes)
    }
}

impl LastEffect {
    fn entry(self, key: Bytes, stamp: EntryStamp) -> Result<FeedEntry> {
        let time = stamp.time;
        let Some(row) = self.row else {
            // At or above the version of every earlier row, and below that of every later one.
            let version = Version(stamp.next_version.saturating_sub(1));
            let change = match self.is_arriving {
                true => FeedChange::DeleteArriving,
                false => FeedChange::Delete,
            };
            return Ok(FeedEntry { version, time, key, change });
        };
        let RowView { version, expires, value, .. } = RowView::read(&row).map_err(corrupt)?;
        let change = match self.has_values {
            true => FeedChange::PutValue { expires, value: row.slice_ref(value) },
            false => FeedChange::Put,
        };
        Ok(FeedEntry { version, time, key, change })
    }
}

/// Returns true for the tree key of a feed's record.
#[inline]
fn is_record(key: &[u8]) -> bool {
    const ROW: u8 = Space::Row as u8;
    matches!(key.get(4..=ROW_PREFIX_BYTES), Some([ROW, 0, 0, 0, 0, FEED_RECORD]))
}

fn new_row(change: &RowChange) -> Option<&Bytes> {
    match change {
        RowChange::Put(_, row) => Some(row),
        RowChange::Remove(_) => None,
    }
}
