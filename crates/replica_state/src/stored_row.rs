//! Row of a bucket as it is stored.
//!
//! ```text
//! row = flags u8 (1: expires, 2: has tags) | version u64 LE | [expires u64 LE]
//!     | [length of the tags u32 LE | tags] | value
//! ```
//! A row without tags has the bytes that it had before there were tags; a program of that time
//! finds the flag of the others unknown, and reads none of them.

use base::codec::{Malformed, Reader};
use base::tags::TAGS_BYTES_MAX;
use base::{Row, Tags, Version};
use bytes::Bytes;

const HAS_EXPIRY: u8 = 1;
const HAS_TAGS: u8 = 2;
/// Bytes of flags and version, and of the length of the tags.
const FIXED_BYTES: usize = 9;
const LENGTH_BYTES: usize = 4;

/// Head of a row, in front of its value.
#[derive(Clone, Copy, Debug)]
pub struct RowHead<'a> {
    /// Version of the update that wrote it.
    pub version: Version,
    /// Group time at which it expires, milliseconds.
    pub expires: Option<u64>,
    /// Encoded tags; empty: the row has none.
    pub tags: &'a [u8],
}

impl RowHead<'_> {
    /// Returns the number of bytes that [`Self::write`] writes.
    #[inline]
    pub fn bytes(&self) -> usize {
        let expiry_bytes = if self.expires.is_some() { 8 } else { 0 };
        let tags_bytes = if self.tags.is_empty() { 0 } else { LENGTH_BYTES + self.tags.len() };
        FIXED_BYTES + expiry_bytes + tags_bytes
    }

    /// Appends the bytes of a row in front of its value.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        let has_expiry = if self.expires.is_some() { HAS_EXPIRY } else { 0 };
        let has_tags = if self.tags.is_empty() { 0 } else { HAS_TAGS };
        out.push(has_expiry | has_tags);
        out.extend_from_slice(&self.version.0.to_le_bytes());
        if let Some(expires) = self.expires {
            out.extend_from_slice(&expires.to_le_bytes());
        }
        if !self.tags.is_empty() {
            out.extend_from_slice(&(self.tags.len() as u32).to_le_bytes());
            out.extend_from_slice(self.tags);
        }
    }
}

/// A row as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow {
    /// Version of the update that wrote it.
    pub version: Version,
    /// Group time at which it expires, milliseconds.
    pub expires: Option<u64>,
    /// The value.
    pub value: Bytes,
    /// Tags of the value. `None`: it has none.
    pub tags: Option<Box<Tags>>,
}

impl StoredRow {
    /// Converts it into a row for a client. `now`: group time.
    #[inline]
    pub fn into_row(self, now: u64) -> Row {
        Row {
            value: self.value,
            version: self.version,
            expires_in_ms: self.expires.map(|expires| expires.saturating_sub(now)),
            tags: self.tags,
        }
    }

    /// Appends the bytes of a row without tags in front of its value.
    #[inline]
    pub fn write_head(version: Version, expires: Option<u64>, out: &mut Vec<u8>) {
        RowHead { version, expires, tags: &[] }.write(out);
    }

    /// Returns the number of bytes of an encoded row's value. Of bytes that are no row: any number.
    #[inline]
    pub fn value_bytes(row: &[u8]) -> usize {
        let flags = row.first().copied().unwrap_or_default();
        let head_bytes = FIXED_BYTES + if flags & HAS_EXPIRY != 0 { 8 } else { 0 };
        let tags_bytes = if flags & HAS_TAGS != 0 { tags_bytes(row, head_bytes) } else { 0 };
        row.len().saturating_sub(head_bytes.saturating_add(tags_bytes))
    }

    /// Decodes a row. Its value is a slice of `bytes`.
    #[inline]
    pub fn read(bytes: &Bytes) -> Result<StoredRow, Malformed> {
        let RowView { version, expires, tags, value } = RowView::read(bytes)?;
        let tags = match tags {
            None => None,
            Some(tags) => Some(Box::new(Tags::decode(tags)?)),
        };
        let value = bytes.slice(bytes.len() - value.len()..);
        Ok(StoredRow { version, expires, value, tags })
    }

