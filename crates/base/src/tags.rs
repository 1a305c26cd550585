//! Tags: index entries that a client writes beside a value (Riak's `x-riak-index-*`), as rows of
//! consistent buckets and messages about them hold them.

use crate::codec::{Malformed, Reader};
use crate::limits::{CONTENT_HEADERS_BYTES_MAX, CONTENT_HEADERS_MAX};
use crate::{Headers, Result, varint};
use bytes::Bytes;

/// Most bytes of encoded tags: the largest ones, with their number and their lengths.
pub const TAGS_BYTES_MAX: usize = CONTENT_HEADERS_BYTES_MAX + 6 * CONTENT_HEADERS_MAX + 2;

/// Tags of a value: field and text of each; sorted, no duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(pub Vec<(Bytes, Bytes)>);

impl Tags {
    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of bytes of all fields and texts.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(field, text)| field.len() + text.len()).sum()
    }

    /// Checks the tags against the limits of headers. Errors: `too_large`.
    pub fn check(&self) -> Result<()> {
        Headers { indexes: self.0.clone(), ..Headers::default() }.check()
    }

    /// Encodes them: their number, then field and text of each. Numbers and lengths are varints.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes() + 6 * self.0.len() + 2);
        varint::put(self.0.len() as u64, &mut out);
        for (field, text) in &self.0 {
            varint::put_string(field, &mut out);
            varint::put_string(text, &mut out);
        }
        out
    }

    /// Decodes tags. Errors: `Malformed` also if there is none, or one above the limits.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Tags, Malformed> {
        const TAGS: &str = "tags";
        let mut reader = Reader::new(bytes);
        let count = varint::take_count(&mut reader, 2, TAGS)?;
        if count == 0 || count > CONTENT_HEADERS_MAX {
            return Err(Malformed(TAGS));
        }
        let mut text = || {
            let text = varint::take_string(&mut reader, CONTENT_HEADERS_BYTES_MAX, TAGS)?;
            Ok(Bytes::copy_from_slice(text))
        };
        let mut tags = Vec::with_capacity(count);
        for _ in 0..count {
            tags.push((text()?, text()?));
        }
        reader.end(TAGS)?;
        let tags = Tags(tags);
        if tags.bytes() > CONTENT_HEADERS_BYTES_MAX { Err(Malformed(TAGS)) } else { Ok(tags) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    fn tag(field: &str, text: &str) -> (Bytes, Bytes) {
        (Bytes::copy_from_slice(field.as_bytes()), Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn tags_round_trip_and_keep_their_bytes() {
        let tags = Tags(vec![tag("a_int", "-7"), tag("b_bin", "")]);
        let bytes = tags.encode();
        assert_eq!(bytes, b"\x02\x05a_int\x02-7\x05b_bin\0");
        assert_eq!(Tags::decode(&bytes), Ok(tags));
        for end in 0..bytes.len() {
            assert!(Tags::decode(&bytes[..end]).is_err(), "{end} bytes");
        }
        assert!(Tags::decode(&[&bytes[..], b"\0"].concat()).is_err());
        assert!(Tags::decode(b"\0").is_err(), "a value without tags has no field of them");
    }

    #[test]
    fn tags_above_size_or_count_limit_are_refused() {
        let many = |count| Tags(vec![tag("a_int", "1"); count]);
        let large = |bytes| Tags(vec![tag("a_bin", &"x".repeat(bytes - 5))]);
        for (tags, fits) in [
            (many(CONTENT_HEADERS_MAX), true),
            (many(CONTENT_HEADERS_MAX + 1), false),
            (large(CONTENT_HEADERS_BYTES_MAX), true),
            (large(CONTENT_HEADERS_BYTES_MAX + 1), false),
        ] {
            let refused = tags.check().map_err(|error| error.reason);
            assert_eq!(refused, if fits { Ok(()) } else { Err(Reason::TooLarge) });
            let bytes = tags.encode();
            assert_eq!(Tags::decode(&bytes).is_ok(), fits);
            assert!(!fits || bytes.len() <= TAGS_BYTES_MAX);
        }
    }
}
