//! Tokens of feeds: how far a reader has read, as text.
//!
//! Form (1 byte), content, checksum (8), in base64url without padding. The form says which kind of
//! bucket wrote the content. The checksum covers the bucket's name: it finds text that was changed
//! by accident, and tokens of other buckets. Whoever forges one begins a page elsewhere in the same
//! feed, and reads nothing more.

use crate::position::FeedPosition;
use crate::record::FeedMaking;
use base::feed::malformed_token;
use base::limits::FEED_TOKEN_BYTES_MAX;
use base::{BucketName, GroupId, LogIndex, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;

const CHECKSUM_BYTES: usize = 8;
const CHECKSUM_CONTEXT: &str = "credenza 2026 feed token";
const MAKING_BYTES: usize = 12;

/// Form of a token: the kind of bucket that wrote its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenForm {
    /// Consistent bucket.
    Consistent = 1,
    /// Available bucket.
    Available = 2,
}

/// Returns a token as text.
pub fn encode_token(bucket: &BucketName, form: TokenForm, content: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(1 + content.len() + CHECKSUM_BYTES);
    out.push(form as u8);
    out.extend_from_slice(content);
    let checksum = checksum(bucket, &out);
    out.extend_from_slice(&checksum);
    URL_SAFE_NO_PAD.encode(out).into()
}

/// Returns the content of a token. Errors: `malformed_token` if the text is no token of this form,
/// was changed, or is a token of another bucket.
pub fn decode_token(bucket: &BucketName, form: TokenForm, text: &[u8]) -> Result<Vec<u8>> {
    if text.len() > FEED_TOKEN_BYTES_MAX {
        return Err(malformed_token());
    }
    let mut bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed_token())?;
    let (content, found) = bytes.split_last_chunk().ok_or_else(malformed_token)?;
    if *found != checksum(bucket, content) || content.first() != Some(&(form as u8)) {
        return Err(malformed_token());
    }
    bytes.truncate(bytes.len() - CHECKSUM_BYTES);
    bytes.remove(0);
    Ok(bytes)
}

fn checksum(bucket: &BucketName, content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut checksum = [0; CHECKSUM_BYTES];
    let name = bucket.full().as_bytes();
    blake3::Hasher::new_derive_key(CHECKSUM_CONTEXT)
        .update(&(name.len() as u64).to_be_bytes())
        .update(name)
        .update(content)
        .finalize_xof()
        .fill(&mut checksum);
    checksum
}

/// Token of a consistent bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsistentToken {
    /// Feed that returned it. A bucket that was cleared has another.
    pub making: FeedMaking,
    /// Last position that the reader has passed.
    pub position: FeedPosition,
    /// Position that the reader has to pass before it has all that the feed had when the reader
    /// began at the start. `None`: it has passed it. Deletes that were removed before that are not
    /// missing to it, because it has not seen what they deleted.
    pub scan_end: Option<FeedPosition>,
}

impl ConsistentToken {
    /// Returns the token as text.
    pub fn encode(&self, bucket: &BucketName) -> Bytes {
        let mut content = Vec::with_capacity(MAKING_BYTES + 2 * FeedPosition::BYTES);
        content.extend_from_slice(&self.making.group.0.to_be_bytes());
        content.extend_from_slice(&self.making.index.0.to_be_bytes());
        content.extend_from_slice(&self.position.encode());
        if let Some(end) = self.scan_end {
            content.extend_from_slice(&end.encode());
        }
        encode_token(bucket, TokenForm::Consistent, &content)
    }

    /// Decodes a token. Errors: see [`decode_token`].
    pub fn decode(bucket: &BucketName, text: &[u8]) -> Result<ConsistentToken> {
        let content = decode_token(bucket, TokenForm::Consistent, text)?;
        ConsistentToken::read(&content).ok_or_else(malformed_token)
    }

    fn read(content: &[u8]) -> Option<ConsistentToken> {
        let (group, rest) = content.split_first_chunk()?;
        let (index, rest) = rest.split_first_chunk()?;
        let (position, end) = rest.split_at_checked(FeedPosition::BYTES)?;
        let group = GroupId(u32::from_be_bytes(*group));
        let index = LogIndex(u64::from_be_bytes(*index));
        let scan_end = match end {
            [] => None,
            end => Some(FeedPosition::decode(end).ok()?),
        };
        let position = FeedPosition::decode(position).ok()?;
        Some(ConsistentToken { making: FeedMaking { group, index }, position, scan_end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Reason;

    fn bucket(name: &str) -> BucketName {
        BucketName::from_full(name).expect("a name")
    }

    fn position(index: u64) -> FeedPosition {
        FeedPosition { era: 1, index: LogIndex(index), ordinal: 7 }
    }

    #[test]
    fn tokens_round_trip_and_keep_their_text() {
        let making = FeedMaking { group: GroupId(1), index: LogIndex(2) };
        for scan_end in [None, Some(position(9))] {
            let token = ConsistentToken { making, position: position(5), scan_end };
            let text = token.encode(&bucket("a/b"));
            assert!(text.starts_with(b"AQAAAAEAAAAAAAAAAgABAAAAAAAAAAUAAAAH"), "{text:?}");
            assert_eq!(ConsistentToken::decode(&bucket("a/b"), &text), Ok(token));
        }
    }

    #[test]
    fn changed_foreign_and_overlong_tokens_are_malformed() {
        let making = FeedMaking::default();
        let token = ConsistentToken { making, position: position(5), scan_end: None };
        let text = token.encode(&bucket("a/b"));
        let reason = |name: &str, text: &[u8]| {
            ConsistentToken::decode(&bucket(name), text).map_err(|error| error.reason)
        };
        let malformed = Err(Reason::MalformedToken);
        assert_eq!(reason("a/c", &text), malformed, "of another bucket");
        for at in 0..text.len() {
            let mut changed = text.to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            // Two characters of the last byte may mean the same bits.
            let found = reason("a/b", &changed);
            assert!(found == malformed || found == Ok(token), "{at}");
            assert_eq!(reason("a/b", &text[..at]), malformed, "{at} bytes");
        }
        let other = encode_token(&bucket("a/b"), TokenForm::Available, b"content");
        assert_eq!(reason("a/b", &other), malformed, "of another form");
        assert_eq!(
            decode_token(&bucket("a/b"), TokenForm::Available, &other),
            Ok(b"content".to_vec())
        );
        let long = encode_token(&bucket("a/b"), TokenForm::Consistent, &[0; FEED_TOKEN_BYTES_MAX]);
        assert_eq!(reason("a/b", &long), malformed);
        let short = encode_token(&bucket("a/b"), TokenForm::Consistent, &[0; 20]);
        assert_eq!(reason("a/b", &short), malformed, "sound, but not what the form holds");
    }
}
