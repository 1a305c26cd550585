//! Examples of each type under two concurrent changes.

use super::{Replica, add, drop_field, field, remove, text, update};
use crate::types::ApplyError;
use base::datatype::{ElementStep, FieldKind, FieldStep, TypeOperation, TypeValue};
use base::limits::{TYPE_DEPTH_MAX, TYPE_STEPS_MAX, TYPE_WAITING_MAX};

fn pair(kind: FieldKind) -> (Replica, Replica) {
    (Replica::new(1, kind), Replica::new(2, kind))
}

/// Merges both replicas with each other, and checks that they show the same value.
fn exchange(one: &mut Replica, other: &mut Replica) -> TypeValue {
    one.merge_from(other);
    other.merge_from(one);
    assert_eq!(one.typed, other.typed);
    one.typed.value()
}

fn set(elements: &[&'static str]) -> TypeValue {
    TypeValue::Set(elements.iter().map(|element| text(element)).collect())
}

#[test]
fn counter_sums_replica_increments_and_rejects_overflow() {
    let (mut a, mut b) = pair(FieldKind::Counter);
    for by in [5, -2, 0] {
        a.apply(&TypeOperation::Add(by));
        b.apply(&TypeOperation::Add(by));
        exchange(&mut a, &mut b);
    }
    b.apply(&TypeOperation::Add(i64::MIN));
    assert_eq!(exchange(&mut a, &mut b), TypeValue::Counter(6 + i128::from(i64::MIN)));
    for _ in 0..2 {
        let _ = a.change(&TypeOperation::Add(i64::MAX), None);
    }
    assert_eq!(a.change(&TypeOperation::Add(i64::MAX), None), Err(ApplyError::OutOfRange));
}

/// The actor's row was lost, and its counters continued above: later additions stand beside the
/// former ones, and nothing counts twice.
#[test]
fn counter_after_row_loss_counts_increments_once() {
    let (mut a, mut b) = pair(FieldKind::Counter);
    a.apply(&TypeOperation::Add(5));
    exchange(&mut a, &mut b);
    let mut after = Replica { count: 9, ..Replica::new(1, FieldKind::Counter) };
    after.apply(&TypeOperation::Add(1));
    assert_eq!(exchange(&mut after, &mut b), TypeValue::Counter(6));
    after.apply(&TypeOperation::Add(1));
    assert_eq!(exchange(&mut after, &mut b), TypeValue::Counter(7));
}

#[test]
fn set_add_survives_concurrent_remove() {
    let (mut a, mut b) = pair(FieldKind::Set);
    a.apply(&add("x"));
    a.apply(&add("y"));
    exchange(&mut a, &mut b);
    a.apply(&remove("x"));
    b.apply(&add("x"));
    b.apply(&remove("y"));
    assert_eq!(exchange(&mut a, &mut b), set(&["x"]));
}

#[test]
fn remove_without_context_of_absent_target_is_rejected() {
    let mut a = Replica::new(1, FieldKind::Set);
    assert_eq!(a.change(&remove("x"), None), Err(ApplyError::NotFound));
    let both =
        TypeOperation::Elements(vec![ElementStep::Add(text("y")), ElementStep::Remove(text("x"))]);
    assert_eq!(a.change(&both, None), Err(ApplyError::NotFound));
    assert_eq!(a.typed.value(), set(&[]), "all or nothing");
    let mut map = Replica::new(1, FieldKind::Map);
    let removal = drop_field(field("f", FieldKind::Flag));
    assert_eq!(map.change(&removal, None), Err(ApplyError::NotFound));
}

/// The remove reaches a replica that does not know the add yet, and waits for it.
#[test]
fn remove_with_context_waits_for_unseen_adds() {
    let (mut a, mut b) = pair(FieldKind::Set);
    a.apply(&add("x"));
    a.apply(&add("y"));
    let seen = a.typed.context().clone();
    b.change(&remove("x"), Some(&seen)).expect("applies");
    assert_eq!(b.typed.value(), set(&[]));
    let mut c = Replica::new(3, FieldKind::Set);
    c.merge_from(&b);
    assert_eq!(exchange(&mut a, &mut c), set(&["y"]));
    assert_eq!(exchange(&mut a, &mut b), set(&["y"]));
    assert!(b.typed.waiting.is_empty(), "it is done");
}

#[test]
fn flag_enable_wins_over_concurrent_disable() {
    let (mut a, mut b) = pair(FieldKind::Flag);
    a.apply(&TypeOperation::Enable);
    exchange(&mut a, &mut b);
    a.apply(&TypeOperation::Disable);
    b.apply(&TypeOperation::Enable);
    assert_eq!(exchange(&mut a, &mut b), TypeValue::Flag(true));
    a.apply(&TypeOperation::Disable);
    assert_eq!(exchange(&mut a, &mut b), TypeValue::Flag(false));
}

/// Both replicas' clocks stand still: an assignment that has seen the other is later all the same.
#[test]
fn register_assignment_follows_causality_under_equal_timestamps() {
    let (mut a, mut b) = pair(FieldKind::Register);
    for (at, value) in ["z", "y", "x"].into_iter().enumerate() {
        let at = if at % 2 == 0 { &mut a } else { &mut b };
        at.apply(&TypeOperation::Assign(text(value)));
        let both = exchange(&mut a, &mut b);
        assert_eq!(both, TypeValue::Register(text(value)));
    }
    a.apply(&TypeOperation::Assign(text("one")));
    b.apply(&TypeOperation::Assign(text("other")));
    assert_eq!(
        exchange(&mut a, &mut b),
        TypeValue::Register(text("other")),
        "same hour: the greater"
    );
}

#[test]
fn field_remove_drops_seen_elements_and_keeps_concurrent_update() {
    let (mut a, mut b) = pair(FieldKind::Map);
    let tags = || field("tags", FieldKind::Set);
    a.apply(&update(tags(), add("old")));
    exchange(&mut a, &mut b);
    a.apply(&drop_field(tags()));
    assert_eq!(a.typed.value(), TypeValue::Map(vec![]));
    b.apply(&update(tags(), add("new")));
    assert_eq!(exchange(&mut a, &mut b), TypeValue::Map(vec![(tags(), set(&["new"]))]));
}

#[test]
fn map_fields_with_same_name_and_different_kinds_are_distinct() {
    let mut a = Replica::new(1, FieldKind::Map);
    let (flag, count) = (field("x", FieldKind::Flag), field("x", FieldKind::Counter));
    let inner = field("in", FieldKind::Map);
    a.apply(&TypeOperation::Fields(vec![
        FieldStep::Update(flag.clone(), TypeOperation::Disable),
        FieldStep::Update(count.clone(), TypeOperation::Add(3)),
        FieldStep::Update(inner.clone(), update(flag.clone(), TypeOperation::Enable)),
        FieldStep::Update(field("n", FieldKind::Hll), add("one")),
        FieldStep::Update(field("g", FieldKind::Gset), add("one")),
        FieldStep::Update(field("e", FieldKind::Set), TypeOperation::Elements(vec![])),
    ]));
    let expected = TypeValue::Map(vec![
        (field("e", FieldKind::Set), set(&[])),
        (field("g", FieldKind::Gset), TypeValue::Gset(vec![text("one")])),
        (inner, TypeValue::Map(vec![(flag.clone(), TypeValue::Flag(true))])),
        (field("n", FieldKind::Hll), TypeValue::Hll(1)),
        (count, TypeValue::Counter(3)),
        (flag, TypeValue::Flag(false)),
    ]);
    assert_eq!(a.typed.value(), expected);
}

#[test]
fn operation_of_wrong_type_is_rejected() {
    let operations = [
        TypeOperation::Add(1),
        add("x"),
        TypeOperation::Assign(text("x")),
        TypeOperation::Enable,
        TypeOperation::Disable,
        TypeOperation::Fields(vec![]),
        TypeOperation::Elements(vec![]),
    ];
    for kind in FieldKind::ALL {
        let is_accepted = |operation: &TypeOperation| {
            Replica::new(1, kind).change(operation, None) != Err(ApplyError::WrongType(kind))
        };
        let accepted = operations.iter().filter(|operation| is_accepted(operation)).count();
        let elements = matches!(kind, FieldKind::Set | FieldKind::Gset | FieldKind::Hll);
        let two = elements || kind == FieldKind::Flag;
        assert_eq!(accepted, if two { 2 } else { 1 }, "{kind:?}");
    }
    for kind in [FieldKind::Gset, FieldKind::Hll] {
        let mut grows = Replica::new(1, kind);
        grows.apply(&add("x"));
        assert_eq!(grows.change(&remove("x"), None), Err(ApplyError::WrongType(kind)));
    }
}

#[test]
fn type_operations_above_limits_are_rejected() {
    let steps = |count| TypeOperation::Elements(vec![ElementStep::Add(text("x")); count]);
    for kind in [FieldKind::Set, FieldKind::Hll] {
        let mut many = Replica::new(1, kind);
        assert_eq!(many.change(&steps(TYPE_STEPS_MAX), None), Ok(()));
        assert_eq!(many.change(&steps(TYPE_STEPS_MAX + 1), None), Err(ApplyError::TooMany));
    }
    let nested = |depth| {
        let leaf = update(field("f", FieldKind::Flag), TypeOperation::Enable);
        (1..depth).fold(leaf, |inner, _| update(field("m", FieldKind::Map), inner))
    };
    let mut deep = Replica::new(1, FieldKind::Map);
    assert_eq!(deep.change(&nested(TYPE_DEPTH_MAX), None), Ok(()));
    assert_eq!(deep.change(&nested(TYPE_DEPTH_MAX + 1), None), Err(ApplyError::TooDeep));
    let mut other = Replica::new(2, FieldKind::Set);
    other.apply(&add("x"));
    let unknown = other.typed.context().clone();
    let removes = |count: usize| {
        let element = |at: usize| ElementStep::Remove(at.to_string().into());
        TypeOperation::Elements((0..count).map(element).collect())
    };
    let mut waits = Replica::new(1, FieldKind::Set);
    assert_eq!(waits.change(&removes(TYPE_WAITING_MAX), Some(&unknown)), Ok(()));
    let more = removes(TYPE_WAITING_MAX + 1);
    assert_eq!(waits.change(&more, Some(&unknown)), Err(ApplyError::TooMany));
}
