//! Changes of the feeds of one node since a mark: the names of buckets, and no entries. Nodes tell
//! them to those at which readers wait.
//!
//! ```text
//! mark    = life u64 LE | number u64 LE
//! changes = mark | 0 u8 | buckets u32 LE | names, u32 LE length each
//!      or   mark | 1 u8 (any may have changed)
//! ```

use base::BucketName;
use base::codec::{Malformed, Reader, Writer};
use base::limits::{BUCKET_NAME_BYTES_MAX, NAME_BYTES_MAX};

/// Longest full name of a bucket, in bytes.
const FULL_NAME_BYTES_MAX: usize = NAME_BYTES_MAX + 1 + BUCKET_NAME_BYTES_MAX;

/// Place among the changes of one node's feeds, as the node counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeMark {
    /// Incarnation of the node.
    pub life: u64,
    /// Number of the last change.
    pub number: u64,
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedChanges {
    /// Mark behind these changes.
    pub mark: ChangeMark,
    /// Buckets whose feeds have new entries, each once. `None`: any may have.
    pub buckets: Option<Vec<BucketName>>,
}

impl ChangeMark {
    /// Encodes the mark.
    pub fn put(self, out: &mut Vec<u8>) {
        out.put_u64(self.life);
        out.put_u64(self.number);
    }

    /// Decodes a mark.
    pub fn take(from: &mut Reader<'_>) -> Result<ChangeMark, Malformed> {
        let mut number = || from.u64("the mark of a feed's changes");
        Ok(ChangeMark { life: number()?, number: number()? })
    }
}

impl FeedChanges {
    /// Encodes the changes.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.mark.put(out);
        out.put_u8(self.buckets.is_none().into());
        if let Some(buckets) = &self.buckets {
            out.put_u32(buckets.len() as u32);
            buckets.iter().for_each(|bucket| out.put_string(bucket.full().as_bytes()));
        }
    }

    /// Decodes changes that fill these bytes.
    pub fn read(bytes: &[u8]) -> Result<FeedChanges, Malformed> {
        const WHAT: &str = "the changes of feeds";
        let mut from = Reader::new(bytes);
        let mark = ChangeMark::take(&mut from)?;
        let buckets = match from.u8(WHAT)? {
            0 => {
                let count = from.u32(WHAT)?;
                let mut buckets = Vec::new();
                for _ in 0..count {
                    let name = from.string(FULL_NAME_BYTES_MAX, WHAT)?;
                    let name = std::str::from_utf8(name).map_err(|_| Malformed(WHAT))?;
                    buckets.push(BucketName::from_full(name).map_err(|_| Malformed(WHAT))?);
                }
                Some(buckets)
            }
            1 => None,
            _ => return Err(Malformed(WHAT)),
        };
        from.end("the end of the changes of feeds")?;
        Ok(FeedChanges { mark, buckets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_feeds_round_trip_and_keep_their_bytes() {
        let mark = ChangeMark { life: 2, number: 3 };
        let bucket = BucketName::new("available", "b").expect("a name");
        let head = b"\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";
        for (buckets, rest) in [
            (None, &b"\x01"[..]),
            (Some(Vec::new()), b"\0\0\0\0\0"),
            (Some(vec![bucket]), b"\0\x01\0\0\0\x0b\0\0\0available/b"),
        ] {
            let changes = FeedChanges { mark, buckets };
            let (mut bytes, kept) = (Vec::new(), [&head[..], rest].concat());
            changes.put(&mut bytes);
            assert_eq!(bytes, kept);
            assert_eq!(FeedChanges::read(&kept), Ok(changes));
            for end in 0..kept.len() {
                assert!(FeedChanges::read(&kept[..end]).is_err(), "cut at {end}");
            }
        }
        assert!(FeedChanges::read(&[&head[..], b"\x02"].concat()).is_err());
        assert!(FeedChanges::read(&[&head[..], b"\x01\0"].concat()).is_err());
    }
}
