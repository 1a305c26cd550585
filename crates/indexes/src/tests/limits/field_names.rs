//! Longest name of a tag's field.

use crate::IndexField;
use crate::limits::INDEX_FIELD_BYTES_MAX;
use base::Reason;

#[test]
fn name_of_a_field_ends_at_its_limit() {
    let name = |length: usize| format!("{}_bin", "x".repeat(length - 4));
    let field = IndexField::tag(name(INDEX_FIELD_BYTES_MAX).as_bytes()).expect("at the limit");
    let mut bytes = Vec::new();
    field.put(&mut bytes);
    assert_eq!(IndexField::take(&bytes), Ok((field, &[][..])));
    let error = IndexField::tag(name(INDEX_FIELD_BYTES_MAX + 1).as_bytes()).expect_err("beyond");
    assert_eq!(error.reason, Reason::TooLarge);
}
