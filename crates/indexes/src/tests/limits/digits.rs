//! Most digits of a tag's integer.

use crate::Term;
use crate::limits::INDEX_DIGITS_MAX;
use base::Reason;

#[test]
fn integer_of_a_tag_ends_at_its_limit() {
    let digits = "9".repeat(INDEX_DIGITS_MAX);
    for text in [digits.clone(), format!("-{digits}"), format!("+000{digits}")] {
        let term = Term::tag_integer(text.as_bytes()).expect("at the limit");
        assert_eq!(Term::decode(term.as_bytes()), Ok(term));
    }
    for text in [format!("1{digits}"), format!("-1{digits}")] {
        let error = Term::tag_integer(text.as_bytes()).expect_err("beyond");
        assert_eq!(error.reason, Reason::TooLarge);
    }
    let count = (INDEX_DIGITS_MAX as u16 + 1).to_be_bytes();
    let forged = [&[1, 1][..], &count, &vec![b'9'; INDEX_DIGITS_MAX + 1]].concat();
    assert!(Term::decode(&forged).is_err());
}
