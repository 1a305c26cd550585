//! Most declared indexes of a bucket.

use crate::limits::INDEXES_PER_BUCKET_MAX;
use crate::tests::definition;
use crate::{DefinitionSet, ValueType};
use base::Reason;

#[test]
fn bucket_has_indexes_up_to_its_limit() {
    let mut set = DefinitionSet::default();
    for number in 0..INDEXES_PER_BUCKET_MAX as u32 {
        let name = format!("i{number}");
        set.insert(definition(number, &name, "$.a", ValueType::Int)).expect("below the limit");
    }
    let error = set.insert(definition(99, "more", "$.a", ValueType::Int)).expect_err("beyond");
    assert_eq!(error.reason, Reason::TooLarge);
}
