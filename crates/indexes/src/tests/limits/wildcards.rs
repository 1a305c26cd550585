//! Most members and terms that are remembered under a wildcard.

use crate::limits::WILDCARD_HELD_MAX;
use crate::tests::definition;
use crate::{
    DefinitionSet, JsonPath, LivingValue, Selection, ValueFormat, ValueType, entries, select,
};
use base::Reason;

fn object(members: usize) -> String {
    let members: Vec<_> = (0..members).map(|at| format!(r#""{at}":{{"v":true}}"#)).collect();
    format!("{{{}}}", members.join(","))
}

fn read(path: &str, json: &str) -> Selection {
    let path = JsonPath::parse(path).expect("a path");
    select(&path, ValueType::Bool, ValueFormat::Json, json.as_bytes()).expect("readable")
}

#[test]
fn object_under_a_wildcard_has_members_up_to_the_limit() {
    // Each member costs one, and its term another one.
    let selection = read("$.*.v", &object(WILDCARD_HELD_MAX / 2));
    assert_eq!((selection.is_oversized, selection.terms.len()), (false, 1));
    let json = object(WILDCARD_HELD_MAX / 2 + 1);
    let selection = read("$.*.v", &json);
    assert!(selection.is_oversized && selection.terms.is_empty());
    let mut set = DefinitionSet::default();
    set.insert(definition(1, "a", "$.*.v", ValueType::Bool)).expect("the first");
    let error = entries(&set, &[LivingValue { tags: &[], bytes: json.as_bytes() }]);
    assert_eq!(error.expect_err("beyond").reason, Reason::TooLarge);
}

#[test]
fn objects_are_remembered_one_after_the_other() {
    let half = object(WILDCARD_HELD_MAX / 4);
    let json = format!("[{half},{half},{half},{half},{half}]");
    assert!(!read("$[*].*.v", &json).is_oversized);
    let repeated = format!("{{{}}}", vec![r#""a":{"v":true}"#; WILDCARD_HELD_MAX].join(","));
    assert!(!read("$.*.v", &repeated).is_oversized, "a replaced member is forgotten");
}
