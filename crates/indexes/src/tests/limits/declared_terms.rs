//! Longest string that a declared index holds whole.

use crate::limits::{CUT_FRONT_BYTES, DECLARED_TERM_BYTES_MAX};
use crate::{Term, TermKind, TermRange, TermValue};
use base::Reason;

#[test]
fn longer_strings_are_cut_and_stay_different() {
    let longest = "x".repeat(DECLARED_TERM_BYTES_MAX);
    assert_eq!(Term::string(&longest).value(), TermValue::String(longest.clone()));
    let longer = longest.clone() + "x";
    let TermValue::CutString(front, _) = Term::string(&longer).value() else { panic!("not cut") };
    assert_eq!(front, longest[..CUT_FRONT_BYTES]);
    assert_ne!(Term::string(&longer), Term::string(&(longest + "y")));
    assert_ne!(Term::bytes(longer.as_bytes()), Term::string(&longer));
    assert!(Term::string(&"x".repeat(1_000_000)).as_bytes().len() < 2_100);
}

#[test]
fn string_of_a_front_and_a_digest_is_not_the_cut_one() {
    let cut = Term::bytes(&[b'x'; DECLARED_TERM_BYTES_MAX + 1]);
    let TermValue::CutBytes(front, digest) = cut.value() else { panic!("not cut") };
    assert_ne!(Term::bytes(&[&front[..], &digest].concat()), cut);
}

#[test]
fn forged_cuts_are_malformed() {
    let cut = Term::bytes(&[b'x'; DECLARED_TERM_BYTES_MAX + 1]);
    let mut shorter = cut.as_bytes().to_vec();
    shorter.remove(1);
    assert!(Term::decode(&shorter).is_err());
    let whole = [&[TermKind::Bytes.code()][..], &[b'x'; DECLARED_TERM_BYTES_MAX + 1], &[0, 0]];
    assert!(Term::decode(&whole.concat()).is_err());
    let mut tag = cut.as_bytes().to_vec();
    tag[0] = TermKind::TagBytes.code();
    assert!(Term::decode(&tag).is_err());
}

#[test]
fn prefix_ends_at_the_front_of_cut_strings() {
    let prefix = [b'x'; CUT_FRONT_BYTES + 1];
    assert!(TermRange::prefix(TermKind::String, &prefix[1..]).is_ok());
    let error = TermRange::prefix(TermKind::String, &prefix).expect_err("beyond");
    assert_eq!(error.reason, Reason::TooLarge);
}
