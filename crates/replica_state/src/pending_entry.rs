//! An entry of the log from its creation until it is applied: its bytes, and a table to look up its
//! effects.
//!
//! The bytes are the payload of the log record, laid out as updates are evaluated; nothing is
//! copied again:
//!
//! ```text
//! payload = format u8 (1) | time u64 | first version u64 | updates u32 | effect ...
//!         | format u8 (2) | time u64 | first version u64 | updates u32 (0) | configuration
//! effect  = 1 u8 | key length u32 | row length u32 | tree key | row        put
//!         | 0 u8 | key length u32 | 0 u32          | tree key              remove
//! ```
//! The second is a stop-sign, behind which the next configuration decides.
//!
//! The table maps a tree key to the offset of its latest effect, and holds no key: undecided
//! entries are an overlay over the store, and putting a row into the overlay must cost next to
//! nothing.

use crate::effect_layout::{EFFECT_HEAD_BYTES, PUT, REMOVE, key_at, ranges_at};
use crate::effect_order::EffectOrder;
use crate::layout::RowHead;
use base::codec;
use base::{LogIndex, Version};
use bytes::Bytes;
use hashbrown::HashTable;
use logic::consensus::Configuration;

/// Format of an entry of updates.
pub const FORMAT: u8 = 1;
/// Format of a stop-sign.
pub const FORMAT_SIGN: u8 = 2;
/// Number of bytes in front of an entry's effects.
pub const HEAD_BYTES: usize = 21;
/// Maximum capacity that is reused for the next entry: a burst's larger buffers are freed.
const REUSED_BYTES_MAX: usize = 1 << 20;
const REUSED_ROWS_MAX: usize = 8_192;

struct RowSlot {
    hash: u64,
    offset: u32,
}

enum Payload {
    Open(Vec<u8>),
    Closed(Bytes),
}

/// Entry with its table of effects.
pub struct PendingEntry {
    /// Index of the entry in its group's log.
    pub index: LogIndex,
    /// Group time of its updates, milliseconds.
    pub time: u64,
    /// Version of its first update.
    pub first_version: u64,
    /// Number of its updates.
    pub updates: u32,
    /// True if a client waits for its sync.
    pub sync: bool,
    /// Earliest group time at which one of its rows expires.
    pub earliest_expiry: u64,
    /// Next configuration, if this is a stop-sign.
    pub sign: Option<Configuration>,
    payload: Payload,
    table: HashTable<RowSlot>,
    /// Slots that each effect replaced in the table, so that a failed sequence can be undone.
    journal: Vec<(u32, Option<u32>)>,
    /// Order of the effects by tree key, as of the last range read.
    order: EffectOrder,
    salt: u64,
}

/// Buffers that a closed entry passes to the next one. The next entry is built in the same buffer,
/// which is large enough and still in the processor's caches, and its payload is copied out at the
/// close. The copy costs less than the slack of a buffer of its own, because payloads stay in
/// memory until they are flushed. Only a large entry keeps its buffer.
#[derive(Default)]
pub struct EntryBuffers {
    bytes: Vec<u8>,
    journal: Vec<(u32, Option<u32>)>,
    rows: usize,
}

/// State of an open entry to which [`PendingEntry::undo`] returns.
#[derive(Clone, Copy)]
pub struct Savepoint {
    /// Number of bytes of the entry at that time.
    pub bytes: usize,
    journal: usize,
}

impl PendingEntry {
    /// Creates an empty entry. `salt` keys the table's hashes.
    pub fn new(
        index: LogIndex,
        time: u64,
        first_version: u64,
        salt: u64,
        buffers: EntryBuffers,
    ) -> PendingEntry {
        let EntryBuffers { mut bytes, journal, rows } = buffers;
        bytes.resize(HEAD_BYTES, 0); // filled in when it is closed
        PendingEntry {
            index,
            time,
            first_version,
            updates: 0,
            sync: false,
            earliest_expiry: u64::MAX,
            sign: None,
            payload: Payload::Open(bytes),
            table: HashTable::with_capacity(rows),
            journal,
            order: EffectOrder::new(HEAD_BYTES),
            salt,
        }
    }

