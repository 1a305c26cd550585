//! Refusal of claimed lengths that are not there, and of sizes above the limits.

use super::{answered, failed, replied, request, updated, written};
use crate::available::{AvailableCall, Content, Context, Headers, Store};
use crate::codec::{Malformed, Writer};
use crate::limits::{
    CHANGES_MAX, CONTENT_HEADERS_BYTES_MAX, CONTEXT_BYTES_MAX, KEY_BYTES_MAX, KEYS_PER_READ_MAX,
    PEER_CALL_BYTES_MAX, PEER_DETAIL_BYTES_MAX, PEER_HEAD_BYTES_MAX, SEQUENCE_DEPTH_MAX,
    SEQUENCE_STEPS_MAX, VALUE_BYTES_MAX, VALUES_BYTES_MAX,
};
use crate::reply::{Body, Entry, Outcome, Page, Row};
use crate::request::{Call, DirectoryCall, Expiry, Read, ReadLevel, Steps, Update};
use crate::wire::{read_answer, write_answer_to};
use crate::{
    ClusterCall, Error, Key, Kind, LogIndex, Reason, Reply, Request, TokenDigest, Version,
};
use bytes::Bytes;

/// Returns the offset of `needle`.
fn find(bytes: &[u8], needle: &[u8]) -> usize {
    bytes.windows(needle.len()).position(|window| window == needle).expect("it is there")
}

fn sequence(steps: Vec<Update>) -> Update {
    Update::Sequence { steps, mode: Steps::AllOrNothing }
}

/// Returns the bytes with a number of 4 bytes written at `at`.
fn claiming(bytes: &Bytes, at: usize, claim: usize) -> Bytes {
    let mut claimed = bytes.to_vec();
    claimed[at..at + 4].copy_from_slice(&(claim as u32).to_le_bytes());
    claimed.into()
}

#[test]
fn a_token_is_shown_once_for_one_call() {
    let digest = TokenDigest([7; TokenDigest::BYTES]);
    let shown = |call| ClusterCall::Shown { digest, call: Box::new(call) };
    let bytes = |call| written(&request(Call::Directory(DirectoryCall::Cluster(call))));
    let once = bytes(shown(ClusterCall::RevokeTokens));
    assert!(Request::read(&once).is_ok());
    let twice = bytes(shown(shown(ClusterCall::RevokeTokens)));
    assert_eq!(Request::read(&twice), Err(Malformed("which cluster call")));
    let at = find(&once, &digest.0) - 4;
    for claim in [31, 33] {
        assert_eq!(Request::read(&claiming(&once, at, claim)), Err(Malformed("digest")), "{claim}");
    }
}

#[test]
fn what_is_claimed_and_is_not_there_is_refused_before_room_is_made() {
    // An allocation before the check would report the missing element instead of the claim.
    let key = Key::from_static(b"a key");
    let get = written(&request(Call::Read(Read::MultiGet(vec![key]), ReadLevel::Dirty)));
    let at = find(&get, b"a key") - 8;
    for claim in [2, KEYS_PER_READ_MAX, KEYS_PER_READ_MAX + 1, u32::MAX as usize] {
        let read = Request::read(&claiming(&get, at, claim));
        let field = if claim == 2 { "key" } else { "how many keys" };
        assert_eq!(read, Err(Malformed(field)), "{claim}");
    }
    let nop = written(&updated(sequence(vec![Update::Nop])));
    for claim in [4, SEQUENCE_STEPS_MAX, SEQUENCE_STEPS_MAX + 1, u32::MAX as usize] {
        let read = Request::read(&claiming(&nop, nop.len() - 6, claim));
        assert_eq!(read, Err(Malformed("how many steps")), "{claim}");
    }
    let changes = vec![("sync".to_string(), "sync".to_string()); CHANGES_MAX];
    let create = written(&request(Call::Directory(DirectoryCall::CreateType(changes))));
    assert!(Request::read(&create).is_ok());
    let at = find(&create, &(CHANGES_MAX as u32).to_le_bytes());
    let more = Request::read(&claiming(&create, at, CHANGES_MAX + 1));
    assert_eq!(more, Err(Malformed("how many changes")));
    for (body, field) in [
        (Body::Rows(vec![]), "how many rows"),
        (Body::Page(Page { entries: vec![], more: false }), "how many rows"),
        (Body::Updated(Outcome::Steps(vec![])), "how many steps"),
        (Body::Buckets(vec![]), "how many buckets"),
        (Body::Types(vec![]), "how many types"),
    ] {
        let bytes = replied(&Reply::new(LogIndex(1), body));
        let at = 9 + find(&bytes[9..], &[0; 4]);
        for claim in [3, 100, u32::MAX as usize] {
            assert_eq!(Reply::read(&claiming(&bytes, at, claim)), Err(Malformed(field)), "{claim}");
        }
    }
}

