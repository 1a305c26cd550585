//! Rows of index entries: their tree keys, and their bytes.
//!
//! ```text
//! tree key = prefix of the bucket in `Space::Index` | field | term | key of the record
//! row      = flags u8 (1: expires) | [expires u64 LE]
//! ```
//! The tree key of a unique index ends with the term, and the row with the key of the record. An
//! entry expires with its record: a reader of entries alone must not return what is gone.

use crate::layout::{self, ROW_PREFIX_BYTES, Space};
use base::codec::{Malformed, Reader};
use base::limits::KEY_BYTES_MAX;
use base::{BucketId, GroupId, Key};
use bytes::Bytes;
use indexes::IndexEntry;
use indexes::layout::{EntrySpace, decode_consistent, decode_unique};

const HAS_EXPIRY: u8 = 1;

/// Entry of a record in a bucket's index, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRow {
    /// The entry.
    pub entry: IndexEntry,
    /// Key of the record.
    pub key: Key,
    /// Group time at which the record expires, milliseconds.
    pub expires: Option<u64>,
}

/// Returns the space of an index's entries.
pub fn entry_space(is_unique: bool) -> EntrySpace<'static> {
    if is_unique { EntrySpace::Unique } else { EntrySpace::Consistent }
}

/// Writes the tree key of a record's entry into `tree_key`.
pub fn index_key(
    (group, bucket): (GroupId, BucketId),
    is_unique: bool,
    entry: &IndexEntry,
    key: &[u8],
    tree_key: &mut Vec<u8>,
) {
    let name = entry_space(is_unique).key(entry, key);
    layout::bucket_key(group, Space::Index, bucket, &name, tree_key);
}

/// Returns the bytes of an entry's row.
pub fn encode(is_unique: bool, key: &[u8], expires: Option<u64>) -> Vec<u8> {
    let mut bytes = vec![if expires.is_some() { HAS_EXPIRY } else { 0 }];
    if let Some(expires) = expires {
        bytes.extend_from_slice(&expires.to_le_bytes());
    }
    if is_unique {
        bytes.extend_from_slice(key);
    }
    bytes
}

/// Decodes the row of a unique index's entry: the record's expiry, and its key.
pub fn decode_holder(row: &Bytes) -> Result<(Option<u64>, Key), Malformed> {
    let mut reader = Reader::new(row);
    let expires = match reader.u8("index row flags")? {
        0 => None,
        HAS_EXPIRY => Some(reader.u64("index row expiry")?),
        _ => return Err(Malformed("index row flags")),
    };
    let key = row.slice_ref(reader.rest());
    if key.len() > KEY_BYTES_MAX {
        return Err(Malformed("index row key"));
    }
    Ok((expires, key))
}

impl EntryRow {
    /// Decodes an entry from its tree key and its row.
    pub fn decode(is_unique: bool, tree_key: &[u8], row: &Bytes) -> Result<EntryRow, Malformed> {
        let name = tree_key.get(ROW_PREFIX_BYTES..).ok_or(Malformed("index key"))?;
        let (expires, holder) = decode_holder(row)?;
        if is_unique {
            return Ok(EntryRow { entry: decode_unique(name)?, key: holder, expires });
        }
        let (entry, key) = decode_consistent(name)?;
        if holder.is_empty() {
            Ok(EntryRow { entry, key, expires })
        } else {
            Err(Malformed("index row"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indexes::{IndexField, IndexNumber, Term};

    #[test]
    fn index_rows_round_trip_and_keep_their_bytes() {
        let entry = IndexEntry { field: IndexField::Declared(IndexNumber(5)), term: Term::int(-2) };
        let (place, key) = ((GroupId(1), BucketId(2)), Key::from("k\0"));
        // Group, space, bucket, field, and the term: kind and number with its sign flipped.
        let front: &[u8] =
            b"\0\0\0\x01\x08\0\0\0\x02\x02\0\0\0\x05\x03\x7f\xff\xff\xff\xff\xff\xff\xfe";
        for (is_unique, expires, kept_key, kept_row) in [
            (false, None, [front, &b"k\0"[..]].concat(), b"\0".to_vec()),
            (false, Some(9), [front, &b"k\0"[..]].concat(), b"\x01\x09\0\0\0\0\0\0\0".to_vec()),
            (true, None, front.to_vec(), b"\0k\0".to_vec()),
            (true, Some(9), front.to_vec(), b"\x01\x09\0\0\0\0\0\0\0k\0".to_vec()),
        ] {
            let mut tree_key = Vec::new();
            index_key(place, is_unique, &entry, &key, &mut tree_key);
            let row = Bytes::from(encode(is_unique, &key, expires));
            assert_eq!((&tree_key, &row[..]), (&kept_key, &kept_row[..]));
            let decoded = EntryRow::decode(is_unique, &tree_key, &row);
            let expected = EntryRow { entry: entry.clone(), key: key.clone(), expires };
            assert_eq!(decoded, Ok(expected));
            assert!(EntryRow::decode(is_unique, &tree_key[..ROW_PREFIX_BYTES], &row).is_err());
            assert!(EntryRow::decode(is_unique, &tree_key, &Bytes::from_static(b"\x02")).is_err());
            assert!(EntryRow::decode(is_unique, &tree_key, &Bytes::new()).is_err());
        }
        let row = Bytes::from_static(b"\0k");
        let mut tree_key = Vec::new();
        index_key(place, false, &entry, &key, &mut tree_key);
        assert!(EntryRow::decode(false, &tree_key, &row).is_err(), "the key stands twice");
    }
}
