//! Refusal of lengths that exceed the message, and of sizes above the limits.

use super::{answer_bytes, error_bytes, reply_bytes, request, request_bytes, update_request};
use crate::available::{AvailableCall, Content, Context, Headers, Store};
use crate::codec::{Malformed, Writer};
use crate::limits::{
    CHANGES_MAX, CONTENT_HEADERS_BYTES_MAX, CONTEXT_BYTES_MAX, JOIN_TOKEN_USES_MAX, KEY_BYTES_MAX,
    KEYS_PER_READ_MAX, PEER_CALL_BYTES_MAX, PEER_DETAIL_BYTES_MAX, PEER_HEAD_BYTES_MAX,
    SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX, VALUE_BYTES_MAX, VALUES_BYTES_MAX,
};
use crate::reply::{Body, Entry, Outcome, Page, Row};
use crate::request::{Call, DirectoryCall, Expiry, Read, ReadLevel, SequenceMode, Update};
use crate::wire::{read_answer, write_answer_to};
use crate::{
    ClusterCall, Error, JoinTokenTerms, Key, Kind, LogIndex, Reason, Reply, Request, TokenDigest,
    Version,
};
use bytes::Bytes;

/// Returns the offset of `needle`.
fn find(bytes: &[u8], needle: &[u8]) -> usize {
    bytes.windows(needle.len()).position(|window| window == needle).expect("it is there")
}

fn sequence(steps: Vec<Update>) -> Update {
    Update::Sequence { steps, mode: SequenceMode::AllOrNothing }
}

/// Returns the bytes with a number of 4 bytes written at `offset`.
fn with_u32(bytes: &Bytes, offset: usize, claim: usize) -> Bytes {
    let mut changed = bytes.to_vec();
    changed[offset..offset + 4].copy_from_slice(&(claim as u32).to_le_bytes());
    changed.into()
}

#[test]
fn token_call_rejects_nesting_and_wrong_digest_length() {
    let digest = TokenDigest([7; TokenDigest::BYTES]);
    let wrapped = |call| ClusterCall::WithToken { digest, call: Box::new(call) };
    let bytes = |call| request_bytes(&request(Call::Directory(DirectoryCall::Cluster(call))));
    let once = bytes(wrapped(ClusterCall::RevokeTokens));
    assert!(Request::read(&once).is_ok());
    let twice = bytes(wrapped(wrapped(ClusterCall::RevokeTokens)));
    assert_eq!(Request::read(&twice), Err(Malformed("kind of cluster call")));
    let offset = find(&once, &digest.0) - 4;
    for claim in [31, 33] {
        assert_eq!(
            Request::read(&with_u32(&once, offset, claim)),
            Err(Malformed("digest")),
            "{claim}"
        );
    }
}

#[test]
fn token_call_rejects_no_uses_and_more_than_the_limit() {
    let digest = TokenDigest([7; TokenDigest::BYTES]);
    let terms = JoinTokenTerms { lifetime_ms: None, uses: Some(JOIN_TOKEN_USES_MAX) };
    let call = Call::Directory(DirectoryCall::Cluster(ClusterCall::AddToken { digest, terms }));
    let bytes = request_bytes(&request(call));
    assert!(Request::read(&bytes).is_ok());
    let offset = find(&bytes, &JOIN_TOKEN_USES_MAX.to_le_bytes());
    for uses in [0, JOIN_TOKEN_USES_MAX as usize + 1] {
        let read = Request::read(&with_u32(&bytes, offset, uses));
        assert_eq!(read, Err(Malformed("uses of a token")), "{uses}");
    }
}

#[test]
fn excessive_claimed_count_is_rejected_before_allocation() {
    // An allocation before the check would report the missing element instead of the claim.
    let key = Key::from_static(b"a key");
    let get = request_bytes(&request(Call::Read(Read::MultiGet(vec![key]), ReadLevel::Dirty)));
    let offset = find(&get, b"a key") - 8;
    for claim in [2, KEYS_PER_READ_MAX, KEYS_PER_READ_MAX + 1, u32::MAX as usize] {
        let read = Request::read(&with_u32(&get, offset, claim));
        let field = if claim == 2 { "key" } else { "number of keys" };
        assert_eq!(read, Err(Malformed(field)), "{claim}");
    }
    let nop = request_bytes(&update_request(sequence(vec![Update::Nop])));
    for claim in [4, SEQUENCE_STEPS_MAX, SEQUENCE_STEPS_MAX + 1, u32::MAX as usize] {
        let read = Request::read(&with_u32(&nop, nop.len() - 6, claim));
        assert_eq!(read, Err(Malformed("number of steps")), "{claim}");
    }
    let changes = vec![("sync".to_string(), "sync".to_string()); CHANGES_MAX];
    let create = request_bytes(&request(Call::Directory(DirectoryCall::CreateType(changes))));
    assert!(Request::read(&create).is_ok());
    let offset = find(&create, &(CHANGES_MAX as u32).to_le_bytes());
    let more = Request::read(&with_u32(&create, offset, CHANGES_MAX + 1));
    assert_eq!(more, Err(Malformed("number of changes")));
    for (body, field) in [
        (Body::Rows(vec![]), "number of rows"),
        (Body::Page(Page { entries: vec![], more: false }), "number of rows"),
        (Body::Updated(Outcome::Steps(vec![])), "number of steps"),
        (Body::Buckets(vec![]), "number of buckets"),
        (Body::Types(vec![]), "number of types"),
        (Body::KeyVersions(vec![]), "number of versions"),
    ] {
        let bytes = reply_bytes(&Reply::new(LogIndex(1), body));
        let offset = 9 + find(&bytes[9..], &[0; 4]);
        for claim in [3, 100, u32::MAX as usize] {
            assert_eq!(
                Reply::read(&with_u32(&bytes, offset, claim)),
                Err(Malformed(field)),
                "{claim}"
            );
        }
    }
}

