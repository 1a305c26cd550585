//! Layout of the local store: keys of a vnode's rows, and the bytes of a stored value.
//!
//! A vnode is the part of one node in one *slot*: the ring of 2^160 points is cut into 1,024 slots,
//! for ever, and a partition is a fixed number of consecutive slots of its ring. So rows, actors
//! and hints stay where they are, whatever number of partitions the ring has.
//!
//! ```text
//! tree key = owner u32 BE | space u8 | ...      owner = 2^31 + slot, behind every group
//!   record  (nothing)                           -> who mints (logic::causal::Minter)
//!   row     length u16 BE | bucket | key        -> clock with its values (logic::causal)
//!   hint    primary u64 BE | as a row           -> (nothing): that node is to get the row
//! owner = 2^31 + partition, in the ring of the change that it speaks of
//!   arrival copies u8                           -> how far the copy has come (handoff/receive.rs)
//! 2^32 - 1 | 0                                  -> the mark of all vnodes: number of the last
//!                                                  batch applied u64, clean incarnation u64
//! value    = flags u8 | written, Unix ms, varint | [expires, Unix ms, varint] | [headers] | bytes
//! headers  = length, then content type, charset, encoding, pairs of metadata, pairs of indexes,
//!            links; every length and count a varint
//! ```
//!
//! Spaces 1 and 2 were those of rows and hints that lay by partitions: `migrate_v1.rs` puts them
//! into their slots.

use super::headers;
use super::slots::Slot;
use base::codec::{Malformed, Reader, Writer, checksum};
use base::limits::CONTENT_HEADERS_BYTES_MAX;
use base::{
    Actor, BucketName, Content, GroupId, Headers, Key, NodeId, Partition, Sibling, Vtag, varint,
};
use bytes::Bytes;
use logic::causal::{self, Clock, Coded};

/// Owner of all vnodes' records in the log.
pub const VNODES: GroupId = GroupId(u32::MAX);
/// The owner of slot 0's rows.
const FIRST: u32 = 1 << 31;

/// Kind of item that a tree key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Space {
    /// Record of each vnode, and the mark of all of them.
    Record = 0,
    /// Rows of a store from before partitions had digests, which the node rewrites as it starts.
    FormerRow = 1,
    /// Hints of such a store, which the node rewrites, too.
    FormerHint = 2,
    /// Partitions that arrived here, by the ring they arrived under.
    Arrival = 3,
    /// Rows of clients' keys.
    Row = 4,
    /// Hints: rows kept for another node until it is back.
    Hint = 5,
}

const TOMBSTONE: u8 = 1;
const HEADERS: u8 = 2;
const EXPIRES: u8 = 4;
/// The bytes are those of a data type (logic::types).
const TYPED: u8 = 8;

/// Row of a key: its values and the context of all writes seen.
pub type Row = Clock<Actor, Stored>;

/// The key of the mark of all vnodes.
pub fn mark_key() -> Bytes {
    let mut key = VNODES.0.to_be_bytes().to_vec();
    key.push(Space::Record as u8);
    key.into()
}

/// Before everything of all vnodes.
pub fn first_key() -> Bytes {
    FIRST.to_be_bytes().to_vec().into()
}

pub(super) fn front(owner: u32, space: Space, room: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + room);
    key.extend_from_slice(&(FIRST + owner).to_be_bytes());
    key.push(space as u8);
    key
}

/// The key of a vnode's record.
pub fn record_key(slot: Slot) -> Bytes {
    front(slot.0, Space::Record, 0).into()
}

/// Key of the progress of a partition's copy, of the buckets with so many copies.
pub fn arrival_key(partition: Partition, copies: u8) -> Bytes {
    let mut key = front(partition.0, Space::Arrival, 1);
    key.push(copies);
    key.into()
}

/// The prefix of all rows of a slot.
pub fn rows_prefix(slot: Slot) -> Vec<u8> {
    front(slot.0, Space::Row, 0)
}

/// The prefix of a bucket's rows in a slot.
pub fn bucket_prefix(slot: Slot, bucket: &BucketName) -> Vec<u8> {
    let mut prefix = front(slot.0, Space::Row, 2 + bucket.full().len());
    named(bucket, b"", &mut prefix);
    prefix
}

/// A key's row, for tests that look into a store.
pub fn row_key(bucket: &BucketName, key: &[u8]) -> Bytes {
    row_key_in(Slot::of(bucket, key), bucket, key)
}

