//! Reader of a moving bucket: rows, sessions and outcomes of the group that the bucket leaves, from
//! applied state, in parts of bounded size.

use super::message::Item;
use base::codec::Reader;
use base::error::corrupt;
use base::{BucketDigest, Result, SessionId};
use bytes::Bytes;
use replication::bucket::Bucket;
use replication::change_capture::{ChangeCapture, prefixes};
use replication::group::Group;
use replication::layout::{StoredRow, StoredSession};
use runtime::log_writer::store_error;
use std::sync::Arc;
use store::{Chunk, Snapshot};

/// Bytes of one part; a larger row goes alone. Tests have little to copy, and want many parts.
const PART_BYTES: usize = if cfg!(test) { 2 << 10 } else { 256 << 10 };
/// Bytes of rows counted in one round.
const COUNT_BYTES: usize = 1 << 20;

/// Reads what moves with a bucket.
#[derive(Clone)]
pub(super) struct Copier {
    group: Arc<Group>,
    bucket: BucketDigest,
    prefixes: [Bytes; 3],
}

/// Cursor of a scan.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursor {
    /// Index of the prefix.
    which: usize,
    /// Last key that was read.
    after: Option<Bytes>,
}

/// Result of one round of a scan.
pub(super) struct ScanRound {
    pub items: Vec<Item>,
    /// Cursor of the next round. `None`: that was all.
    pub next: Option<Cursor>,
}

impl Copier {
    pub(super) fn new(group: Arc<Group>, bucket: &Bucket) -> Copier {
        let prefixes = prefixes(group.id, bucket.id);
        Copier { group, bucket: bucket.digest, prefixes }
    }

    /// Counts the bucket's rows, and their bytes. Blocks.
    pub(super) fn count(&self) -> Result<(u64, u64)> {
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

    /// Reads the next part of everything. Tells `tracked` before the read that it begins, and after
    /// it up to which key it came. Blocks.
    pub(super) fn scan(&self, tracked: &ChangeCapture, cursor: Cursor) -> Result<ScanRound> {
        tracked.reads();
        let Cursor { which, after } = cursor;
        let now = self.group.now();
        let snapshot = self.group.shared.trees.snapshot();
        let prefix = &self.prefixes[which];
        let chunk = Chunk::read(&*snapshot, prefix, after.as_ref(), PART_BYTES);
        let chunk = chunk.map_err(store_error)?;
        let next = match chunk.more_after {
            Some(key) => Some(Cursor { which, after: Some(key) }),
            None => Some(Cursor { which: which + 1, after: None }),
        };
        if let (0, Some(Cursor { which: 0, after: Some(key) })) = (which, &next) {
            tracked.has_read(key.clone());
        }
        let mut items = Vec::new();
        for (key, row) in chunk.rows {
            items.extend(self.item(&key, Some(row), now)?.filter(|item| !is_gone(item)));
        }
        let next = next.filter(|cursor| cursor.which < self.prefixes.len());
        Ok(ScanRound { items, next })
    }

    /// Reads these keys again, up to a part's size. Returns their items and the keys that are left.
    /// Blocks.
    pub(super) fn again(&self, mut keys: Vec<Bytes>) -> Result<(Vec<Item>, Vec<Bytes>)> {
        let now = self.group.now();
        let snapshot: Box<dyn Snapshot> = self.group.shared.trees.snapshot();
        let (mut items, mut bytes, mut taken) = (Vec::new(), 0, 0);
        for key in &keys {
            if bytes >= PART_BYTES {
                break;
            }
            taken += 1;
            let row = snapshot.get(key).map_err(store_error)?;
            if let Some(item) = self.item(key, row, now)? {
                bytes += item.bytes();
                items.push(item);
            }
        }
        Ok((items, keys.split_off(taken)))
    }

    /// Returns the item for a key. `None`: there is nothing to send. A session or an outcome that
    /// is gone here may stay there.
    fn item(&self, key: &Bytes, row: Option<Bytes>, now: u64) -> Result<Option<Item>> {
        let [rows, sessions, _] = &self.prefixes;
        if key.starts_with(rows) {
            let key = key.slice(rows.len()..);
            let Some(row) = row else { return Ok(Some(Item::Gone { key })) };
            let expired = StoredRow::read(&row).map_err(corrupt)?.expired(now);
            return Ok(Some(if expired { Item::Gone { key } } else { Item::Row { key, row } }));
        }
        let Some(row) = row else { return Ok(None) };
        let mut name = Reader::new(&key[sessions.len()..]);
        let session = SessionId(name.u64("session").map_err(corrupt)?.swap_bytes());
        if key.starts_with(sessions) {
            let stored = StoredSession::read(&row).map_err(corrupt)?;
            // Where the bucket goes a session of another bucket would be of no use.
            let is_bound_here = stored.bucket.is_none_or(|bucket| bucket == self.bucket);
            let comes_along = is_bound_here && stored.expires() > now;
            return Ok(comes_along.then_some(Item::Session { session, stored }));
        }
        let number = name.u64("request number").map_err(corrupt)?.swap_bytes();
        Ok(Some(Item::Outcome { session, number, outcome: row }))
    }
}

fn is_gone(item: &Item) -> bool {
    matches!(item, Item::Gone { .. })
}
