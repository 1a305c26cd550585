//! Continuations: read back by their own query, refused when changed or foreign.

use super::{any_term, cases, telling_bytes};
use crate::{Continuation, QueryDigest, Term};
use base::Reason;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn continuation_round_trips_and_changes_are_refused(
        term in any_term(),
        key in telling_bytes(),
        at in any::<prop::sample::Index>(),
        bit in 0_u32..8,
    ) {
        let query = QueryDigest::of(&[b"fruit", b"ripeness_int"]);
        let continuation = Continuation { query, term, key: key.into() };
        let text = continuation.encode();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        prop_assert!(text.bytes().all(is_plain));
        prop_assert_eq!(Continuation::decode(text.as_bytes(), query), Ok(continuation));
        let mut bytes = URL_SAFE_NO_PAD.decode(&text).expect("base64url");
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let changed = URL_SAFE_NO_PAD.encode(bytes);
        let error = Continuation::decode(changed.as_bytes(), query).expect_err("changed");
        prop_assert_eq!(error.reason, Reason::Malformed);
        let cut = &text.as_bytes()[..text.len() - 1];
        prop_assert!(Continuation::decode(cut, query).is_err());
    }

    #[test]
    fn any_text_is_refused(
        text in prop_oneof![
            telling_bytes(),
            "[A-Za-z0-9_-]{0,80}".prop_map(String::into_bytes),
        ],
    ) {
        prop_assert!(Continuation::decode(&text, QueryDigest::of(&[])).is_err());
    }
}

#[test]
fn continuation_of_another_query_is_refused_and_says_so() {
    let query = QueryDigest::of(&[b"fruit", b"ripeness_int", b"0", b"10"]);
    let text = Continuation { query, term: Term::int(7), key: "fig".into() }.encode();
    let other = QueryDigest::of(&[b"fruit", b"ripeness_int", b"0", b"11"]);
    let error = Continuation::decode(text.as_bytes(), other).expect_err("foreign");
    assert!(error.text().contains("another query"), "{error}");
}

#[test]
fn parts_of_a_query_are_told_apart() {
    assert_ne!(QueryDigest::of(&[b"ab", b"c"]), QueryDigest::of(&[b"a", b"bc"]));
    assert_ne!(QueryDigest::of(&[b"a"]), QueryDigest::of(&[b"a", b""]));
    assert_eq!(QueryDigest::of(&[b"a", b""]), QueryDigest::of(&[b"a", b""]));
}

#[test]
fn continuation_of_another_version_says_so() {
    let query = QueryDigest::of(&[]);
    let text = Continuation { query, term: Term::int(7), key: "fig".into() }.encode();
    let bytes = URL_SAFE_NO_PAD.decode(text).expect("base64url");
    let mut content = bytes[..bytes.len() - 8].to_vec();
    content[0] = 2;
    let mut checksum = [0; 8];
    blake3::Hasher::new_derive_key("credenza 2026 index continuation")
        .update(&content)
        .finalize_xof()
        .fill(&mut checksum);
    let text = URL_SAFE_NO_PAD.encode([&content[..], &checksum].concat());
    let error = Continuation::decode(text.as_bytes(), query).expect_err("newer");
    assert_eq!(error.reason, Reason::NotSupported);
}
