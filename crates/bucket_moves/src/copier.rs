//! Reader of a moving bucket: rows, sessions and outcomes of the group that the bucket leaves, from
//! applied state, in parts of bounded size.

use crate::message::Item;
use base::codec::Reader;
use base::error::corrupt;
use base::{BucketDigest, Result, SessionId};
use bytes::Bytes;
use replica_state::layout::{StoredRow, StoredSession};
use replication::bucket::Bucket;
use replication::change_capture::{ChangeCapture, prefixes};
use replication::group::Group;
use runtime::log_writer::store_error;
use std::sync::Arc;
use store::{Chunk, Snapshot};

/// Bytes of rows counted in one round.
const COUNT_BYTES: usize = 1 << 20;

/// Reader of the rows, sessions and outcomes that move with a bucket.
#[derive(Clone)]
pub(crate) struct Copier {
    group: Arc<Group>,
    bucket: BucketDigest,
    prefixes: [Bytes; 3],
    /// True if rows that have expired are sent: the bucket has a feed, and the target adds their
    /// deletes to it.
    sends_expired: bool,
    /// Bytes of one part; a larger row forms a part of its own.
    part_bytes: usize,
}

/// Cursor of a scan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    /// Index of the prefix.
    prefix_index: usize,
    /// Last key that was read.
    after: Option<Bytes>,
}

/// Result of one round of a scan.
pub(crate) struct ScanRound {
    pub items: Vec<Item>,
    /// Cursor of the next round. `None`: the scan is complete.
    pub next: Option<Cursor>,
}

impl Copier {
    pub(crate) fn new(group: Arc<Group>, bucket: &Bucket, part_bytes: usize) -> Copier {
        let prefixes = prefixes(group.id, bucket.id);
        let sends_expired = group.feeds.find(bucket.id).is_some();
        Copier { group, bucket: bucket.digest, prefixes, sends_expired, part_bytes }
    }

    /// Counts the bucket's rows, and their bytes. Blocks.
    pub(crate) fn count(&self) -> Result<(u64, u64)> {
        let (mut rows, mut bytes, mut after) = (0, 0, None);
        loop {
            let snapshot = self.group.shared.trees.snapshot();
            let chunk = Chunk::read(&*snapshot, &self.prefixes[0], after.as_ref(), COUNT_BYTES);
            let chunk = chunk.map_err(store_error)?;
            rows += chunk.rows.len() as u64;
            bytes += chunk.rows.iter().map(|(key, row)| key.len() + row.len()).sum::<usize>();
            match chunk.more_after {
                Some(key) => after = Some(key),
                None => return Ok((rows, bytes as u64)),
            }
        }
    }

    /// Reads the next part of everything. Reports to `capture` that the read begins, and afterwards
    /// the last key read. Blocks.
    pub(crate) fn scan(&self, capture: &ChangeCapture, cursor: Cursor) -> Result<ScanRound> {
        capture.begin_read();
        let Cursor { prefix_index, after } = cursor;
        let now = self.group.now();
        let snapshot = self.group.shared.trees.snapshot();
        let prefix = &self.prefixes[prefix_index];
        let chunk = Chunk::read(&*snapshot, prefix, after.as_ref(), self.part_bytes);
        let chunk = chunk.map_err(store_error)?;
        let next = match chunk.more_after {
            Some(key) => Some(Cursor { prefix_index, after: Some(key) }),
            None => Some(Cursor { prefix_index: prefix_index + 1, after: None }),
        };
        if let (0, Some(Cursor { prefix_index: 0, after: Some(key) })) = (prefix_index, &next) {
            capture.end_read(key.clone());
        }
        let mut items = Vec::new();
        for (key, row) in chunk.rows {
            items.extend(self.item(&key, Some(row), now)?.filter(|item| !is_removal(item)));
        }
        let next = next.filter(|cursor| cursor.prefix_index < self.prefixes.len());
        Ok(ScanRound { items, next })
    }

    /// Reads these keys again, up to a part's size. Returns their items and the remaining keys.
    /// Blocks.
    pub(crate) fn reread(&self, mut keys: Vec<Bytes>) -> Result<(Vec<Item>, Vec<Bytes>)> {
        let now = self.group.now();
        let snapshot: Box<dyn Snapshot> = self.group.shared.trees.snapshot();
        let (mut items, mut bytes, mut count) = (Vec::new(), 0, 0);
        for key in &keys {
            if bytes >= self.part_bytes {
                break;
            }
            count += 1;
            let row = snapshot.get(key).map_err(store_error)?;
            if let Some(item) = self.item(key, row, now)? {
                bytes += item.bytes();
                items.push(item);
            }
        }
        Ok((items, keys.split_off(count)))
    }

    /// Returns the item for a key. `None`: there is nothing to send. A session or an outcome that
    /// is removed here may stay at the target.
    fn item(&self, key: &Bytes, row: Option<Bytes>, now: u64) -> Result<Option<Item>> {
        let [rows, sessions, _] = &self.prefixes;
        if key.starts_with(rows) {
            let key = key.slice(rows.len()..);
            let Some(row) = row else { return Ok(Some(Item::Removed { key })) };
            let expired = StoredRow::read(&row).map_err(corrupt)?.is_expired(now);
            let is_gone = expired && !self.sends_expired;
            return Ok(Some(if is_gone { Item::Removed { key } } else { Item::Row { key, row } }));
        }
        let Some(row) = row else { return Ok(None) };
        let mut reader = Reader::new(&key[sessions.len()..]);
        let session = SessionId(reader.u64("session").map_err(corrupt)?.swap_bytes());
        if key.starts_with(sessions) {
            let stored = StoredSession::read(&row).map_err(corrupt)?;
            // A session that is bound to another bucket is of no use at the target.
            let is_bound_here = stored.bucket.is_none_or(|bucket| bucket == self.bucket);
            let is_moved = is_bound_here && stored.expires() > now;
            return Ok(is_moved.then_some(Item::Session { session, stored }));
        }
        let number = reader.u64("request number").map_err(corrupt)?.swap_bytes();
        Ok(Some(Item::Outcome { session, number, outcome: row }))
    }
}

fn is_removal(item: &Item) -> bool {
    matches!(item, Item::Removed { .. })
}
