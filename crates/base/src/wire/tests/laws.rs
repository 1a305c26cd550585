//! Laws of the codec: every message decodes to itself, no prefix of it decodes, and arbitrary bytes
//! are an error or encode back to themselves.

use super::examples::{
    ExampleData, bodies, calls, cluster_bodies, cluster_calls, group_bodies, group_calls,
    place_bodies, place_calls, secret_bodies, secret_calls, token_calls,
};
use super::{
    access, answer_bytes, available, counted, error_bytes, feed, index, key_versions, level,
    reply_bytes, request_bytes, ring, tags,
};
use crate::wire::read_answer;
use crate::{BucketName, Error, LogIndex, Reason, Reply, Request, RetryId, SessionId};
use bytes::Bytes;
use proptest::prelude::*;

fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

fn example_data() -> impl Strategy<Value = ExampleData> {
    let keys = (bytes(9), bytes(5));
    let values = (bytes(30), bytes(3));
    let float = any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |f| f.is_finite());
    (keys, values, any::<[u64; 2]>(), float, any::<bool>()).prop_map(
        |(keys, values, numbers, float, flag)| ExampleData {
            keys: keys.into(),
            values: values.into(),
            numbers,
            float,
            flag,
        },
    )
}

fn name() -> impl Strategy<Value = BucketName> {
    let part = || prop::collection::vec(prop::sample::select(&b"az09_-"[..]), 0..62);
    (part(), part()).prop_map(|(kind, name)| {
        let text = |part: Vec<u8>| format!("k{}", String::from_utf8(part).expect("plain"));
        BucketName::new(&text(kind), &text(name)).expect("plain")
    })
}

fn requests() -> impl Strategy<Value = Request> {
    let retry = prop::option::of(any::<(u64, u64)>());
    (name(), example_data(), retry, any::<prop::sample::Index>()).prop_map(
        |(bucket, data, retry, at)| {
            let mut calls = calls(&data);
            calls.extend(cluster_calls(&data));
            calls.extend(group_calls());
            calls.extend(place_calls(&data));
            calls.extend(available::calls(&data));
            calls.extend(ring::calls(&data));
            calls.extend(ring::later_calls(&data));
            calls.extend(available::type_calls(&data));
            calls.extend(token_calls(&data));
            calls.extend(secret_calls());
            calls.extend(level::calls(&data));
            calls.extend(level::token_calls(&data));
            calls.extend(access::calls(&data));
            calls.extend(access::quota_calls());
            calls.extend(access::session_quota_calls());
            calls.extend(index::calls(&data));
            calls.extend(feed::calls(&data));
            calls.extend(key_versions::calls(&data));
            calls.extend(tags::calls(&data));
            let call = calls.swap_remove(at.index(calls.len()));
            let retry =
                retry.map(|(session, number)| RetryId { session: SessionId(session), number });
            Request { bucket, call, retry }
        },
    )
}

fn replies() -> impl Strategy<Value = Reply> {
    (any::<u64>(), example_data(), any::<prop::sample::Index>()).prop_map(|(index, data, at)| {
        let mut bodies = bodies(&data);
        bodies.extend(cluster_bodies(&data));
        bodies.extend(group_bodies(&data));
        bodies.extend(place_bodies(&data));
        bodies.extend(available::bodies(&data));
        bodies.extend(ring::bodies(&data));
        bodies.extend(available::type_bodies(&data));
        bodies.extend(secret_bodies(&data));
        bodies.extend(level::bodies(&data));
        bodies.extend(counted::bodies(&data));
        bodies.extend(counted::bounded_bodies(&data));
        bodies.extend(counted::audited_bodies(&data));
        bodies.extend(index::bodies(&data));
        bodies.extend(feed::bodies(&data));
        bodies.extend(key_versions::bodies(&data));
        bodies.extend(tags::bodies(&data));
        let body = bodies.swap_remove(at.index(bodies.len()));
        Reply::new(LogIndex(index), body)
    })
}