#[test]
fn oversized_keys_and_values_are_rejected_and_details_truncated() {
    for (length, fits) in [(KEY_BYTES_MAX, true), (KEY_BYTES_MAX + 1, false)] {
        let get = Read::Get(Bytes::from(vec![1; length]));
        let bytes = request_bytes(&request(Call::Read(get, ReadLevel::Consistent)));
        assert_eq!(Request::read(&bytes).is_ok(), fits, "{length}");
    }
    for (length, fits) in [(VALUE_BYTES_MAX, true), (VALUE_BYTES_MAX + 1, false)] {
        let value = Bytes::from(vec![1; length]);
        let set = Update::Set { key: Key::new(), value: value.clone(), expiry: Expiry::Never };
        assert_eq!(Request::read(&request_bytes(&update_request(set))).is_ok(), fits, "{length}");
        let body = Body::Updated(Outcome::Old(Some(value)));
        let bytes = reply_bytes(&Reply::new(LogIndex(1), body));
        assert_eq!(Reply::read(&bytes).is_ok(), fits, "{length}");
    }
    let longest = Error::key(Reason::NotFound, &Bytes::from(vec![0xBF; PEER_DETAIL_BYTES_MAX]));
    assert_eq!(Error::read(&error_bytes(&longest)), Ok(longest), "any key fits");
    let long = Error::new(Reason::Malformed, format!("x{}", "é".repeat(PEER_DETAIL_BYTES_MAX)));
    let read = Error::read(&error_bytes(&long)).expect("cut");
    assert_eq!(read.detail.len(), PEER_DETAIL_BYTES_MAX - 1, "at the beginning of a character");
    assert_eq!(read.detail, long.detail[..PEER_DETAIL_BYTES_MAX - 1]);
    let binary = Error { reason: Reason::Corrupt, detail: Bytes::from(vec![0xBF; 1 << 20]) };
    let read = Error::read(&error_bytes(&binary)).expect("cut");
    assert_eq!(read.detail.len(), PEER_DETAIL_BYTES_MAX, "what is no text is cut anywhere");
    let mut claim = vec![0];
    claim.put_string(&vec![b'x'; PEER_DETAIL_BYTES_MAX + 1]);
    assert_eq!(Error::read(&claim.into()), Err(Malformed("detail")));
}

#[test]
fn sequence_depth_and_total_steps_are_limited() {
    let nested = |depth| (1..depth).fold(sequence(vec![]), |inner, _| sequence(vec![inner]));
    let deepest = update_request(nested(SEQUENCE_DEPTH_MAX));
    assert_eq!(Request::read(&request_bytes(&deepest)), Ok(deepest));
    let deeper = request_bytes(&update_request(nested(SEQUENCE_DEPTH_MAX + 1)));
    assert_eq!(Request::read(&deeper), Err(Malformed("depth of a sequence")));
    let results =
        |depth| (0..depth).fold(Outcome::Done, |inner, _| Outcome::Steps(vec![Ok(inner)]));
    for (depth, fits) in [(SEQUENCE_DEPTH_MAX, true), (SEQUENCE_DEPTH_MAX + 1, false)] {
        let body = Body::Updated(results(depth));
        let bytes = reply_bytes(&Reply::new(LogIndex(1), body));
        assert_eq!(Reply::read(&bytes).is_ok(), fits, "{depth}");
    }
    let half = sequence(vec![Update::Nop; SEQUENCE_STEPS_MAX / 2 - 1]);
    let largest = update_request(sequence(vec![half.clone(), half.clone()]));
    assert!(Request::read(&request_bytes(&largest)).is_ok());
    let more = update_request(sequence(vec![half.clone(), half, Update::Nop]));
    assert_eq!(Request::read(&request_bytes(&more)), Err(Malformed("number of steps")));
}