    /// Creates a stop-sign.
    pub fn sign(
        index: LogIndex,
        time: u64,
        first_version: u64,
        configuration: Configuration,
    ) -> PendingEntry {
        let mut bytes = vec![FORMAT_SIGN];
        bytes.extend_from_slice(&time.to_le_bytes());
        bytes.extend_from_slice(&first_version.to_le_bytes());
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        configuration.write(&mut bytes);
        let sign = Some(configuration);
        let payload = Payload::Closed(Bytes::from(bytes));
        PendingEntry {
            sync: true,
            sign,
            payload,
            ..PendingEntry::new(index, time, first_version, 0, EntryBuffers::default())
        }
    }

    /// Returns the number of bytes of the entry so far.
    pub fn payload_bytes(&self) -> usize {
        self.bytes().len()
    }

    /// Returns the version of the next update.
    pub fn version(&self) -> Version {
        Version(self.first_version + u64::from(self.updates))
    }

    fn bytes(&self) -> &[u8] {
        match &self.payload {
            Payload::Open(bytes) => bytes,
            Payload::Closed(bytes) => bytes,
        }
    }

    fn open(&mut self) -> &mut Vec<u8> {
        match &mut self.payload {
            Payload::Open(bytes) => bytes,
            Payload::Closed(_) => unreachable!("effects are written into an open value only"),
        }
    }

    /// Adds the put of a row without tags under a tree key.
    #[inline]
    pub fn put(&mut self, key: &[u8], version: Version, expires: Option<u64>, value: &[&[u8]]) {
        self.put_row(key, RowHead { version, expires, tags: &[] }, value);
    }