    /// Returns true if the row has expired by this group time.
    #[inline]
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// Returns the bytes that the tags of a row take, with their length, which stands at `offset`.
#[cold]
fn tags_bytes(row: &[u8], offset: usize) -> usize {
    let length = row.get(offset..).and_then(|rest| rest.first_chunk());
    length.map_or(0, |length| LENGTH_BYTES + u32::from_le_bytes(*length) as usize)
}

/// A row as it is stored, with its value lent by the row's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowView<'a> {
    /// Version of the update that wrote it.
    pub version: Version,
    /// Group time at which it expires, milliseconds.
    pub expires: Option<u64>,
    /// Encoded tags, not decoded yet. `None`: it has none.
    pub tags: Option<&'a [u8]>,
    /// The value.
    pub value: &'a [u8],
}

impl<'a> RowView<'a> {
    /// Decodes a row.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Result<RowView<'a>, Malformed> {
        let mut reader = Reader::new(bytes);
        let flags = reader.u8("row flags")?;
        if flags & !(HAS_EXPIRY | HAS_TAGS) != 0 {
            return Err(Malformed("row flags"));
        }
        let version = Version(reader.u64("row version")?);
        let expires = match flags & HAS_EXPIRY {
            0 => None,
            _ => Some(reader.u64("row expiry")?),
        };
        let tags = match flags & HAS_TAGS {
            0 => None,
            _ => Some(reader.string(TAGS_BYTES_MAX, "row tags")?),
        };
        Ok(RowView { version, expires, tags, value: reader.rest() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_round_trip_and_keep_their_bytes() {
        let tags = Tags(vec![(Bytes::from_static(b"a_int"), Bytes::from_static(b"7"))]);
        let version = b"\x05\0\0\0\0\0\0\0";
        let expiry = b"\x09\0\0\0\0\0\0\0";
        let tag_bytes = b"\x09\0\0\0\x01\x05a_int\x017";
        for (expires, tags, kept) in [
            (None, None, [&b"\0"[..], version, b"v"].concat()),
            (Some(9), None, [&b"\x01"[..], version, expiry, b"v"].concat()),
            (None, Some(&tags), [&b"\x02"[..], version, tag_bytes, b"v"].concat()),
            (Some(9), Some(&tags), [&b"\x03"[..], version, expiry, tag_bytes, b"v"].concat()),
        ] {
            let encoded = tags.map(Tags::encode).unwrap_or_default();
            let head = RowHead { version: Version(5), expires, tags: &encoded };
            let mut bytes = Vec::new();
            head.write(&mut bytes);
            assert_eq!(bytes.len(), head.bytes());
            bytes.push(b'v');
            assert_eq!(bytes, kept);
            let bytes = Bytes::from(bytes);
            assert_eq!(StoredRow::value_bytes(&bytes), 1);
            let value = Bytes::from_static(b"v");
            let tags = tags.cloned().map(Box::new);
            let row = StoredRow { version: Version(5), expires, value, tags };
            assert_eq!(StoredRow::read(&bytes), Ok(row));
            for end in 0..bytes.len() - 1 {
                assert!(StoredRow::read(&bytes.slice(..end)).is_err(), "{end} bytes");
                let _ = StoredRow::value_bytes(&bytes[..end]);
            }
        }
        for flags in [4, 8, 128] {
            let unknown = Bytes::from([&[flags][..], version, b"v"].concat());
            assert_eq!(StoredRow::read(&unknown), Err(Malformed("row flags")));
        }
        let empty = Bytes::from([&b"\x02"[..], version, b"\x01\0\0\0\0v"].concat());
        assert!(StoredRow::read(&empty).is_err(), "a row without tags has no such flag");
    }
}