#[test]
fn keys_values_and_details_end_at_their_limits() {
    for (length, fits) in [(KEY_BYTES_MAX, true), (KEY_BYTES_MAX + 1, false)] {
        let get = Read::Get(Bytes::from(vec![1; length]));
        let bytes = written(&request(Call::Read(get, ReadLevel::Consistent)));
        assert_eq!(Request::read(&bytes).is_ok(), fits, "{length}");
    }
    for (length, fits) in [(VALUE_BYTES_MAX, true), (VALUE_BYTES_MAX + 1, false)] {
        let value = Bytes::from(vec![1; length]);
        let set = Update::Set { key: Key::new(), value: value.clone(), expiry: Expiry::Never };
        assert_eq!(Request::read(&written(&updated(set))).is_ok(), fits, "{length}");
        let body = Body::Updated(Outcome::Old(Some(value)));
        let bytes = replied(&Reply::new(LogIndex(1), body));
        assert_eq!(Reply::read(&bytes).is_ok(), fits, "{length}");
    }
    let longest = Error::key(Reason::NotFound, &Bytes::from(vec![0xBF; PEER_DETAIL_BYTES_MAX]));
    assert_eq!(Error::read(&failed(&longest)), Ok(longest), "any key fits");
    let long = Error::new(Reason::Malformed, format!("x{}", "é".repeat(PEER_DETAIL_BYTES_MAX)));
    let read = Error::read(&failed(&long)).expect("cut");
    assert_eq!(read.detail.len(), PEER_DETAIL_BYTES_MAX - 1, "at the beginning of a character");
    assert_eq!(read.detail, long.detail[..PEER_DETAIL_BYTES_MAX - 1]);
    let binary = Error { reason: Reason::Corrupt, detail: Bytes::from(vec![0xBF; 1 << 20]) };
    let read = Error::read(&failed(&binary)).expect("cut");
    assert_eq!(read.detail.len(), PEER_DETAIL_BYTES_MAX, "what is no text is cut anywhere");
    let mut claim = vec![0];
    claim.put_string(&vec![b'x'; PEER_DETAIL_BYTES_MAX + 1]);
    assert_eq!(Error::read(&claim.into()), Err(Malformed("detail")));
}

#[test]
fn sequences_end_at_their_depth_and_at_their_steps_together() {
    let nested = |depth| (1..depth).fold(sequence(vec![]), |inner, _| sequence(vec![inner]));
    let deepest = updated(nested(SEQUENCE_DEPTH_MAX));
    assert_eq!(Request::read(&written(&deepest)), Ok(deepest));
    let deeper = written(&updated(nested(SEQUENCE_DEPTH_MAX + 1)));
    assert_eq!(Request::read(&deeper), Err(Malformed("depth of a sequence")));
    let results =
        |depth| (0..depth).fold(Outcome::Done, |inner, _| Outcome::Steps(vec![Ok(inner)]));
    for (depth, fits) in [(SEQUENCE_DEPTH_MAX, true), (SEQUENCE_DEPTH_MAX + 1, false)] {
        let body = Body::Updated(results(depth));
        let bytes = replied(&Reply::new(LogIndex(1), body));
        assert_eq!(Reply::read(&bytes).is_ok(), fits, "{depth}");
    }
    let half = sequence(vec![Update::Nop; SEQUENCE_STEPS_MAX / 2 - 1]);
    let most = updated(sequence(vec![half.clone(), half.clone()]));
    assert!(Request::read(&written(&most)).is_ok());
    let more = updated(sequence(vec![half.clone(), half, Update::Nop]));
    assert_eq!(Request::read(&written(&more)), Err(Malformed("how many steps")));
}

#[test]
fn only_what_a_read_shows_stands_among_the_steps() {
    let inner = Outcome::Read(Box::new(Body::Updated(Outcome::Done)));
    let bytes = replied(&Reply::new(LogIndex(1), Body::Updated(inner)));
    assert_eq!(Reply::read(&bytes), Err(Malformed("which body")));
}

