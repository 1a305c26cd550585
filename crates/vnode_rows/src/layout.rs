//! Layout of the local store: keys of a vnode's rows, and the bytes of a stored value.
//!
//! A vnode is the part of one node in one *slot*: the ring of 2^160 points is cut into 1,024 slots
//! for good, and a partition is a fixed number of consecutive slots of its ring. So rows, actors
//! and hints keep their keys, whatever number of partitions the ring has.
//!
//! ```text
//! tree key = owner u32 BE | space u8 | ...      owner = 2^31 + slot, after every group
//!   record  (nothing)                           -> minter (logic::causal::Minter)
//!   row     length u16 BE | bucket | key        -> clock with its values (logic::causal)
//!   hint    primary u64 BE | as a row           -> (nothing): the row must go to that node
//! owner = 2^31 + partition, in the ring of the change that it belongs to
//!   arrival copies u8                           -> progress of the copy (dynamo/handoff)
//! owner = 2^31 + 65536 (indexes), + 1 (feed), + 2 (views), of the node as a whole
//!   kind u8 | ...                               -> as their modules describe
//! 2^32 - 1 | 0                                  -> the mark of all vnodes: number of the last
//!                                                  batch applied u64, clean incarnation u64
//! value    = flags u8 | written, Unix ms, varint | [expires, Unix ms, varint] | [headers] | bytes
//! headers  = length, then content type, charset, encoding, pairs of metadata, pairs of indexes,
//!            links; every length and count a varint
//! ```
//!
//! Spaces 1 and 2 held rows and hints by partition: `migrate_v1.rs` moves them to their slots.

use super::headers;
use super::slots::Slot;
use base::codec::{Malformed, Reader, Writer, checksum};
use base::limits::{
    BUCKET_NAME_BYTES_MAX, CONTENT_HEADERS_BYTES_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX,
};
use base::{Actor, BucketName, Content, GroupId, Key, NodeId, Partition, Sibling, Vtag, varint};
use bytes::Bytes;
use logic::causal::{self, Clock, Coded};
use runtime::world;
use std::ops::Bound;

/// Owner of all vnodes' records in the log.
pub const VNODES: GroupId = GroupId(u32::MAX);
/// Owner of slot 0's rows.
const FIRST_OWNER: u32 = 1 << 31;

/// Number of owners that are slots, or partitions of a ring. Owners behind them are
/// [`NodeSpace`]s.
const SLOT_OWNERS: u32 = 1 << 16;

/// Key space of rows that belong to a node as a whole, behind the rows of all slots. Its rows are
/// derived from those of the slots: no scan of rows reads them, and no other node gets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NodeSpace {
    /// Secondary indexes.
    Index = 0,
    /// Change feed.
    Feed = 1,
    /// Views.
    Views = 2,
}

/// Kind of item that a tree key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Space {
    /// Record of each vnode, and the mark of all of them.
    Record = 0,
    /// Rows of earlier versions, stored by partition; a start moves them to their slots.
    FormerRow = 1,
    /// Hints of earlier versions, stored by partition; a start moves them, too.
    FormerHint = 2,
    /// Progress of partitions that this node receives, by the ring of the change.
    Arrival = 3,
    /// Rows of clients' keys.
    Row = 4,
    /// Hints: rows stored for another node until it is reachable.
    Hint = 5,
}

/// Maximum size of a row's tail: its tree key without slot and space, in bytes.
pub const TAIL_BYTES_MAX: usize = 2 + NAME_BYTES_MAX + 1 + BUCKET_NAME_BYTES_MAX + KEY_BYTES_MAX;

const TOMBSTONE: u8 = 1;
const HEADERS: u8 = 2;
const EXPIRES: u8 = 4;
/// Flag: the bytes are those of a data type (logic::types).
const TYPED: u8 = 8;

/// Row of a key: its values and the context of all writes seen.
pub type Row = Clock<Actor, StoredValue>;

/// Returns the tree key of the mark of all vnodes.
pub fn mark_key() -> Bytes {
    let mut key = VNODES.0.to_be_bytes().to_vec();
    key.push(Space::Record as u8);
    key.into()
}

