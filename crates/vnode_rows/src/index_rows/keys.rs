//! Keys of index rows, and the bytes of an entry's value.
//!
//! ```text
//! INDEX | 0 | bucket, field, term, key (indexes/layout.rs) -> slot u16 BE | [expires, varint]
//! INDEX | 1 | length u16 BE | bucket | number u32 BE       -> record (record.rs)
//! ```
//!
//! The tags of all buckets are one index: its record has an empty bucket name and the number 0.

use super::record::IndexId;
use crate::layout::{NodeSpace, node_space_prefix};
use crate::slots::{SLOTS, Slot};
use base::codec::{Malformed, Reader};
use base::range::prefix_end;
use base::{BucketName, Key, varint};
use bytes::Bytes;
use indexes::layout::{EntryQuery, EntrySpace, KeySpan, decode_available};
use indexes::{IndexEntry, IndexField, IndexNumber};
use std::ops::Bound;

/// Kinds of rows in the space of indexes.
const ENTRIES: u8 = 0;
const RECORDS: u8 = 1;

/// Range of tree keys.
pub type TreeKeyRange = (Bound<Bytes>, Bound<Bytes>);

/// Returns the prefix of all entries.
pub fn entries_prefix() -> Vec<u8> {
    node_space_prefix(NodeSpace::Index, ENTRIES)
}

/// Returns the tree key of an entry.
pub fn entry_key(bucket: &BucketName, entry: &IndexEntry, key: &[u8]) -> Bytes {
    let mut tree_key = entries_prefix();
    tree_key.extend_from_slice(&EntrySpace::Available(bucket).key(entry, key));
    tree_key.into()
}

/// Decodes the tree key of an entry: the bucket, the entry, and the key of its record.
pub fn read_entry_key(tree_key: &[u8]) -> Result<(BucketName, IndexEntry, Key), Malformed> {
    let rest = tree_key.strip_prefix(&entries_prefix()[..]);
    decode_available(rest.ok_or(Malformed("the space of an index entry"))?)
}

/// Returns the range of all entries of a field.
pub fn field_keys(bucket: &BucketName, field: &IndexField) -> TreeKeyRange {
    entry_range(&EntrySpace::Available(bucket).field_span(field))
}

/// Returns the range of the entries that a query still asks for.
pub fn query_keys(bucket: &BucketName, query: &EntryQuery<'_>) -> TreeKeyRange {
    entry_range(&EntrySpace::Available(bucket).span(query))
}

fn entry_range(span: &KeySpan) -> TreeKeyRange {
    let of = |bound: &[u8]| Bytes::from([&entries_prefix()[..], bound].concat());
    (Bound::Included(of(&span.low)), Bound::Excluded(of(&span.high)))
}

/// Returns the range of the records of all indexes.
pub fn record_keys() -> TreeKeyRange {
    let prefix = node_space_prefix(NodeSpace::Index, RECORDS);
    let end = prefix_end(&prefix).expect("the prefix ends in a small byte");
    (Bound::Included(prefix.into()), Bound::Excluded(end.into()))
}

impl IndexId {
    /// Returns the tree key of its record.
    pub fn record_key(&self) -> Bytes {
        let (name, number) = match self {
            IndexId::Tags => ("", IndexNumber(0)),
            IndexId::Declared(bucket, number) => (bucket.full(), *number),
        };
        let mut key = node_space_prefix(NodeSpace::Index, RECORDS);
        key.extend_from_slice(&(name.len() as u16).to_be_bytes());
        key.extend_from_slice(name.as_bytes());
        key.extend_from_slice(&number.0.to_be_bytes());
        key.into()
    }
}

/// Decodes the tree key of a record.
pub fn read_record_key(tree_key: &[u8]) -> Result<IndexId, Malformed> {
    const KEY: Malformed = Malformed("the key of an index's record");
    let prefix = node_space_prefix(NodeSpace::Index, RECORDS);
    let rest = tree_key.strip_prefix(&prefix[..]).ok_or(KEY)?;
    let (length, rest) = rest.split_first_chunk().ok_or(KEY)?;
    let (name, number) = rest.split_at_checked(u16::from_be_bytes(*length).into()).ok_or(KEY)?;
    let number = IndexNumber(u32::from_be_bytes(number.try_into().map_err(|_| KEY)?));
    if name.is_empty() {
        return if number.0 == 0 { Ok(IndexId::Tags) } else { Err(KEY) };
    }
    let name = std::str::from_utf8(name).ok().and_then(|name| BucketName::from_full(name).ok());
    Ok(IndexId::Declared(name.ok_or(KEY)?, number))
}

/// Value of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryValue {
    /// Slot of the record, by which a query leaves out what it did not ask for.
    pub slot: Slot,
    /// Time in Unix milliseconds from which the entry is not shown. `None`: it is always shown.
    pub expires_ms: Option<u64>,
}

impl EntryValue {
    /// Encodes the value.
    pub fn write(self) -> Bytes {
        let mut out = Vec::with_capacity(2 + self.expires_ms.map_or(0, varint::bytes));
        out.extend_from_slice(&(self.slot.0 as u16).to_be_bytes());
        if let Some(expires_ms) = self.expires_ms {
            varint::put(expires_ms, &mut out);
        }
        out.into()
    }

    /// Decodes a value that fills these bytes.
    pub fn read(bytes: &[u8]) -> Result<EntryValue, Malformed> {
        const SLOT: Malformed = Malformed("the slot of an index entry");
        let (slot, rest) = bytes.split_first_chunk().ok_or(SLOT)?;
        let slot = Slot(u16::from_be_bytes(*slot).into());
        if slot.0 >= SLOTS {
            return Err(SLOT);
        }
        let mut reader = Reader::new(rest);
        let expires_ms = match rest {
            [] => None,
            _ => Some(varint::take(&mut reader, "the expiry of an index entry")?),
        };
        reader.end("the end of an index entry")?;
        Ok(EntryValue { slot, expires_ms })
    }
}
