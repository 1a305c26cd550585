//! Laws of the codec: every message decodes to itself, no prefix of it decodes, and arbitrary bytes
//! are an error or encode back to themselves.

use super::examples::{
    Stuff, bodies, calls, cluster_bodies, cluster_calls, group_bodies, group_calls, place_bodies,
    place_calls, secret_bodies, secret_calls, token_calls,
};
use super::{answered, available, failed, replied, ring, written};
use crate::wire::read_answer;
use crate::{BucketName, Error, LogIndex, Reason, Reply, Request, RetryId, SessionId};
use bytes::Bytes;
use proptest::prelude::*;

fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

fn stuff() -> impl Strategy<Value = Stuff> {
    let keys = (bytes(9), bytes(5));
    let values = (bytes(30), bytes(3));
    let float = any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |f| f.is_finite());
    (keys, values, any::<[u64; 2]>(), float, any::<bool>()).prop_map(
        |(keys, values, numbers, float, yes)| Stuff {
            keys: keys.into(),
            values: values.into(),
            numbers,
            float,
            yes,
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
    (name(), stuff(), retry, any::<prop::sample::Index>()).prop_map(|(bucket, of, retry, at)| {
        let mut calls = calls(&of);
        calls.extend(cluster_calls(&of));
        calls.extend(group_calls());
        calls.extend(place_calls(&of));
        calls.extend(available::calls(&of));
        calls.extend(ring::calls(&of));
        calls.extend(ring::later_calls(&of));
        calls.extend(available::type_calls(&of));
        calls.extend(token_calls(&of));
        calls.extend(secret_calls());
        let call = calls.swap_remove(at.index(calls.len()));
        let retry = retry.map(|(session, number)| RetryId { session: SessionId(session), number });
        Request { bucket, call, retry }
    })
}

fn replies() -> impl Strategy<Value = Reply> {
    (any::<u64>(), stuff(), any::<prop::sample::Index>()).prop_map(|(index, of, at)| {
        let mut bodies = bodies(&of);
        bodies.extend(cluster_bodies(&of));
        bodies.extend(group_bodies(&of));
        bodies.extend(place_bodies(&of));
        bodies.extend(available::bodies(&of));
        bodies.extend(ring::bodies(&of));
        bodies.extend(available::type_bodies(&of));
        bodies.extend(secret_bodies(&of));
        let body = bodies.swap_remove(at.index(bodies.len()));
        Reply::new(LogIndex(index), body)
    })
}

fn errors() -> impl Strategy<Value = Error> {
    (prop::sample::select(&Reason::ALL[..]), bytes(40))
        .prop_map(|(reason, detail)| Error { reason, detail })
}

/// Returns valid bytes with a few changed, cut off or appended.
fn spoiled(sound: &Bytes, others: &[(prop::sample::Index, u8)], end: i8) -> Bytes {
    let mut bytes = sound.to_vec();
    for (at, byte) in others {
        let at = at.index(bytes.len());
        bytes[at] = *byte;
    }
    bytes.resize(bytes.len().saturating_add_signed(end.into()), 0);
    bytes.into()
}

fn others() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    let small = prop_oneof![0..24_u8, any::<u8>()];
    prop::collection::vec((any::<prop::sample::Index>(), small), 0..4)
}

fn check(bytes: &Bytes) -> Result<(), TestCaseError> {
    if let Ok(request) = Request::read(bytes) {
        prop_assert_eq!(&written(&request), bytes);
    }
    if let Ok(reply) = Reply::read(bytes) {
        prop_assert_eq!(&replied(&reply), bytes);
    }
    if let Ok(error) = Error::read(bytes) {
        prop_assert_eq!(&failed(&error), bytes);
    }
    if let Ok(answer) = read_answer(bytes) {
        prop_assert_eq!(&answered(&answer, usize::MAX).expect("read before"), bytes);
    }
    Ok(())
}

proptest! {
    #[test]
    fn requests_read_back_and_their_beginnings_do_not(request in requests()) {
        let bytes = written(&request);
        prop_assert_eq!(Request::read(&bytes), Ok(request));
        for length in 0..bytes.len() {
            prop_assert!(Request::read(&bytes.slice(..length)).is_err());
        }
        let longer = Bytes::from([&bytes[..], &[0]].concat());
        prop_assert!(Request::read(&longer).is_err(), "nothing may follow");
    }

    #[test]
    fn replies_read_back_and_their_beginnings_do_not(reply in replies()) {
        let bytes = replied(&reply);
        for length in 0..bytes.len() {
            prop_assert!(Reply::read(&bytes.slice(..length)).is_err());
        }
        prop_assert!(Reply::read(&Bytes::from([&bytes[..], &[0]].concat())).is_err());
        prop_assert_eq!(Reply::read(&bytes), Ok(reply.clone()));
        let answer = answered(&Ok(reply.clone()), usize::MAX).expect("sound");
        prop_assert_eq!(read_answer(&answer), Ok(Ok(reply)));
    }

    #[test]
    fn errors_read_back_with_their_kind_and_their_beginnings_do_not(error in errors()) {
        let bytes = failed(&error);
        for length in 0..bytes.len() {
            prop_assert!(Error::read(&bytes.slice(..length)).is_err());
        }
        prop_assert!(Error::read(&Bytes::from([&bytes[..], &[0]].concat())).is_err());
        let read = Error::read(&bytes).expect("sound");
        prop_assert_eq!((read.kind(), &read), (error.kind(), &error));
        let answer = answered(&Err(error.clone()), usize::MAX).expect("sound");
        prop_assert_eq!(read_answer(&answer), Ok(Err(error)));
    }

    #[test]
    fn any_bytes_are_an_error_or_written_again_as_they_were(
        wild in bytes(80),
        request in requests(),
        reply in replies(),
        error in errors(),
        others in others(),
        end in -2..3_i8,
    ) {
        check(&wild)?;
        let answer = answered(&Ok(reply.clone()), usize::MAX).expect("sound");
        for sound in [written(&request), replied(&reply), failed(&error), answer] {
            check(&spoiled(&sound, &others, end))?;
        }
    }
}