/// Key of a row in this slot.
pub fn row_key_in(slot: Slot, bucket: &BucketName, key: &[u8]) -> Bytes {
    let mut row = front(slot.0, Space::Row, 2 + bucket.full().len() + key.len());
    named(bucket, key, &mut row);
    row.into()
}

/// The key of a hint.
pub fn hint_key(slot: Slot, primary: NodeId, bucket: &BucketName, key: &[u8]) -> Bytes {
    let mut hint = front(slot.0, Space::Hint, 10 + bucket.full().len() + key.len());
    hint.extend_from_slice(&primary.0.to_be_bytes());
    named(bucket, key, &mut hint);
    hint.into()
}

fn named(bucket: &BucketName, key: &[u8], out: &mut Vec<u8>) {
    let name = bucket.full().as_bytes();
    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(key);
}

/// Bucket and key of a row's tree key.
pub fn read_row_key(tree_key: &Bytes) -> Option<(BucketName, Key)> {
    tree_key.get(5..)?;
    read_row_tail(&tree_key.slice(5..))
}

/// The slot of a row's tree key; none: it is no row's.
pub fn slot_of(tree_key: &[u8]) -> Option<Slot> {
    let owner = u32::from_be_bytes(tree_key.get(..4)?.try_into().ok()?);
    let is_row = tree_key.get(4) == Some(&(Space::Row as u8)) && owner != VNODES.0;
    owner.checked_sub(FIRST).filter(|_| is_row).map(Slot)
}

/// Returns the part of a row's tree key that is the same in every slot.
pub fn row_tail(tree_key: &Bytes) -> &[u8] {
    tree_key.get(5..).unwrap_or_default()
}

/// Bucket and key of a row's tail.
pub fn read_row_tail(tail: &Bytes) -> Option<(BucketName, Key)> {
    let length = u16::from_be_bytes(tail.get(..2)?.try_into().ok()?) as usize;
    let name = std::str::from_utf8(tail.get(2..2 + length)?).ok()?;
    Some((BucketName::from_full(name).ok()?, tail.slice(2 + length..)))
}

/// The prefix of all hints of a slot.
pub fn hints_prefix(slot: Slot) -> Vec<u8> {
    front(slot.0, Space::Hint, 0)
}

/// The prefix of all hints of a slot for one node.
pub fn hints_of_prefix(slot: Slot, primary: NodeId) -> Vec<u8> {
    let mut front = front(slot.0, Space::Hint, 8);
    front.extend_from_slice(&primary.0.to_be_bytes());
    front
}

/// For which node a hint is kept, and of which key; none: it is no hint.
pub fn read_hint_key(tree_key: &Bytes) -> Option<(NodeId, BucketName, Key)> {
    if tree_key.get(4) != Some(&(Space::Hint as u8)) {
        return None;
    }
    let primary = u64::from_be_bytes(tree_key.get(5..13)?.try_into().ok()?);
    let (bucket, key) = read_row_tail(&tree_key.slice(13..))?;
    Some((NodeId(primary), bucket, key))
}

/// A row from its bytes; the values are slices of them.
pub fn read_row(bytes: &Bytes) -> Result<Row, Malformed> {
    causal::decode(bytes, |value| Ok(Stored(bytes.slice_ref(value))))
}

/// A row's bytes.
pub fn write_row(row: &Row) -> Bytes {
    let values: usize = row.values().map(|value| value.0.len() + 8).sum();
    let mut out = Vec::with_capacity(16 + 24 * row.entries().len() + values);
    causal::encode(row, &mut out);
    out.into()
}

/// A value as it is stored: its bytes. They order values where two claim one dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored(Bytes);