/// Returns the lower bound of all vnodes' tree keys.
pub fn first_key() -> Bytes {
    FIRST_OWNER.to_be_bytes().to_vec().into()
}

/// Returns the upper bound, not included, of all slots' tree keys.
pub fn slots_end() -> Bytes {
    (FIRST_OWNER + SLOT_OWNERS).to_be_bytes().to_vec().into()
}

/// Returns the range of all slots' tree keys after one of them. `None`: from the first.
pub fn slot_keys(after: Option<Bytes>) -> (Bound<Bytes>, Bound<Bytes>) {
    (after.map_or(Bound::Included(first_key()), Bound::Excluded), Bound::Excluded(slots_end()))
}

/// Returns the prefix of the rows of a kind in a node's own space.
pub fn node_space_prefix(space: NodeSpace, kind: u8) -> Vec<u8> {
    let mut prefix = (FIRST_OWNER + SLOT_OWNERS + space as u32).to_be_bytes().to_vec();
    prefix.push(kind);
    prefix
}

pub(crate) fn key_prefix(owner: u32, space: Space, capacity: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + capacity);
    key.extend_from_slice(&(FIRST_OWNER + owner).to_be_bytes());
    key.push(space as u8);
    key
}

/// Returns the tree key of a vnode's record.
pub fn record_key(slot: Slot) -> Bytes {
    key_prefix(slot.0, Space::Record, 0).into()
}

/// Returns the tree key of the progress of a partition's copy, for the buckets with this number of
/// copies.
pub fn arrival_key(partition: Partition, copies: u8) -> Bytes {
    let mut key = key_prefix(partition.0, Space::Arrival, 1);
    key.push(copies);
    key.into()
}

/// Returns the prefix of all rows of a slot.
pub fn rows_prefix(slot: Slot) -> Vec<u8> {
    key_prefix(slot.0, Space::Row, 0)
}

/// Returns the prefix of a bucket's rows in a slot.
pub fn bucket_prefix(slot: Slot, bucket: &BucketName) -> Vec<u8> {
    let mut prefix = key_prefix(slot.0, Space::Row, 2 + bucket.full().len());
    push_bucket_and_key(bucket, b"", &mut prefix);
    prefix
}

/// Returns the tree key of a row. For tests that read a store.
pub fn row_key(bucket: &BucketName, key: &[u8]) -> Bytes {
    row_key_in(Slot::for_key(bucket, key), bucket, key)
}

/// Returns the tree key of a row in this slot.
pub fn row_key_in(slot: Slot, bucket: &BucketName, key: &[u8]) -> Bytes {
    let mut row = key_prefix(slot.0, Space::Row, 2 + bucket.full().len() + key.len());
    push_bucket_and_key(bucket, key, &mut row);
    row.into()
}

/// Returns the tree key of a hint.
pub fn hint_key(slot: Slot, primary: NodeId, bucket: &BucketName, key: &[u8]) -> Bytes {
    let mut hint = key_prefix(slot.0, Space::Hint, 10 + bucket.full().len() + key.len());
    hint.extend_from_slice(&primary.0.to_be_bytes());
    push_bucket_and_key(bucket, key, &mut hint);
    hint.into()
}

fn push_bucket_and_key(bucket: &BucketName, key: &[u8], out: &mut Vec<u8>) {
    let name = bucket.full().as_bytes();
    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(key);
}

/// Decodes the bucket and key of a row's tree key. `None`: it is no row's.
pub fn read_row_key(tree_key: &Bytes) -> Option<(BucketName, Key)> {
    slot_of(tree_key)?;
    read_row_tail(&tree_key.slice(5..))
}

/// Returns the slot of a row's tree key. `None`: it is no row's.
pub fn slot_of(tree_key: &[u8]) -> Option<Slot> {
    slot_in(Space::Row, tree_key)
}

/// Returns the slot of a tree key in this space. `None`: it lies in another, or behind all slots.
fn slot_in(space: Space, tree_key: &[u8]) -> Option<Slot> {
    let owner = u32::from_be_bytes(tree_key.get(..4)?.try_into().ok()?);
    let slot = owner.checked_sub(FIRST_OWNER).filter(|slot| *slot < SLOT_OWNERS)?;
    (tree_key.get(4) == Some(&(space as u8))).then_some(Slot(slot))
}

