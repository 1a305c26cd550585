//! Pages of a feed, from a snapshot of a replica's rows.
//!
//! An entry of a put without its value is an event only while the row has its version: a later
//! entry of the key follows otherwise. So the number of entries that a page passes over is bounded:
//! it may end early, without an event, and its token goes on behind what was passed.
//!
//! A reader that comes from the start is told of the records that there are, and only behind where
//! the feed ended at its begin of every value. Trimming may remove a delete before such a reader
//! comes to it, and an older put of the key with its value may stay: neither may be told alone.

use super::rows::{feed_key, feed_prefix, load_mark, load_record, load_retention, read_feed_key};
use crate::layout::{self, StoredRow};
use base::error::corrupt;
use base::feed::FeedEventKind;
use base::limits::ROW_OVERHEAD_BYTES;
use base::range::prefix_end;
use base::reply::IndexRecord;
use base::{BucketId, FeedEvent, GroupId, LogIndex, Result, Row, Version};
use bytes::Bytes;
use change_feed::{ConsistentToken, FeedChange, FeedEntry, FeedPhase, FeedPosition, FeedRecord};
use runtime::log_writer::store_error;
use std::ops::Bound;
use store::Snapshot;

/// Maximum number of entries that a page passes, events or not.
const PASSED_MAX: usize = 4_096;
/// Bytes of entries and rows at which a page ends, events or not. The last may exceed it.
const READ_BYTES_MAX: usize = 4 << 20;

/// Origin of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOrigin {
    /// The oldest entry.
    Start,
    /// Behind all entries.
    Now,
    /// Behind what the reader of this token has passed.
    Token(ConsistentToken),
}

/// Query for a page.
#[derive(Clone, Copy, Debug)]
pub struct PageQuery {
    /// Origin of the page.
    pub origin: PageOrigin,
    /// Maximum number of events.
    pub events_max: usize,
    /// Bytes of events at which the page ends.
    pub bytes_max: usize,
    /// True if events have their records.
    pub has_values: bool,
    /// Index up to which the log is decided, if the replica knows. A token that is ahead of it is
    /// of a history that was lost: an older checkpoint was restored.
    pub decided: Option<LogIndex>,
}

/// Page of a feed.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPage {
    /// Events, in the order of their positions.
    pub events: Vec<FeedEvent>,
    /// Token for the next page.
    pub next: ConsistentToken,
    /// True if no entry follows.
    pub is_level: bool,
    /// True if the page begins at the start, because entries behind the token were removed, or are
    /// of another feed.
    pub is_restart: bool,
}

/// Answer to a query.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedAnswer {
    /// A page.
    Page(FoundPage),
    /// The feed has not all records yet. Number of rows that its builder has read.
    Building(u64),
    /// The bucket has no feed here.
    Off,
}

/// Reads a page as of a snapshot of a group's store. Errors: those of rows that can't be read or
/// decoded.
pub fn read_page(
    snapshot: &dyn Snapshot,
    place: (GroupId, BucketId),
    query: &PageQuery,
) -> Result<FeedAnswer> {
    let record = load_record(snapshot, place.0, place.1)?;
    let Some(record) = record.filter(|record| record.phase != FeedPhase::Dropping) else {
        return Ok(FeedAnswer::Off);
    };
    if record.phase != FeedPhase::Ready {
        return Ok(FeedAnswer::Building(record.rows));
    }
    let mut reader = PageReader::new(snapshot, place, &record, query)?;
    let end = FeedPosition::end_of(record.era, reader.applied);
    let scan = |after| ConsistentToken {
        making: record.making,
        position: after,
        scan_end: Some(end).filter(|end| *end > after),
    };
    let retention = load_retention(snapshot, place.0, place.1)?;
    let (from, is_restart) = match query.origin {
        PageOrigin::Start => (scan(retention.oldest), false),
        PageOrigin::Now => (scan(end), false),
        PageOrigin::Token(token) => {
            let last = query.decided.map(|decided| FeedPosition::end_of(record.era, decided));
            let is_lost = token.making != record.making
                || last.is_some_and(|last| token.position > last.max(end))
                || retention.has_passed(token.position, token.scan_end);
            if is_lost { (scan(retention.oldest), true) } else { (token, false) }
        }
    };
    let (passed, is_level) = match query.origin {
        PageOrigin::Now => (end, true),
        _ => reader.read(&from)?,
    };
    // A replica that lags behind the one that gave the token does not go back.
    let position = if is_level { passed.max(end) } else { passed }.max(from.position);
    let scan_end = from.scan_end.filter(|end| *end > position);
    let next = ConsistentToken { making: record.making, position, scan_end };
    Ok(FeedAnswer::Page(FoundPage { events: reader.events, next, is_level, is_restart }))
}