    /// Adds the put of a row under a tree key; its value may consist of parts.
    #[inline]
    pub fn put_row(&mut self, key: &[u8], head: RowHead<'_>, value: &[&[u8]]) {
        let value_bytes: usize = value.iter().map(|part| part.len()).sum();
        let row_bytes = head.bytes() + value_bytes;
        let bytes = self.open();
        let offset = bytes.len();
        bytes.reserve(EFFECT_HEAD_BYTES + key.len() + row_bytes);
        bytes.push(PUT);
        bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(row_bytes as u32).to_le_bytes());
        bytes.extend_from_slice(key);
        head.write(bytes);
        for part in value {
            bytes.extend_from_slice(part);
        }
        self.index_effect(key, offset);
    }

    /// Adds the put of bytes that are no row under a tree key.
    pub fn put_raw(&mut self, key: &[u8], value: &[u8]) {
        let bytes = self.open();
        let offset = bytes.len();
        bytes.push(PUT);
        bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        self.index_effect(key, offset);
    }

    /// Adds the removal of a tree key.
    pub fn remove(&mut self, key: &[u8]) {
        let bytes = self.open();
        let offset = bytes.len();
        bytes.push(REMOVE);
        bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&0u32.to_le_bytes());
        bytes.extend_from_slice(key);
        self.index_effect(key, offset);
    }

    #[inline]
    fn index_effect(&mut self, key: &[u8], offset: usize) {
        let hash = codec::checksum(key, self.salt);
        let offset = offset as u32;
        let Payload::Open(bytes) = &self.payload else { return };
        let is_same_key = |slot: &RowSlot| slot.hash == hash && key_at(bytes, slot.offset) == key;
        let replaced = match self.table.find_mut(hash, is_same_key) {
            Some(slot) => Some(std::mem::replace(&mut slot.offset, offset)),
            None => {
                self.table.insert_unique(hash, RowSlot { hash, offset }, |slot| slot.hash);
                None
            }
        };
        self.journal.push((offset, replaced));
    }

    /// Returns the entry's effect on a tree key: `None` if it has none, `Some(None)` if it removes
    /// the key, else the bytes that it writes.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        if self.table.is_empty() {
            return None;
        }
        let hash = codec::checksum(key, self.salt);
        let bytes = self.bytes();
        let slot =
            self.table.find(hash, |slot| slot.hash == hash && key_at(bytes, slot.offset) == key)?;
        Some(self.row_at(slot.offset))
    }

    /// Returns the row that the effect at this offset writes. `None`: it removes its key.
    pub fn row_at(&self, offset: u32) -> Option<Bytes> {
        let (put, key, row) = ranges_at(self.bytes(), offset as usize);
        debug_assert!(key.end == row.start);
        put.then(|| match &self.payload {
            Payload::Open(bytes) => Bytes::copy_from_slice(&bytes[row]),
            Payload::Closed(bytes) => bytes.slice(row),
        })
    }

    /// Returns the tree key of the effect at this offset.
    pub fn key_at(&self, offset: u32) -> &[u8] {
        key_at(self.bytes(), offset)
    }

    /// Returns the number of tree keys that it changes.
    pub fn rows(&self) -> usize {
        self.table.len()
    }

    /// Orders the effects so far by their tree keys, for [`Self::sorted_lists`].
    pub fn order_effects(&mut self) {
        // The payload of a stop-sign holds no effects.
        if self.table.is_empty() {
            return;
        }
        match &self.payload {
            Payload::Open(bytes) => self.order.extend(bytes),
            Payload::Closed(bytes) => self.order.complete(bytes),
        }
    }

    /// Returns the effects' offsets in lists that are sorted by tree key, the oldest list first. Of
    /// several effects on a key, the last one of the last list holds. Effects since the last
    /// [`Self::order_effects`] are missing.
    pub fn sorted_lists(&self) -> impl Iterator<Item = &[u32]> {
        self.order.lists()
    }

    /// Returns the current state, for [`Self::undo`] if a later effect must not stay.
    #[inline]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { bytes: self.payload_bytes(), journal: self.journal.len() }
    }

    /// Undoes every effect since the savepoint.
    pub fn undo(&mut self, savepoint: Savepoint) {
        while self.journal.len() > savepoint.journal {
            let Some((offset, replaced)) = self.journal.pop() else { break };
            let Payload::Open(bytes) = &self.payload else { break };
            let hash = codec::checksum(key_at(bytes, offset), self.salt);
            match replaced {
                Some(previous) => {
                    if let Some(slot) = self.table.find_mut(hash, |slot| slot.offset == offset) {
                        slot.offset = previous;
                    }
                }
                None => {
                    if let Ok(entry) = self.table.find_entry(hash, |slot| slot.offset == offset) {
                        entry.remove();
                    }
                }
            }
        }
        self.open().truncate(savepoint.bytes);
        self.order.truncate(savepoint.bytes);
    }

    /// Closes the entry and returns the payload of its log record. The table stays usable.
    pub fn close(&mut self) -> Bytes {
        self.close_for_reuse();
        match &self.payload {
            Payload::Closed(bytes) => bytes.clone(),
            Payload::Open(_) => unreachable!("it was closed above"),
        }
    }

    /// Closes the entry, and returns the buffers that the next entry can reuse.
    pub fn close_for_reuse(&mut self) -> EntryBuffers {
        let Payload::Open(bytes) = &mut self.payload else { return EntryBuffers::default() };
        let mut bytes = std::mem::take(bytes);
        bytes[0] = FORMAT;
        bytes[1..9].copy_from_slice(&self.time.to_le_bytes());
        bytes[9..17].copy_from_slice(&self.first_version.to_le_bytes());
        bytes[17..21].copy_from_slice(&self.updates.to_le_bytes());
        let mut buffers = EntryBuffers {
            bytes: Vec::new(),
            journal: std::mem::take(&mut self.journal),
            rows: self.table.len().max(self.table.capacity() / 2).min(REUSED_ROWS_MAX),
        };
        buffers.journal.clear();
        buffers.journal.shrink_to(REUSED_ROWS_MAX);
        self.payload = Payload::Closed(if bytes.capacity() > REUSED_BYTES_MAX {
            Bytes::from(bytes)
        } else {
            let payload = Bytes::copy_from_slice(&bytes);
            bytes.clear();
            buffers.bytes = bytes;
            payload
        });
        buffers
    }
}

#[cfg(debug_assertions)]
mod inspection;
