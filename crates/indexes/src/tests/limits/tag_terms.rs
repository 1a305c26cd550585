//! Longest text of a tag.

use crate::limits::INDEX_TERM_BYTES_MAX;
use crate::{DefinitionSet, LivingValue, Term, TermKind, TermRange, entries, stored_entries};
use base::Reason;
use bytes::Bytes;

#[test]
fn text_of_a_tag_ends_at_its_limit() {
    let longest = vec![0; INDEX_TERM_BYTES_MAX];
    let term = Term::tag_bytes(&longest).expect("at the limit");
    assert_eq!(Term::decode(term.as_bytes()), Ok(term.clone()));
    assert!(TermRange::prefix(TermKind::TagBytes, &longest).expect("a prefix").contains(&term));
    let longer = vec![0; INDEX_TERM_BYTES_MAX + 1];
    let error = Term::tag_bytes(&longer).expect_err("beyond");
    assert_eq!(error.reason, Reason::TooLarge);
    assert!(TermRange::prefix(TermKind::TagBytes, &longer).is_err());
    let forged = [&[TermKind::TagBytes.code()], &vec![1; INDEX_TERM_BYTES_MAX + 1][..], &[0, 0]];
    assert!(Term::decode(&forged.concat()).is_err());
}

#[test]
fn longer_tag_is_refused_when_written_and_counted_when_stored() {
    let text = Bytes::from(vec![b'x'; INDEX_TERM_BYTES_MAX + 1]);
    let tags = [(Bytes::from_static(b"a_bin"), text)];
    let value = LivingValue { tags: &tags, bytes: b"" };
    let error = entries(&DefinitionSet::default(), &[value]).expect_err("beyond");
    assert_eq!(error.reason, Reason::TooLarge);
    let stored = stored_entries(&DefinitionSet::default(), &[value]);
    assert_eq!((stored.entries.len(), stored.skipped_tags.oversized), (0, 1));
}