#[test]
fn numbers_of_no_variant_are_refused() {
    let nop = written(&updated(Update::Nop)).to_vec();
    let last = nop.len() - 1;
    for number in 21..=u8::MAX {
        let mut bytes = nop.clone();
        bytes[last] = number;
        bytes.extend([0; 64]);
        assert_eq!(Request::read(&bytes.into()), Err(Malformed("which update")), "{number}");
    }
    let infinite = Update::AddFloat { key: Key::new(), delta: f64::INFINITY };
    assert_eq!(Request::read(&written(&updated(infinite))), Err(Malformed("delta")));
    for number in Reason::ALL.len() as u8..=u8::MAX {
        let bytes = Bytes::from([&[number][..], &[0; 4]].concat());
        assert_eq!(Error::read(&bytes), Err(Malformed("reason")), "{number}");
    }
}

#[test]
fn the_largest_answers_travel_and_larger_ones_say_so() {
    let room = PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX;
    let row = |value| Row { value, version: Version(1), expires_in_ms: Some(1) };
    let large = Bytes::from(vec![0; VALUE_BYTES_MAX]);
    let mut rows = vec![Some(row(Bytes::new())); KEYS_PER_READ_MAX - 6];
    rows.extend(vec![Some(row(large.clone())); VALUES_BYTES_MAX / VALUE_BYTES_MAX]);
    let most = Reply::new(LogIndex(1), Body::Rows(rows));
    assert!(most.wire_bytes() < room, "{} bytes", most.wire_bytes());

    let entries = vec![Entry { key: Key::new(), row: Some(row(large.clone())) }; 7];
    let page = Body::Page(Page { entries, more: true });
    let answer = answered(&Ok(Reply::new(LogIndex(1), page)), room).expect("short");
    let error = read_answer(&answer).expect("sound").expect_err("too large");
    assert_eq!((error.reason, error.kind()), (Reason::TooLarge, Kind::Invalid));

    let steps = vec![Ok(Outcome::Old(Some(large))); 7];
    let done = Reply::new(LogIndex(9), Body::Updated(Outcome::Steps(steps)));
    let answer = answered(&Ok(done), room).expect("short");
    let body = Body::Updated(Outcome::AppliedAt(LogIndex(9)));
    assert_eq!(read_answer(&answer), Ok(Ok(Reply::new(LogIndex(9), body))));
}

#[test]
fn keys_and_values_are_slices_of_the_message() {
    let (key, value) = (Bytes::from_static(b"a key"), Bytes::from_static(b"a value"));
    let bytes = written(&updated(Update::Confirm { key, value }));
    let whole = bytes.as_ptr_range();
    let Ok(Request { call: Call::Update(Update::Confirm { key, value }), .. }) =
        Request::read(&bytes)
    else {
        panic!("it reads back");
    };
    for part in [key, value] {
        assert!(whole.contains(&part.as_ptr()), "nothing is copied");
    }
}

#[test]
fn contexts_and_headers_end_at_their_limits() {
    let stored = |context: usize, headers: usize| {
        let headers = Headers { charset: vec![0; headers].into(), ..Headers::default() };
        let content = Content { value: Bytes::new(), headers };
        let context = Some(Context(vec![0; context].into()));
        let store = Store { content, context, ..Store::default() };
        let call = AvailableCall::Store(Box::new(store));
        Request::read(&written(&request(Call::Available(call)))).is_ok()
    };
    assert!(stored(CONTEXT_BYTES_MAX, CONTENT_HEADERS_BYTES_MAX));
    assert!(!stored(CONTEXT_BYTES_MAX + 1, 0));
    assert!(!stored(0, CONTENT_HEADERS_BYTES_MAX + 1));
}

#[test]
fn an_answer_to_a_change_that_is_too_long_says_that_it_may_have_happened() {
    let value = Bytes::from(vec![7; 100]);
    let body = Body::Row(Some(Row { value, version: Version(1), expires_in_ms: None }));
    let answer = Ok(Reply::new(LogIndex(3), body));
    let key = Bytes::from_static(b"k");
    let delete =
        AvailableCall::Remove { key: key.clone(), context: None, options: Default::default() };
    let fetch = AvailableCall::Fetch { key, options: Default::default() };
    for (call, kind) in [(delete, Kind::Unknown), (fetch, Kind::Invalid)] {
        let mut bytes = Vec::new();
        write_answer_to(&Call::Available(call), &answer, 50, &mut bytes);
        let told = read_answer(&bytes.into()).expect("well formed");
        assert_eq!(told.expect_err("too long").kind(), kind);
    }
}
