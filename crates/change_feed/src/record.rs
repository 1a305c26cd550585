//! Record of a feed in the group's own bookkeeping (bucket 0): whether changes are added to it, and
//! how far it is built or removed. A master with an older directory must not write rows without
//! their events, so the record decides, not the property of the bucket.
//!
//! ```text
//! f | bucket u32 BE ->
//!     format u8 (1) | phase u8 | values u8 | era u16 | making: group u32, index u64
//!     | begun u64 | rows u64 | cursor: 0 u8, or 1 u8 and a string
//! ```
//! Numbers are little-endian, except in the key; a string is its length (4) and its bytes.

use base::codec::{Malformed, Reader, Writer};
use base::limits::KEY_BYTES_MAX;
use base::{BucketId, GroupId, LogIndex};
use bytes::Bytes;

/// First byte of the keys of such records.
pub const FEED_RECORD: u8 = b'f';
const FORMAT: u8 = 1;

/// Phase of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeedPhase {
    /// Building: every change is added, and so are records that are older than the feed.
    Building = 1,
    /// Ready: every change is added, and every record has its entry.
    Ready = 2,
    /// Receiving: another group sends rows and entries. Only deletes are added.
    Receiving = 3,
    /// Dropping: changes are not added, and the entries are being removed.
    Dropping = 4,
}

impl FeedPhase {
    const ALL: [FeedPhase; 4] =
        [FeedPhase::Building, FeedPhase::Ready, FeedPhase::Receiving, FeedPhase::Dropping];

    /// Returns true if every change of a row is added to the feed.
    pub fn is_in_force(self) -> bool {
        matches!(self, FeedPhase::Building | FeedPhase::Ready)
    }
}

/// Making of a feed: the group and the log index at which it was begun. No two feeds have the same,
/// and a feed keeps it through moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeedMaking {
    /// Group in which the feed was begun.
    pub group: GroupId,
    /// Index of the entry of its log that began it.
    pub index: LogIndex,
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedRecord {
    /// Phase of the feed.
    pub phase: FeedPhase,
    /// True if entries of puts have the value.
    pub has_values: bool,
    /// Number of moves of the bucket since the feed was begun.
    pub era: u16,
    /// Making of the feed.
    pub making: FeedMaking,
    /// Version of the update that began it: rows of earlier versions have no entry before the
    /// builder adds it, all others have one.
    pub begun: u64,
    /// Number of rows that the builder has read.
    pub rows: u64,
    /// While the feed is built, the last key that was read; while it is dropped, the end of the
    /// last tree key that was removed. `None`: none was.
    pub cursor: Option<Bytes>,
}

/// Returns the key of the record of a bucket's feed in the bookkeeping bucket.
pub fn feed_record_key(bucket: BucketId) -> [u8; 5] {
    let [a, b, c, d] = bucket.0.to_be_bytes();
    [FEED_RECORD, a, b, c, d]
}

/// Decodes the key of a record. `None`: it is the key of another row.
pub fn read_feed_record_key(key: &[u8]) -> Option<BucketId> {
    let number = key.strip_prefix(&[FEED_RECORD])?.try_into().ok()?;
    Some(BucketId(u32::from_be_bytes(number)))
}

impl FeedRecord {
    /// Encodes it for the store.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT, self.phase as u8, self.has_values.into()];
        out.extend_from_slice(&self.era.to_le_bytes());
        out.put_u32(self.making.group.0);
        for number in [self.making.index.0, self.begun, self.rows] {
            out.put_u64(number);
        }
        out.put_u8(self.cursor.is_some().into());
        if let Some(cursor) = &self.cursor {
            out.put_string(cursor);
        }
        out
    }

    /// Decodes what the store holds.
    pub fn decode(bytes: &[u8]) -> Result<FeedRecord, Malformed> {
        const WHAT: &str = "feed record";
        let mut reader = Reader::new(bytes);
        if reader.u8(WHAT)? != FORMAT {
            return Err(Malformed(WHAT));
        }
        let code = reader.u8("feed phase")?;
        let phase = FeedPhase::ALL.into_iter().find(|phase| *phase as u8 == code);
        let phase = phase.ok_or(Malformed("feed phase"))?;
        let has_values = flag(reader.u8(WHAT)?)?;
        let era = reader.take(2, WHAT)?.try_into().map_err(|_| Malformed(WHAT))?;
        let group = GroupId(reader.u32(WHAT)?);
        let mut number = || reader.u64(WHAT);
        let (index, begun, rows) = (LogIndex(number()?), number()?, number()?);
        let cursor = match flag(reader.u8(WHAT)?)? {
            true => Some(Bytes::copy_from_slice(reader.string(KEY_BYTES_MAX, WHAT)?)),
            false => None,
        };
        reader.end(WHAT)?;
        let (era, making) = (u16::from_le_bytes(era), FeedMaking { group, index });
        Ok(FeedRecord { phase, has_values, era, making, begun, rows, cursor })
    }
}

fn flag(byte: u8) -> Result<bool, Malformed> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("feed record")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feed_records_round_trip_and_keep_their_bytes() {
        let making = FeedMaking { group: GroupId(2), index: LogIndex(3) };
        let record = FeedRecord {
            phase: FeedPhase::Ready,
            has_values: true,
            era: 0x0102,
            making,
            begun: 4,
            rows: 5,
            cursor: Some(Bytes::from_static(b"k")),
        };
        let kept = b"\x01\x02\x01\x02\x01\x02\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\
                     \x05\0\0\0\0\0\0\0\x01\x01\0\0\0k";
        assert_eq!(record.encode(), kept);
        assert_eq!(FeedRecord::decode(kept), Ok(record.clone()));
        for end in 0..kept.len() {
            assert!(FeedRecord::decode(&kept[..end]).is_err(), "{end} bytes");
        }
        assert!(FeedRecord::decode(&[&kept[..], b"\0"].concat()).is_err());
        for phase in FeedPhase::ALL {
            let record = FeedRecord { phase, cursor: None, ..record.clone() };
            assert_eq!(FeedRecord::decode(&record.encode()), Ok(record));
        }
        let key = feed_record_key(BucketId(0x0102));
        assert_eq!(key, *b"f\0\0\x01\x02");
        assert_eq!(read_feed_record_key(&key), Some(BucketId(0x0102)));
        assert_eq!(read_feed_record_key(b"x\0\0\x01\x02"), None);
        assert_eq!(read_feed_record_key(&key[..4]), None);
    }
}
