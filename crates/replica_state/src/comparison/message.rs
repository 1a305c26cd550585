//! Messages of a comparison between the master and another replica, as bytes. All numbers
//! little-endian.
//!
//! ```text
//! question  7 | version 1 | round u64 | index u64 | low (string) | high (string)
//! answer    version 1 | kind, then
//!   1 sum       rows u64 | bytes u64 | digest u64
//!   2 not yet: the marker at this index is not applied here
//!   3 gone: its snapshot is closed, or was never opened
//!   4 unreadable: the rows can't be read here
//! ```
//! `digest` is the xxh3 of each key and each value in their order, seeded with the one before.

use super::super::snapshot::KEY_MAX;
use base::LogIndex;
use base::codec::{Malformed, Reader, Writer};
use bytes::Bytes;
use transport::CallKind;

const VERSION: u8 = 1;

/// Request for the digest of a range of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparisonQuestion {
    /// Number of the marker.
    pub round: u64,
    /// Index of the entry that holds the marker.
    pub index: LogIndex,
    /// The first key.
    pub low: Bytes,
    /// The first key behind the range.
    pub high: Bytes,
}

/// Count, size and digest of a range of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sum {
    /// Number of rows.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Digest of both, in the order of the keys.
    pub digest: u64,
}

/// Answer of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonAnswer {
    /// Digest of the rows.
    Sum(Sum),
    /// The marker is not applied here yet.
    NotYet,
    /// The snapshot is closed, or was never opened.
    Gone,
    /// The rows can't be read here.
    Unreadable,
}

impl ComparisonQuestion {
    /// Encodes the question.
    pub fn write(&self) -> Bytes {
        let mut out = vec![CallKind::Comparison.byte(), VERSION];
        out.put_u64(self.round);
        out.put_u64(self.index.0);
        out.put_string(&self.low);
        out.put_string(&self.high);
        out.into()
    }

    /// Decodes a question.
    pub fn read(bytes: &Bytes) -> Result<ComparisonQuestion, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("about")? != CallKind::Comparison.byte() {
            return Err(Malformed("about"));
        }
        if reader.u8("version")? != VERSION {
            return Err(Malformed("version"));
        }
        let (round, index) = (reader.u64("round")?, LogIndex(reader.u64("index")?));
        let low = Bytes::copy_from_slice(reader.string(KEY_MAX, "low")?);
        let high = Bytes::copy_from_slice(reader.string(KEY_MAX, "high")?);
        reader.end("question")?;
        Ok(ComparisonQuestion { round, index, low, high })
    }
}

impl ComparisonAnswer {
    /// Encodes the answer.
    pub fn write(&self) -> Bytes {
        let mut out = vec![VERSION];
        match self {
            ComparisonAnswer::Sum(sum) => {
                out.put_u8(1);
                out.put_u64(sum.rows);
                out.put_u64(sum.bytes);
                out.put_u64(sum.digest);
            }
            ComparisonAnswer::NotYet => out.put_u8(2),
            ComparisonAnswer::Gone => out.put_u8(3),
            ComparisonAnswer::Unreadable => out.put_u8(4),
        }
        out.into()
    }

    /// Decodes an answer.
    pub fn read(bytes: &[u8]) -> Result<ComparisonAnswer, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("version")? != VERSION {
            return Err(Malformed("version"));
        }
        let answer = match reader.u8("kind")? {
            1 => ComparisonAnswer::Sum(Sum {
                rows: reader.u64("rows")?,
                bytes: reader.u64("bytes")?,
                digest: reader.u64("digest")?,
            }),
            2 => ComparisonAnswer::NotYet,
            3 => ComparisonAnswer::Gone,
            4 => ComparisonAnswer::Unreadable,
            _ => return Err(Malformed("kind")),
        };
        reader.end("answer")?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrub_messages_round_trip_and_malformed_ones_are_rejected() {
        let (low, high) = (Bytes::from("a"), Bytes::from("b"));
        let question = ComparisonQuestion { round: 1, index: LogIndex(2), low, high };
        let bytes = question.write();
        assert_eq!(ComparisonQuestion::read(&bytes), Ok(question));
        let sum = ComparisonAnswer::Sum(Sum { rows: 1, bytes: 2, digest: 3 });
        for answer in
            [sum, ComparisonAnswer::NotYet, ComparisonAnswer::Gone, ComparisonAnswer::Unreadable]
        {
            assert_eq!(ComparisonAnswer::read(&answer.write()), Ok(answer));
        }
        for length in 0..bytes.len() {
            assert!(ComparisonQuestion::read(&bytes.slice(..length)).is_err(), "{length} bytes");
        }
        assert!(
            ComparisonAnswer::read(&[1, 9]).is_err() && ComparisonAnswer::read(&[2, 2]).is_err()
        );
    }
}