impl Coded for Stored {
    fn coded_bytes(&self) -> usize {
        self.0.len()
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

impl Stored {
    /// A content, or a tombstone, written at this hour.
    pub fn new(content: Option<&Content>, written_ms: u64) -> Stored {
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
        Stored(out.into())
    }

    /// Returns the value with an expiry time, in Unix milliseconds.
    pub fn expiring(self, at_ms: u64) -> Stored {
        let mut reader = Reader::new(self.0.get(1..).unwrap_or_default());
        let Ok(written) = varint::take(&mut reader, "written") else { return self };
        let mut out = Vec::with_capacity(self.0.len() + 10);
        out.put_u8(self.0[0] | EXPIRES);
        varint::put(written, &mut out);
        varint::put(at_ms, &mut out);
        out.extend_from_slice(reader.rest());
        Stored(out.into())
    }

    /// Expiry time in Unix milliseconds. `None`: it never expires.
    pub fn expires_at(&self) -> Option<u64> {
        let flags = self.0.first()?;
        if flags & EXPIRES == 0 {
            return None;
        }
        let mut reader = Reader::new(&self.0[1..]);
        let mut word = || varint::take(&mut reader, "hour").ok();
        word().and_then(|_| word())
    }

    /// Returns true if its time is over.
    pub fn has_expired(&self, now_ms: u64) -> bool {
        self.expires_at().is_some_and(|at_ms| at_ms <= now_ms)
    }

    /// A data type's bytes, written at this hour.
    pub fn typed(state: Vec<u8>, written_ms: u64) -> Stored {
        let plain = Stored::new(Some(&Content::plain(state.into())), written_ms);
        let mut bytes = Vec::from(plain.0);
        bytes[0] |= TYPED;
        Stored(bytes.into())
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

    /// Decodes the value as a client sees it.
    pub fn sibling(&self, dot: Option<(&Actor, u64)>) -> Result<Sibling, Malformed> {
        let mut reader = Reader::new(&self.0);
        let flags = reader.u8("value's flags")?;
        let written_ms = varint::take(&mut reader, "value's hour")?;
        if flags & EXPIRES != 0 {
            varint::take(&mut reader, "value's last hour")?;
        }
        let headers = if flags & HEADERS != 0 {
            let most = 2 * CONTENT_HEADERS_BYTES_MAX;
            let bytes = varint::take_string(&mut reader, most, "value's headers")?;
            headers::take(&self.0, bytes)?
        } else {
            Headers::default()
        };
        let value = self.0.slice(self.0.len() - reader.rest().len()..);
        let tombstone = flags & TOMBSTONE != 0;
        let content = Content { value, headers };
        Ok(Sibling { content, written_ms, vtag: vtag(dot), tombstone })
    }
}

/// A name of a value that is the same at every replica: it is made of the value's dot.
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
mod tests {
    use super::*;
    use base::Link;

    #[test]
    fn a_value_reads_back_with_all_that_is_said_of_it() {
        let text = |text: &'static str| Bytes::from_static(text.as_bytes());
        let headers = Headers {
            content_type: text("text/plain"),
            charset: text("utf-8"),
            encoding: Bytes::new(),
            meta: vec![(text("colour"), text("red"))],
            links: vec![Link { bucket: text("b"), key: text("k"), tag: text("t") }],
            indexes: vec![(text("age_int"), text("7")), (text("x_bin"), Bytes::new())],
        };
        for headers in [headers, Headers::default()] {
            let content = Content { value: text("value"), headers };
            let stored = Stored::new(Some(&content), 1_700_000_000_000);
            let sibling = stored.sibling(None).expect("it reads");
            assert_eq!((sibling.content, sibling.tombstone), (content, false));
            assert_eq!(stored.written_ms(), 1_700_000_000_000);
            assert!(!stored.has_expired(u64::MAX));
            let mortal = stored.clone().expiring(1_700_000_000_500);
            assert_eq!(mortal.sibling(None).expect("it reads"), stored.sibling(None).expect("so"));
            assert!(
                mortal.has_expired(1_700_000_000_500) && !mortal.has_expired(1_700_000_000_499)
            );
        }
        let gone = Stored::new(None, 5);
        assert!(gone.is_tombstone());
        assert!(gone.sibling(None).expect("it reads").tombstone);
        for length in 0..3 {
            let cut = Stored(Stored::new(None, 300).0.slice(..length));
            assert_eq!(cut.sibling(None).is_err(), length < 3, "{length}");
        }
    }

    #[test]
    fn a_tree_key_gives_its_bucket_and_key_back() {
        let bucket = BucketName::new("available", "a%2Fb").expect("a name");
        let key = Bytes::from_static(b"any\xffkey");
        let (slot, tree) = (Slot::of(&bucket, &key), row_key(&bucket, &key));
        assert!(tree.starts_with(&rows_prefix(slot)));
        assert!(tree.starts_with(&bucket_prefix(slot, &bucket)));
        assert_eq!(read_row_key(&tree), Some((bucket.clone(), key.clone())));
        assert_eq!(slot_of(&tree), Some(slot));
        assert_eq!(slot_of(&record_key(slot)), None);
        assert_eq!(slot_of(&mark_key()), None);
        let hint = hint_key(slot, NodeId(9), &bucket, &key);
        assert!(hint.starts_with(&hints_prefix(slot)));
        assert!(hint.starts_with(&hints_of_prefix(slot, NodeId(9))));
        assert_eq!(read_hint_key(&hint), Some((NodeId(9), bucket, key)));
        assert_eq!(read_row_key(&record_key(Slot(1))), None);
    }
}
