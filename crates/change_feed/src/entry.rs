//! Entries of a feed, and their bytes.
//!
//! ```text
//! entry = kind u8 | version u64 LE | group time u64 LE | key length u32 LE | key | rest
//!   0 delete                     rest: nothing
//!   1 put                        rest: nothing; the row has the value
//!   2 put with its value         rest: value
//!   3 put with its value         rest: expires u64 LE | value
//!   4 delete while rows arrive   rest: nothing
//! ```

use base::codec::{Malformed, Reader};
use base::limits::KEY_BYTES_MAX;
use base::{Key, Version};
use bytes::Bytes;

const DELETE: u8 = 0;
const PUT: u8 = 1;
const PUT_VALUE: u8 = 2;
const PUT_EXPIRING: u8 = 3;
const DELETE_ARRIVING: u8 = 4;
/// Bytes in front of the key.
const HEAD_BYTES: usize = 21;

/// Change that an entry records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedChange {
    /// Deletion of the row.
    Delete,
    /// Deletion of a row while another group sends rows and entries. An entry of the other group
    /// may stand before it for a row that arrives later, so it counts only if the key has no row.
    DeleteArriving,
    /// New row, whose value the row has.
    Put,
    /// New row with its value.
    PutValue {
        /// Group time at which the row expires, milliseconds.
        expires: Option<u64>,
        /// The value.
        value: Bytes,
    },
}

/// Entry of the feed of a consistent bucket, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    /// Version of the row; of a delete, a version at or above that of every earlier row of the key,
    /// and below that of every later one.
    pub version: Version,
    /// Group time of the change, milliseconds.
    pub time: u64,
    /// Key that changed.
    pub key: Key,
    /// The change.
    pub change: FeedChange,
}

impl FeedChange {
    /// Returns true for a deletion.
    pub fn is_delete(&self) -> bool {
        matches!(self, FeedChange::Delete | FeedChange::DeleteArriving)
    }
}

impl FeedEntry {
    /// Encodes it for the store.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, expires, value) = match &self.change {
            FeedChange::Delete => (DELETE, None, None),
            FeedChange::DeleteArriving => (DELETE_ARRIVING, None, None),
            FeedChange::Put => (PUT, None, None),
            FeedChange::PutValue { expires: None, value } => (PUT_VALUE, None, Some(value)),
            FeedChange::PutValue { expires, value } => (PUT_EXPIRING, *expires, Some(value)),
        };
        let value_bytes = value.map_or(0, |value| value.len());
        let mut out = Vec::with_capacity(HEAD_BYTES + self.key.len() + 8 + value_bytes);
        out.push(kind);
        out.extend_from_slice(&self.version.0.to_le_bytes());
        out.extend_from_slice(&self.time.to_le_bytes());
        out.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.key);
        if let Some(expires) = expires {
            out.extend_from_slice(&expires.to_le_bytes());
        }
        if let Some(value) = value {
            out.extend_from_slice(value);
        }
        out
    }

    /// Decodes an entry that fills these bytes. Its key and value are slices of them.
    pub fn decode(bytes: &Bytes) -> Result<FeedEntry, Malformed> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("kind of a feed entry")?;
        let version = Version(reader.u64("version of a feed entry")?);
        let time = reader.u64("time of a feed entry")?;
        let key = bytes.slice_ref(reader.string(KEY_BYTES_MAX, "key of a feed entry")?);
        let change = match kind {
            DELETE => FeedChange::Delete,
            DELETE_ARRIVING => FeedChange::DeleteArriving,
            PUT => FeedChange::Put,
            PUT_VALUE | PUT_EXPIRING => {
                let expires = match kind {
                    PUT_EXPIRING => Some(reader.u64("expiry of a feed entry")?),
                    _ => None,
                };
                let value = bytes.slice_ref(reader.rest());
                return Ok(FeedEntry {
                    version,
                    time,
                    key,
                    change: FeedChange::PutValue { expires, value },
                });
            }
            _ => return Err(Malformed("kind of a feed entry")),
        };
        reader.end("feed entry")?;
        Ok(FeedEntry { version, time, key, change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_and_keep_their_bytes() {
        let value = Bytes::from_static(b"v");
        let head = b"\x05\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x01\0\0\0k";
        let expires = Some(9);
        for (change, kind, rest) in [
            (FeedChange::Delete, 0, &b""[..]),
            (FeedChange::DeleteArriving, 4, b""),
            (FeedChange::Put, 1, b""),
            (FeedChange::PutValue { expires: None, value: value.clone() }, 2, b"v"),
            (FeedChange::PutValue { expires, value }, 3, b"\x09\0\0\0\0\0\0\0v"),
        ] {
            let (version, key) = (Version(5), Key::from_static(b"k"));
            let entry = FeedEntry { version, time: 7, key, change };
            let kept = Bytes::from([&[kind][..], head, rest].concat());
            assert_eq!(entry.encode(), kept);
            assert_eq!(FeedEntry::decode(&kept), Ok(entry));
            // Where the value ends, only the store knows.
            let end_min = if rest.ends_with(b"v") { kept.len() - 1 } else { kept.len() };
            for end in 0..end_min {
                assert!(FeedEntry::decode(&kept.slice(..end)).is_err(), "{kind}: {end} bytes");
            }
        }
        let unknown = Bytes::from([&[5][..], head].concat());
        assert!(FeedEntry::decode(&unknown).is_err());
    }
}
