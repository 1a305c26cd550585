//! Most entries of one value.

use crate::limits::ENTRIES_PER_VALUE_MAX;
use crate::tests::definition;
use crate::{DefinitionSet, IndexNumber, LivingValue, ValueType, entries, stored_entries};
use base::Reason;
use bytes::Bytes;

fn numbers(count: usize) -> String {
    let numbers: Vec<_> = (0..count).map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(","))
}

fn set_of(paths: &[&str]) -> DefinitionSet {
    let mut set = DefinitionSet::default();
    for (path, number) in paths.iter().zip(1..) {
        let definition = definition(number, &format!("i{number}"), path, ValueType::Int);
        set.insert(definition).expect("different ones");
    }
    set
}

#[test]
fn value_has_different_entries_up_to_the_limit() {
    let set = set_of(&["$[*]"]);
    let most = numbers(ENTRIES_PER_VALUE_MAX);
    let value = LivingValue { tags: &[], bytes: most.as_bytes() };
    let derivation = entries(&set, &[value]).expect("at the limit");
    assert_eq!(derivation.entries.len(), ENTRIES_PER_VALUE_MAX);
    let tags = [(Bytes::from_static(b"a_bin"), Bytes::from_static(b"x"))];
    let error = entries(&set, &[LivingValue { tags: &tags, ..value }]).expect_err("one tag more");
    assert_eq!(error.reason, Reason::TooLarge);
    let more = numbers(ENTRIES_PER_VALUE_MAX + 1);
    let error = entries(&set, &[LivingValue { tags: &[], bytes: more.as_bytes() }]);
    assert_eq!(error.expect_err("beyond").reason, Reason::TooLarge);
}

#[test]
fn equal_terms_count_once() {
    let text = format!("[{}1]", "1,".repeat(100_000));
    let value = LivingValue { tags: &[], bytes: text.as_bytes() };
    assert_eq!(entries(&set_of(&["$[*]"]), &[value]).expect("one term").entries.len(), 1);
}

#[test]
fn replaced_member_does_not_count() {
    let text = format!(r#"{{"a":{},"a":[1]}}"#, numbers(5_000));
    let value = LivingValue { tags: &[], bytes: text.as_bytes() };
    for path in ["$.a[*]", "$.*[*]"] {
        assert_eq!(entries(&set_of(&[path]), &[value]).expect("one term").entries.len(), 1);
    }
}

#[test]
fn siblings_are_limited_one_by_one() {
    let set = set_of(&["$[*]"]);
    let texts = [numbers(1_000), numbers(1_000).replace('[', "[-").replace(',', ",-")];
    let values =
        [&texts[0], &texts[1]].map(|text| LivingValue { tags: &[], bytes: text.as_bytes() });
    assert_eq!(entries(&set, &values).expect("each is below").entries.len(), 1_999);
}

#[test]
fn stored_value_beyond_the_limit_has_no_entries_of_that_definition() {
    let set = set_of(&["$.many[*]", "$.one"]);
    let text = format!(r#"{{"many":{},"one":7}}"#, numbers(ENTRIES_PER_VALUE_MAX + 1));
    let stored = stored_entries(&set, &[LivingValue { tags: &[], bytes: text.as_bytes() }]);
    assert_eq!(stored.entries.len(), 1);
    assert_eq!(stored.skipped[&IndexNumber(1)].oversized, 1);
    // Two definitions below the limit are beyond it together: refused, but kept where stored.
    let both = set_of(&["$.many[*]", "$.many[1:]"]);
    let text = format!(r#"{{"many":{}}}"#, numbers(1_000));
    let value = LivingValue { tags: &[], bytes: text.as_bytes() };
    assert!(entries(&both, &[value]).is_err());
    assert_eq!(stored_entries(&both, &[value]).entries.len(), 1_999);
}
