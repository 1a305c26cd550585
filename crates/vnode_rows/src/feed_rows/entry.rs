//! Entry of a feed: that a key changed, and by which row.
//!
//! ```text
//! entry = slot u16 BE | kind u8 | hash of the row u64 BE | written, Unix ms, varint | key
//! ```
//! Kinds: 0 put, 1 delete.
//!
//! A row with another hash says that a later entry of the key exists: then this one may be left
//! out, and removed once it is old.

use crate::layout::{StoredValue, read_row};
use crate::slots::{SLOTS, Slot};
use base::codec::{Malformed, Reader, checksum};
use base::feed::FeedEventKind;
use base::{Key, varint};
use bytes::Bytes;

/// Salt of the hash of rows.
const ROW_SALT: u64 = 0;

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VnodeFeedEntry {
    /// Slot of the key, by which a reader leaves out what it reads elsewhere.
    pub slot: Slot,
    /// Kind of the change: a delete if the row has no living value.
    pub kind: FeedEventKind,
    /// Hash of the row.
    pub row_hash: u64,
    /// Time at which the entry was written, in Unix milliseconds, by this node's clock.
    pub written_ms: u64,
    /// Key that changed.
    pub key: Key,
}

impl VnodeFeedEntry {
    /// Returns the entry of a row, as it is written now.
    pub fn of_row(slot: Slot, key: Key, row: &Bytes, now_ms: u64) -> VnodeFeedEntry {
        // What reads a row that can't be read reports the damage.
        let kind = match read_row(row) {
            Ok(row) if row.values().all(StoredValue::is_tombstone) => FeedEventKind::Delete,
            _ => FeedEventKind::Put,
        };
        VnodeFeedEntry { slot, kind, row_hash: row_hash(row), written_ms: now_ms, key }
    }

    /// Returns true if it tells of this row.
    pub fn tells_of(&self, row: &[u8]) -> bool {
        self.row_hash == row_hash(row)
    }

    /// Encodes the entry.
    pub fn write(&self) -> Bytes {
        let mut out = Vec::with_capacity(17 + self.key.len());
        out.extend_from_slice(&(self.slot.0 as u16).to_be_bytes());
        out.push(self.kind as u8);
        out.extend_from_slice(&self.row_hash.to_be_bytes());
        varint::put(self.written_ms, &mut out);
        out.extend_from_slice(&self.key);
        out.into()
    }

    /// Decodes an entry. Its key is a slice of the bytes.
    pub fn read(bytes: &Bytes) -> Result<VnodeFeedEntry, Malformed> {
        const HEAD: Malformed = Malformed("the head of a feed entry");
        let (slot, rest) = bytes.split_first_chunk().ok_or(HEAD)?;
        let (kind, rest) = rest.split_first().ok_or(HEAD)?;
        let (hash, rest) = rest.split_first_chunk().ok_or(HEAD)?;
        let slot = Slot(u16::from_be_bytes(*slot).into());
        let kind = match kind {
            0 => FeedEventKind::Put,
            1 => FeedEventKind::Delete,
            _ => return Err(HEAD),
        };
        if slot.0 >= SLOTS {
            return Err(HEAD);
        }
        let mut from = Reader::new(rest);
        let written_ms = varint::take(&mut from, "the time of a feed entry")?;
        let key = bytes.slice_ref(from.rest());
        Ok(VnodeFeedEntry { slot, kind, row_hash: u64::from_be_bytes(*hash), written_ms, key })
    }
}

fn row_hash(row: &[u8]) -> u64 {
    checksum(row, ROW_SALT)
}