struct PageReader<'a> {
    snapshot: &'a dyn Snapshot,
    place: (GroupId, BucketId),
    record: &'a FeedRecord,
    query: &'a PageQuery,
    /// Index of the last applied entry of the log.
    applied: LogIndex,
    /// Group time of that entry, milliseconds.
    now: u64,
    events: Vec<FeedEvent>,
    /// Bytes of the events.
    bytes: usize,
    /// Bytes of entries and rows that were read.
    read_bytes: usize,
}

impl<'a> PageReader<'a> {
    fn new(
        snapshot: &'a dyn Snapshot,
        place: (GroupId, BucketId),
        record: &'a FeedRecord,
        query: &'a PageQuery,
    ) -> Result<PageReader<'a>> {
        let mark = load_mark(snapshot, place.0)?;
        Ok(PageReader {
            snapshot,
            place,
            record,
            query,
            applied: LogIndex(mark.applied),
            now: mark.time,
            events: Vec::new(),
            bytes: 0,
            read_bytes: 0,
        })
    }

    /// Reads events behind a token. Returns the last position that it passed, and true if no entry
    /// follows.
    fn read(&mut self, token: &ConsistentToken) -> Result<(FeedPosition, bool)> {
        let ((group, bucket), after) = (self.place, token.position);
        let high =
            Bytes::from(prefix_end(&feed_prefix(group, bucket)).expect("a space is not all 0xFF"));
        let low = Bound::Excluded(feed_key(group, bucket, after));
        let (mut last, mut passed) = (after, 0);
        for row in self.snapshot.range(low, Bound::Excluded(high), false) {
            let (key, row) = row.map_err(store_error)?;
            let is_full = self.events.len() >= self.query.events_max
                || self.bytes >= self.query.bytes_max
                || self.read_bytes >= READ_BYTES_MAX
                || passed >= PASSED_MAX;
            if is_full {
                return Ok((last, false));
            }
            last = read_feed_key(&key)?;
            passed += 1;
            self.read_bytes += key.len() + row.len();
            let entry = FeedEntry::decode(&row).map_err(corrupt)?;
            let is_scan = token.scan_end.is_some_and(|end| last <= end);
            if let Some(event) = self.event(entry, is_scan)? {
                let value_bytes = match &event.record {
                    Some(IndexRecord::Row(row)) => row.value.len(),
                    _ => 0,
                };
                self.bytes += event.key.len() + value_bytes + ROW_OVERHEAD_BYTES;
                self.events.push(event);
            }
        }
        Ok((last, true))
    }

    /// Returns the event of an entry. `None`: the entry is dead, or what it put has expired.
    /// `is_scan`: the reader comes from the start, and is told of records that there are.
    fn event(&mut self, entry: FeedEntry, is_scan: bool) -> Result<Option<FeedEvent>> {
        let FeedEntry { version, key, change, time: _ } = entry;
        // What this group had counted when the row went says nothing of a row of another group.
        let told_version = (change != FeedChange::DeleteArriving).then_some(version);
        let (kind, row) = match change {
            FeedChange::Delete if self.record.has_values => (FeedEventKind::Delete, None),
            FeedChange::Delete | FeedChange::DeleteArriving => {
                if self.row(&key)?.is_some() {
                    return Ok(None);
                }
                (FeedEventKind::Delete, None)
            }
            FeedChange::Put => match self.row(&key)?.filter(|row| row.version == version) {
                Some(row) => (FeedEventKind::Put, Some((row.expires, row.value))),
                None => return Ok(None),
            },
            FeedChange::PutValue { .. } if is_scan && !self.is_living(&key, version)? => {
                return Ok(None);
            }
            FeedChange::PutValue { expires, value } => {
                // The delete of what has expired follows.
                if expires.is_some_and(|expires| expires <= self.now) {
                    return Ok(None);
                }
                (FeedEventKind::Put, Some((expires, value)))
            }
        };
        let record = row.filter(|_| self.query.has_values).map(|(expires, value)| {
            let expires_in_ms = expires.map(|expires| expires.saturating_sub(self.now));
            IndexRecord::Row(Row { value, version, expires_in_ms, tags: None })
        });
        Ok(Some(FeedEvent { kind, key, version: told_version, record, again: false }))
    }

    /// Returns true if the row of a key has this version, and has not expired.
    fn is_living(&mut self, key: &[u8], version: Version) -> Result<bool> {
        Ok(self.row(key)?.is_some_and(|row| row.version == version))
    }

    /// Reads the row of a key. `None`: it is absent or has expired.
    fn row(&mut self, key: &[u8]) -> Result<Option<StoredRow>> {
        let mut tree_key = Vec::with_capacity(layout::ROW_PREFIX_BYTES + key.len());
        layout::row_key(self.place.0, self.place.1, key, &mut tree_key);
        let Some(row) = self.snapshot.get(&tree_key).map_err(store_error)? else {
            return Ok(None);
        };
        self.read_bytes += row.len();
        let row = StoredRow::read(&row).map_err(corrupt)?;
        Ok((!row.is_expired(self.now)).then_some(row))
    }
}