fn errors() -> impl Strategy<Value = Error> {
    (prop::sample::select(&Reason::ALL[..]), bytes(40))
        .prop_map(|(reason, detail)| Error { reason, detail })
}

/// Returns valid bytes with a few changed, cut off or appended.
fn corrupted(valid: &Bytes, changes: &[(prop::sample::Index, u8)], end: i8) -> Bytes {
    let mut bytes = valid.to_vec();
    for (index, byte) in changes {
        let index = index.index(bytes.len());
        bytes[index] = *byte;
    }
    bytes.resize(bytes.len().saturating_add_signed(end.into()), 0);
    bytes.into()
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    let small = prop_oneof![0..24_u8, any::<u8>()];
    prop::collection::vec((any::<prop::sample::Index>(), small), 0..4)
}

fn check(bytes: &Bytes) -> Result<(), TestCaseError> {
    if let Ok(request) = Request::read(bytes) {
        prop_assert_eq!(&request_bytes(&request), bytes);
    }
    if let Ok(reply) = Reply::read(bytes) {
        prop_assert_eq!(&reply_bytes(&reply), bytes);
    }
    if let Ok(error) = Error::read(bytes) {
        prop_assert_eq!(&error_bytes(&error), bytes);
    }
    if let Ok(answer) = read_answer(bytes) {
        prop_assert_eq!(&answer_bytes(&answer, usize::MAX).expect("read before"), bytes);
    }
    Ok(())
}

proptest! {
    #[test]
    fn request_round_trips_and_its_prefixes_are_malformed(request in requests()) {
        let bytes = request_bytes(&request);
        prop_assert_eq!(Request::read(&bytes), Ok(request));
        for length in 0..bytes.len() {
            prop_assert!(Request::read(&bytes.slice(..length)).is_err());
        }
        let longer = Bytes::from([&bytes[..], &[0]].concat());
        prop_assert!(Request::read(&longer).is_err(), "nothing may follow");
    }

    #[test]
    fn reply_round_trips_and_its_prefixes_are_malformed(reply in replies()) {
        let bytes = reply_bytes(&reply);
        for length in 0..bytes.len() {
            prop_assert!(Reply::read(&bytes.slice(..length)).is_err());
        }
        prop_assert!(Reply::read(&Bytes::from([&bytes[..], &[0]].concat())).is_err());
        prop_assert_eq!(Reply::read(&bytes), Ok(reply.clone()));
        let answer = answer_bytes(&Ok(reply.clone()), usize::MAX).expect("sound");
        prop_assert_eq!(read_answer(&answer), Ok(Ok(reply)));
    }

    #[test]
    fn error_round_trips_with_kind_and_its_prefixes_are_malformed(error in errors()) {
        let bytes = error_bytes(&error);
        for length in 0..bytes.len() {
            prop_assert!(Error::read(&bytes.slice(..length)).is_err());
        }
        prop_assert!(Error::read(&Bytes::from([&bytes[..], &[0]].concat())).is_err());
        let read = Error::read(&bytes).expect("sound");
        prop_assert_eq!((read.kind(), &read), (error.kind(), &error));
        let answer = answer_bytes(&Err(error.clone()), usize::MAX).expect("sound");
        prop_assert_eq!(read_answer(&answer), Ok(Err(error)));
    }

    #[test]
    fn arbitrary_bytes_are_malformed_or_reencode_identically(
        arbitrary in bytes(80),
        request in requests(),
        reply in replies(),
        error in errors(),
        changes in changes(),
        end in -2..3_i8,
    ) {
        check(&arbitrary)?;
        let answer = answer_bytes(&Ok(reply.clone()), usize::MAX).expect("sound");
        for valid in [request_bytes(&request), reply_bytes(&reply), error_bytes(&error), answer] {
            check(&corrupted(&valid, &changes, end))?;
        }
    }
}