#[test]
fn read_outcome_holding_update_body_is_malformed() {
    let inner = Outcome::Read(Box::new(Body::Updated(Outcome::Done)));
    let bytes = reply_bytes(&Reply::new(LogIndex(1), Body::Updated(inner)));
    assert_eq!(Reply::read(&bytes), Err(Malformed("kind of body")));
}

#[test]
fn unknown_tags_and_infinite_float_delta_are_malformed() {
    let nop = request_bytes(&update_request(Update::Nop)).to_vec();
    let last = nop.len() - 1;
    for number in 23..=u8::MAX {
        let mut bytes = nop.clone();
        bytes[last] = number;
        bytes.extend([0; 64]);
        assert_eq!(Request::read(&bytes.into()), Err(Malformed("kind of update")), "{number}");
    }
    let infinite = Update::AddFloat { key: Key::new(), delta: f64::INFINITY };
    assert_eq!(Request::read(&request_bytes(&update_request(infinite))), Err(Malformed("delta")));
    for number in Reason::ALL.len() as u8..=u8::MAX {
        let bytes = Bytes::from([&[number][..], &[0; 4]].concat());
        assert_eq!(Error::read(&bytes), Err(Malformed("reason")), "{number}");
    }
}

#[test]
fn oversized_reply_becomes_too_large_error_or_applied_at() {
    let bytes_max = PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX;
    let row = |value| Row { value, version: Version(1), expires_in_ms: Some(1), tags: None };
    let large = Bytes::from(vec![0; VALUE_BYTES_MAX]);
    let mut rows = vec![Some(row(Bytes::new())); KEYS_PER_READ_MAX - 6];
    rows.extend(vec![Some(row(large.clone())); VALUES_BYTES_MAX / VALUE_BYTES_MAX]);
    let largest = Reply::new(LogIndex(1), Body::Rows(rows));
    assert!(largest.wire_bytes() < bytes_max, "{} bytes", largest.wire_bytes());

    let entries = vec![Entry { key: Key::new(), row: Some(row(large.clone())) }; 7];
    let page = Body::Page(Page { entries, more: true });
    let answer = answer_bytes(&Ok(Reply::new(LogIndex(1), page)), bytes_max).expect("short");
    let error = read_answer(&answer).expect("sound").expect_err("too large");
    assert_eq!((error.reason, error.kind()), (Reason::TooLarge, Kind::Invalid));

    let steps = vec![Ok(Outcome::Old(Some(large))); 7];
    let done = Reply::new(LogIndex(9), Body::Updated(Outcome::Steps(steps)));
    let answer = answer_bytes(&Ok(done), bytes_max).expect("short");
    let body = Body::Updated(Outcome::AppliedAt(LogIndex(9)));
    assert_eq!(read_answer(&answer), Ok(Ok(Reply::new(LogIndex(9), body))));
}

#[test]
fn decoded_keys_and_values_are_slices_of_message() {
    let (key, value) = (Bytes::from_static(b"a key"), Bytes::from_static(b"a value"));
    let bytes = request_bytes(&update_request(Update::Confirm { key, value }));
    let message = bytes.as_ptr_range();
    let Ok(Request { call: Call::Update(Update::Confirm { key, value }), .. }) =
        Request::read(&bytes)
    else {
        panic!("it reads back");
    };
    for part in [key, value] {
        assert!(message.contains(&part.as_ptr()), "nothing is copied");
    }
}

#[test]
fn oversized_context_or_content_headers_are_rejected() {
    let stored = |context: usize, headers: usize| {
        let headers = Headers { charset: vec![0; headers].into(), ..Headers::default() };
        let content = Content { value: Bytes::new(), headers };
        let context = Some(Context(vec![0; context].into()));
        let store = Store { content, context, ..Store::default() };
        let call = AvailableCall::Store(Box::new(store));
        Request::read(&request_bytes(&request(Call::Available(call)))).is_ok()
    };
    assert!(stored(CONTEXT_BYTES_MAX, CONTENT_HEADERS_BYTES_MAX));
    assert!(!stored(CONTEXT_BYTES_MAX + 1, 0));
    assert!(!stored(0, CONTENT_HEADERS_BYTES_MAX + 1));
}

#[test]
fn oversized_reply_to_delete_is_unknown_and_to_fetch_invalid() {
    let value = Bytes::from(vec![7; 100]);
    let body = Body::Row(Some(Row { value, version: Version(1), expires_in_ms: None, tags: None }));
    let answer = Ok(Reply::new(LogIndex(3), body));
    let key = Bytes::from_static(b"k");
    let delete =
        AvailableCall::Remove { key: key.clone(), context: None, options: Default::default() };
    let fetch = AvailableCall::Fetch { key, options: Default::default() };
    for (call, kind) in [(delete, Kind::Unknown), (fetch, Kind::Invalid)] {
        let mut bytes = Vec::new();
        write_answer_to(&Call::Available(call), &answer, 50, &mut bytes);
        let decoded = read_answer(&bytes.into()).expect("well formed");
        assert_eq!(decoded.expect_err("too long").kind(), kind);
    }
}
