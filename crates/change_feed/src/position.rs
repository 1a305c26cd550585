//! Positions in the feed of a consistent bucket.

use base::LogIndex;
use base::codec::Malformed;

/// Position of an entry in the feed of a consistent bucket. Positions order as the changes do, also
/// across moves of the bucket between groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeedPosition {
    /// Number of moves of the bucket before the change.
    pub era: u16,
    /// Index of the change in the log of the bucket's group. 0 for records that are older than the
    /// feed: every change of such a record comes behind.
    pub index: LogIndex,
    /// Number of the entry among those of the index.
    pub ordinal: u32,
}

impl FeedPosition {
    /// Size in bytes.
    pub const BYTES: usize = 14;

    /// Returns the position of a record that is older than the feed. `number`: its place among
    /// them, from 0 on. `None`: there are more than a feed can hold.
    pub fn of_older(era: u16, number: u64) -> Option<FeedPosition> {
        // Position 0 of era 0 is that before all entries.
        let ordinal = u32::try_from(number.checked_add(1)?).ok()?;
        Some(FeedPosition { era, index: LogIndex(0), ordinal })
    }

    /// Returns the position behind all entries of an index.
    pub fn end_of(era: u16, index: LogIndex) -> FeedPosition {
        FeedPosition { era, index, ordinal: u32::MAX }
    }

    /// Encodes it; the bytes order as the positions do.
    pub fn encode(self) -> [u8; FeedPosition::BYTES] {
        let mut bytes = [0; FeedPosition::BYTES];
        bytes[..2].copy_from_slice(&self.era.to_be_bytes());
        bytes[2..10].copy_from_slice(&self.index.0.to_be_bytes());
        bytes[10..].copy_from_slice(&self.ordinal.to_be_bytes());
        bytes
    }

    /// Decodes a position that fills these bytes.
    pub fn decode(bytes: &[u8]) -> Result<FeedPosition, Malformed> {
        let malformed = Malformed("feed position");
        let (era, rest) = bytes.split_first_chunk().ok_or(malformed)?;
        let (index, rest) = rest.split_first_chunk().ok_or(malformed)?;
        let ordinal = rest.try_into().map_err(|_| malformed)?;
        Ok(FeedPosition {
            era: u16::from_be_bytes(*era),
            index: LogIndex(u64::from_be_bytes(*index)),
            ordinal: u32::from_be_bytes(ordinal),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn positions() -> impl Strategy<Value = FeedPosition> {
        (0..3_u16, 0..300_u64, 0..300_u32).prop_map(|(era, index, ordinal)| FeedPosition {
            era,
            index: LogIndex(index),
            ordinal,
        })
    }

    proptest! {
        #[test]
        fn bytes_of_positions_order_as_positions(one in positions(), other in positions()) {
            prop_assert_eq!(one.encode().cmp(&other.encode()), one.cmp(&other));
            prop_assert_eq!(FeedPosition::decode(&one.encode()), Ok(one));
        }
    }

    #[test]
    fn position_keeps_its_bytes() {
        let position = FeedPosition { era: 0x0102, index: LogIndex(3), ordinal: 4 };
        let kept = *b"\x01\x02\0\0\0\0\0\0\0\x03\0\0\0\x04";
        assert_eq!(position.encode(), kept);
        assert!(FeedPosition::decode(&kept[1..]).is_err());
        assert!(FeedPosition::decode(&[&kept[..], b"\0"].concat()).is_err());
        assert!(FeedPosition::end_of(1, LogIndex(9)) < FeedPosition::end_of(2, LogIndex(1)));
    }

    #[test]
    fn older_records_stand_before_all_changes_and_behind_the_beginning() {
        let first = FeedPosition::of_older(0, 0).expect("it is the first");
        let last = FeedPosition::of_older(0, u64::from(u32::MAX) - 1).expect("it is the last");
        let change = FeedPosition { era: 0, index: LogIndex(1), ordinal: 0 };
        assert!(FeedPosition::default() < first && first < last && last < change);
        assert_eq!(FeedPosition::of_older(0, u64::from(u32::MAX)), None);
    }
}