/// Returns the part of a row's tree key that is the same in every slot.
pub fn row_tail(tree_key: &Bytes) -> &[u8] {
    tree_key.get(5..).unwrap_or_default()
}

/// Decodes the bucket and key of a row's tail.
pub fn read_row_tail(tail: &Bytes) -> Option<(BucketName, Key)> {
    let length = u16::from_be_bytes(tail.get(..2)?.try_into().ok()?) as usize;
    let name = std::str::from_utf8(tail.get(2..2 + length)?).ok()?;
    Some((BucketName::from_full(name).ok()?, tail.slice(2 + length..)))
}

/// Returns the prefix of all hints of a slot.
pub fn hints_prefix(slot: Slot) -> Vec<u8> {
    key_prefix(slot.0, Space::Hint, 0)
}

/// Returns the prefix of all hints of a slot for one node.
pub fn node_hints_prefix(slot: Slot, primary: NodeId) -> Vec<u8> {
    let mut prefix = key_prefix(slot.0, Space::Hint, 8);
    prefix.extend_from_slice(&primary.0.to_be_bytes());
    prefix
}

/// Decodes a hint's tree key: node, bucket and key. `None`: it is no hint.
pub fn read_hint_key(tree_key: &Bytes) -> Option<(NodeId, BucketName, Key)> {
    slot_in(Space::Hint, tree_key)?;
    let primary = u64::from_be_bytes(tree_key.get(5..13)?.try_into().ok()?);
    let (bucket, key) = read_row_tail(&tree_key.slice(13..))?;
    Some((NodeId(primary), bucket, key))
}

/// Decodes a row; its values are slices of the bytes.
pub fn read_row(bytes: &Bytes) -> Result<Row, Malformed> {
    causal::decode(bytes, |value| Ok(StoredValue(bytes.slice_ref(value))))
}

/// Encodes a row.
pub fn write_row(row: &Row) -> Bytes {
    let values: usize = row.values().map(|value| value.0.len() + 8).sum();
    let mut out = Vec::with_capacity(16 + 24 * row.entries().len() + values);
    causal::encode(row, &mut out);
    out.into()
}

/// Returns true if a row has a value that is not expired.
pub fn has_live_value(row: &Row) -> bool {
    let now = world::unix_ms();
    row.values().any(|value| !value.is_tombstone() && !value.has_expired(now))
}

/// Encoded value. The order of the bytes decides between two values that claim one dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredValue(Bytes);

