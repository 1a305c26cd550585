//! Totals of a feed: what was ever added to it. Each replica adds to them when it applies an entry
//! of the log that adds feed entries.
//!
//! ```text
//! Meta | bucket | t -> format u8 (1) | entries u64 LE | bytes u64 LE
//! ```

use base::codec::{Malformed, Reader, Writer};

/// Name of the row within the numbers of its bucket.
pub const TOTALS_NAME: &[u8] = b"t";
const FORMAT: u8 = 1;

/// See the head of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedTotals {
    /// Number of entries.
    pub entries: u64,
    /// Bytes of their tree keys and rows.
    pub bytes: u64,
}

impl FeedTotals {
    /// Adds an entry of so many bytes.
    pub fn add(&mut self, bytes: usize) {
        self.entries = self.entries.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes as u64);
    }

    /// Encodes them for the store.
    pub fn encode(self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.put_u64(self.entries);
        out.put_u64(self.bytes);
        out
    }

    /// Decodes what the store holds.
    pub fn decode(bytes: &[u8]) -> Result<FeedTotals, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("feed totals")? != FORMAT {
            return Err(Malformed("feed totals"));
        }
        let totals =
            FeedTotals { entries: reader.u64("feed totals")?, bytes: reader.u64("feed totals")? };
        reader.end("feed totals")?;
        Ok(totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_round_trip_and_keep_their_bytes() {
        let mut totals = FeedTotals { entries: 1, bytes: 2 };
        totals.add(5);
        let kept = b"\x01\x02\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0";
        assert_eq!((totals.encode().as_slice(), FeedTotals::decode(kept)), (&kept[..], Ok(totals)));
        assert!(FeedTotals::decode(&kept[..16]).is_err());
        assert!(FeedTotals::decode(&[&kept[..], b"\0"].concat()).is_err());
    }
}
