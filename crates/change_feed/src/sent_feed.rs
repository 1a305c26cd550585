//! Feed of a bucket that moves to another group, as its source describes it at the end.

use crate::position::FeedPosition;
use crate::record::FeedRecord;
use crate::retention::Retention;
use crate::totals::FeedTotals;
use base::codec::{Malformed, Reader, Writer};
use base::limits::KEY_BYTES_MAX;

/// Maximum bytes of an encoded feed: a cursor, and some numbers.
pub const SENT_FEED_BYTES_MAX: usize = KEY_BYTES_MAX + 1024;

/// See the head of this file. Encoded as three strings, each a length (4) and the bytes of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFeed {
    /// Record of the feed.
    pub record: FeedRecord,
    /// Totals of all entries that were ever added to it.
    pub totals: FeedTotals,
    /// Record of the entries that were removed from it.
    pub retention: Retention,
}

impl SentFeed {
    /// Returns the retention of the feed in the group that received it. `totals`: what was added
    /// there, copied entries with it. A round begins at the oldest entry, and what is kept for its
    /// age is kept as long as it would have been.
    pub fn received_retention(&self, totals: FeedTotals) -> Retention {
        let Retention { floor, oldest, cursor, round_end, examined_bytes, .. } = self.retention;
        let waiting_bytes = self.totals.bytes.saturating_sub(examined_bytes);
        Retention {
            floor,
            oldest,
            cursor: oldest,
            round_end: round_end.max(cursor),
            examined_bytes: totals.bytes.saturating_sub(waiting_bytes),
            ..Retention::default()
        }
    }

    /// Returns the era of the feed in the group that receives it. `None`: it can't be received any
    /// more, and another one begins there.
    pub fn received_era(record: &FeedRecord) -> Option<u16> {
        record.era.checked_add(1)
    }

    /// Encodes it for a message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_string(&self.record.encode());
        out.put_string(&self.totals.encode());
        out.put_string(&self.retention.encode());
        out
    }

    /// Decodes it.
    pub fn decode(bytes: &[u8]) -> Result<SentFeed, Malformed> {
        const WHAT: &str = "feed of a bucket";
        let mut reader = Reader::new(bytes);
        let mut part = || reader.string(SENT_FEED_BYTES_MAX, WHAT);
        let record = FeedRecord::decode(part()?)?;
        let totals = FeedTotals::decode(part()?)?;
        let retention = Retention::decode(part()?)?;
        reader.end(WHAT)?;
        Ok(SentFeed { record, totals, retention })
    }
}

/// Position and bytes of an entry that moves with its bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentEntry {
    /// Position of the entry.
    pub position: FeedPosition,
    /// The entry, as it is stored.
    pub entry: bytes::Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FeedMaking, FeedPhase};
    use base::{GroupId, LogIndex};

    fn position(index: u64) -> FeedPosition {
        FeedPosition { era: 1, index: LogIndex(index), ordinal: 0 }
    }

    #[test]
    fn sent_feeds_round_trip_and_their_retention_goes_on() {
        let record = FeedRecord {
            phase: FeedPhase::Ready,
            has_values: false,
            era: 1,
            making: FeedMaking { group: GroupId(1), index: LogIndex(2) },
            begun: 3,
            rows: 4,
            cursor: None,
        };
        let retention = Retention {
            floor: position(5),
            oldest: position(3),
            cursor: position(7),
            round_end: position(4),
            kept: 9,
            fresh: 9,
            removed: FeedTotals { entries: 1, bytes: 10 },
            examined_bytes: 70,
        };
        let totals = FeedTotals { entries: 10, bytes: 100 };
        let sent = SentFeed { record, totals, retention };
        let bytes = sent.encode();
        assert_eq!(SentFeed::decode(&bytes), Ok(sent.clone()));
        for end in 0..bytes.len() {
            assert!(SentFeed::decode(&bytes[..end]).is_err(), "{end} bytes");
        }
        let received = sent.received_retention(FeedTotals { entries: 9, bytes: 90 });
        let expected = Retention {
            floor: position(5),
            oldest: position(3),
            cursor: position(3),
            round_end: position(7),
            examined_bytes: 60,
            ..Retention::default()
        };
        assert_eq!(received, expected, "30 bytes wait here, as there");
        assert_eq!(SentFeed::received_era(&sent.record), Some(2));
        let last = FeedRecord { era: u16::MAX, ..sent.record };
        assert_eq!(SentFeed::received_era(&last), None);
    }
}
