//! Longest text of a continuation.

use crate::limits::{CONTINUATION_TEXT_BYTES_MAX, INDEX_TERM_BYTES_MAX};
use crate::{Continuation, QueryDigest, Term};
use base::limits::KEY_BYTES_MAX;

#[test]
fn longest_continuation_is_read_back() {
    let query = QueryDigest::of(&[b"q"]);
    let term = Term::tag_bytes(&vec![0; INDEX_TERM_BYTES_MAX]).expect("at the limit");
    let longest = Continuation { query, term, key: vec![0xFF; KEY_BYTES_MAX].into() };
    let text = longest.encode();
    assert!(text.len() <= CONTINUATION_TEXT_BYTES_MAX, "{}", text.len());
    assert_eq!(Continuation::decode(text.as_bytes(), query), Ok(longest));
    let longer = vec![b'A'; CONTINUATION_TEXT_BYTES_MAX + 1];
    assert!(Continuation::decode(&longer, query).is_err());
}