impl Coded for StoredValue {
    fn coded_bytes(&self) -> usize {
        self.0.len()
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl StoredValue {
    /// Encodes a content, or a tombstone, with its time of writing in Unix milliseconds.
    pub fn new(content: Option<&Content>, written_ms: u64) -> StoredValue {
        let value = content.map_or(0, |content| content.value.len());
        let mut out = Vec::with_capacity(12 + value);
        let headers = content.map(|content| &content.headers).filter(|it| !it.is_empty());
        let tombstone = if content.is_none() { TOMBSTONE } else { 0 };
        out.put_u8(tombstone | if headers.is_some() { HEADERS } else { 0 });
        varint::put(written_ms, &mut out);
        if let Some(headers) = headers {
            let mut bytes = Vec::new();
            headers::put(headers, &mut bytes);
            varint::put_string(&bytes, &mut out);
        }
        if let Some(content) = content {
            out.extend_from_slice(&content.value);
        }
        StoredValue(out.into())
    }

    /// Returns the value with an expiry time, in Unix milliseconds.
    pub fn with_expiry(self, at_ms: u64) -> StoredValue {
        let mut reader = Reader::new(self.0.get(1..).unwrap_or_default());
        let Ok(written) = varint::take(&mut reader, "written") else { return self };
        let mut out = Vec::with_capacity(self.0.len() + 10);
        out.put_u8(self.0[0] | EXPIRES);
        varint::put(written, &mut out);
        varint::put(at_ms, &mut out);
        out.extend_from_slice(reader.rest());
        StoredValue(out.into())
    }

    /// Expiry time in Unix milliseconds. `None`: it never expires.
    pub fn expires_at(&self) -> Option<u64> {
        let flags = self.0.first()?;
        if flags & EXPIRES == 0 {
            return None;
        }
        let mut reader = Reader::new(&self.0[1..]);
        let mut number = || varint::take(&mut reader, "hour").ok();
        number().and_then(|_| number())
    }

    /// Returns true if its expiry time has passed.
    pub fn has_expired(&self, now_ms: u64) -> bool {
        self.expires_at().is_some_and(|at_ms| at_ms <= now_ms)
    }

    /// Encodes a data type, with its time of writing in Unix milliseconds.
    pub fn typed(state: Vec<u8>, written_ms: u64) -> StoredValue {
        let plain = StoredValue::new(Some(&Content::plain(state.into())), written_ms);
        let mut bytes = Vec::from(plain.0);
        bytes[0] |= TYPED;
        StoredValue(bytes.into())
    }

    /// Returns true if its bytes are a data type's.
    pub fn is_typed(&self) -> bool {
        self.0.first().is_some_and(|flags| flags & TYPED != 0)
    }

    /// Returns true if it marks a delete.
    pub fn is_tombstone(&self) -> bool {
        self.0.first().is_some_and(|flags| flags & TOMBSTONE != 0)
    }

    /// Time of the write, in Unix milliseconds.
    pub fn written_ms(&self) -> u64 {
        let mut reader = Reader::new(self.0.get(1..).unwrap_or_default());
        varint::take(&mut reader, "written").unwrap_or(0)
    }

    /// Returns true if it has headers, which may hold tags.
    pub fn has_headers(&self) -> bool {
        self.0.first().is_some_and(|flags| flags & HEADERS != 0)
    }

    /// Decodes the value as a client sees it.
    pub fn sibling(&self, dot: Option<(&Actor, u64)>) -> Result<Sibling, Malformed> {
        let ValueParts { flags, written_ms, headers, bytes } = self.parts()?;
        let headers = headers.map(|bytes| headers::take(&self.0, bytes)).transpose()?;
        let value = self.0.slice_ref(bytes);
        let tombstone = flags & TOMBSTONE != 0;
        let content = Content { value, headers: headers.unwrap_or_default() };
        Ok(Sibling { content, written_ms, vtag: vtag(dot), tombstone })
    }

    /// Decodes what indexes are made of: the tags of the value, and its bytes.
    pub(crate) fn indexed_parts(&self) -> Result<(headers::HeaderPairs, &[u8]), Malformed> {
        let ValueParts { headers, bytes, .. } = self.parts()?;
        let tags = headers.map(|bytes| headers::take_tags(&self.0, bytes)).transpose()?;
        Ok((tags.unwrap_or_default(), bytes))
    }

    fn parts(&self) -> Result<ValueParts<'_>, Malformed> {
        let mut reader = Reader::new(&self.0);
        let flags = reader.u8("value's flags")?;
        let written_ms = varint::take(&mut reader, "value's hour")?;
        if flags & EXPIRES != 0 {
            varint::take(&mut reader, "value's last hour")?;
        }
        let headers = if flags & HEADERS != 0 {
            let bytes_max = 2 * CONTENT_HEADERS_BYTES_MAX;
            Some(varint::take_string(&mut reader, bytes_max, "value's headers")?)
        } else {
            None
        };
        Ok(ValueParts { flags, written_ms, headers, bytes: reader.rest() })
    }
}

/// Parts of an encoded value, whose headers are still encoded.
struct ValueParts<'a> {
    flags: u8,
    written_ms: u64,
    headers: Option<&'a [u8]>,
    bytes: &'a [u8],
}

/// Returns the vtag of a value: a hash of its dot, the same at every replica.
pub fn vtag(dot: Option<(&Actor, u64)>) -> Vtag {
    let Some((actor, count)) = dot else { return Vtag::default() };
    let mut bytes = Vec::with_capacity(28);
    bytes.put_u64(actor.node.0);
    bytes.put_u32(actor.vnode);
    bytes.put_u64(actor.incarnation);
    bytes.put_u64(count);
    Vtag(u128::from(checksum(&bytes, 1)) << 64 | u128::from(checksum(&bytes, 2)))
}

#[cfg(test)]
mod tests;
