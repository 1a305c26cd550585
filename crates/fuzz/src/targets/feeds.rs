//! Feeds of changes: rows of their entries, records and numbers, and tokens of readers.

use crate::input::InputReader;
use base::limits::FEED_TOKEN_BYTES_MAX;
use base::{BucketName, GroupId, LogIndex};
use bytes::Bytes;
use change_feed::{
    ConsistentToken, FeedChanges, FeedEntry, FeedMaking, FeedPosition, FeedRecord, FeedTotals,
    Retention, SentFeed, TokenForm, decode_token, encode_token,
};

/// Rows as they are kept or sent, and tokens of clients.
pub fn run(input: &[u8]) {
    let mut input = InputReader::new(input);
    let kind = input.below(9);
    if kind == 7 {
        return token(&mut input);
    }
    let bytes = Bytes::copy_from_slice(input.rest());
    match kind {
        0 => {
            let Ok(position) = FeedPosition::decode(&bytes) else { return };
            assert_eq!(position.encode()[..], bytes, "a position has one form");
        }
        1 => {
            let Ok(entry) = FeedEntry::decode(&bytes) else { return };
            assert_eq!(entry.encode(), bytes, "an entry has one form");
        }
        2 => {
            let Ok(record) = FeedRecord::decode(&bytes) else { return };
            assert_eq!(record.encode(), bytes, "a record has one form");
        }
        3 => {
            let Ok(retention) = Retention::decode(&bytes) else { return };
            assert_eq!(retention.encode(), bytes, "a retention has one form");
        }
        4 => {
            let Ok(totals) = FeedTotals::decode(&bytes) else { return };
            assert_eq!(totals.encode(), bytes, "totals have one form");
        }
        5 => {
            let Ok(sent) = SentFeed::decode(&bytes) else { return };
            assert_eq!(sent.encode(), bytes, "a sent feed has one form");
            let received = sent.received_retention(sent.totals);
            assert!(received.cursor == received.oldest && received.floor == sent.retention.floor);
        }
        8 => {
            let Ok(changes) = FeedChanges::read(&bytes) else { return };
            let mut written = Vec::new();
            changes.put(&mut written);
            assert_eq!(written, bytes, "changes have one form");
        }
        _ => {
            let bucket = BucketName::default();
            let Ok(token) = ConsistentToken::decode(&bucket, &bytes) else { return };
            assert_eq!(ConsistentToken::decode(&bucket, &token.encode(&bucket)), Ok(token));
        }
    }
}

/// A token that a node made: it reads back, in its bucket alone, and nothing that is changed does.
fn token(input: &mut InputReader<'_>) {
    let (bucket, other) = (BucketName::default(), BucketName::parse("other").expect("a name"));
    let (at, change) = (usize::from(input.u8()), input.u8());
    let mut number = || u64::from(input.u8()) << (input.u8() % 64);
    let making = FeedMaking { group: GroupId(number() as u32), index: LogIndex(number()) };
    let mut position = || FeedPosition {
        era: number() as u16,
        index: LogIndex(number()),
        ordinal: number() as u32,
    };
    let token = ConsistentToken { making, position: position(), scan_end: Some(position()) };
    let mut text = token.encode(&bucket).to_vec();
    assert_eq!(ConsistentToken::decode(&bucket, &text), Ok(token));
    assert!(ConsistentToken::decode(&other, &text).is_err());
    let content = input.rest();
    let available = encode_token(&bucket, TokenForm::Available, content);
    let decoded = decode_token(&bucket, TokenForm::Available, &available);
    assert!(decoded.map_or(available.len() > FEED_TOKEN_BYTES_MAX, |decoded| decoded == content));
    let at = at % text.len();
    if text[at] != change {
        text[at] = change;
        // The last character has bits that mean nothing.
        let read = ConsistentToken::decode(&bucket, &text);
        assert!(read.is_err() || at + 1 == text.len(), "a changed byte is noticed");
    }
}
