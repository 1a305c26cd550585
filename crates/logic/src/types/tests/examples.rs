//! Examples of each type under two concurrent changes.

use super::{Replica, add, drop_field, field, remove, text, update};
use crate::types::Refused;
use base::datatype::{ElementStep, FieldKind, FieldStep, TypeOperation, TypeValue};
use base::limits::{TYPE_DEPTH_MAX, TYPE_STEPS_MAX, TYPE_WAITING_MAX};

fn pair(kind: FieldKind) -> (Replica, Replica) {
    (Replica::new(1, kind), Replica::new(2, kind))
}

/// Merges both replicas with each other, and checks that they show the same value.
fn meet(one: &mut Replica, other: &mut Replica) -> TypeValue {
    one.hear(other);
    other.hear(one);
    assert_eq!(one.typed, other.typed);
    one.typed.value()
}

fn set(elements: &[&'static str]) -> TypeValue {
    TypeValue::Set(elements.iter().map(|element| text(element)).collect())
}

#[test]
fn counters_add_up() {
    let (mut a, mut b) = pair(FieldKind::Counter);
    for by in [5, -2, 0] {
        a.done(&TypeOperation::Add(by));
        b.done(&TypeOperation::Add(by));
        meet(&mut a, &mut b);
    }
    b.done(&TypeOperation::Add(i64::MIN));
    assert_eq!(meet(&mut a, &mut b), TypeValue::Counter(6 + i128::from(i64::MIN)));
    for _ in 0..2 {
        let _ = a.change(&TypeOperation::Add(i64::MAX), None);
    }
    assert_eq!(a.change(&TypeOperation::Add(i64::MAX), None), Err(Refused::OutOfRange));
}

/// The actor's row was lost, and its counters continued above: later additions stand beside the
/// former ones, and nothing counts twice.
#[test]
fn a_counter_that_lost_its_row_counts_nothing_twice() {
    let (mut a, mut b) = pair(FieldKind::Counter);
    a.done(&TypeOperation::Add(5));
    meet(&mut a, &mut b);
    let mut after = Replica { count: 9, ..Replica::new(1, FieldKind::Counter) };
    after.done(&TypeOperation::Add(1));
    assert_eq!(meet(&mut after, &mut b), TypeValue::Counter(6));
    after.done(&TypeOperation::Add(1));
    assert_eq!(meet(&mut after, &mut b), TypeValue::Counter(7));
}

#[test]
fn an_add_survives_a_remove_that_had_not_seen_it() {
    let (mut a, mut b) = pair(FieldKind::Set);
    a.done(&add("x"));
    a.done(&add("y"));
    meet(&mut a, &mut b);
    a.done(&remove("x"));
    b.done(&add("x"));
    b.done(&remove("y"));
    assert_eq!(meet(&mut a, &mut b), set(&["x"]));
}

#[test]
fn a_remove_without_a_context_needs_what_it_removes() {
    let mut a = Replica::new(1, FieldKind::Set);
    assert_eq!(a.change(&remove("x"), None), Err(Refused::NotThere));
    let both =
        TypeOperation::Elements(vec![ElementStep::Add(text("y")), ElementStep::Remove(text("x"))]);
    assert_eq!(a.change(&both, None), Err(Refused::NotThere));
    assert_eq!(a.typed.value(), set(&[]), "all or nothing");
    let mut map = Replica::new(1, FieldKind::Map);
    let gone = drop_field(field("f", FieldKind::Flag));
    assert_eq!(map.change(&gone, None), Err(Refused::NotThere));
}

/// The remove reaches a replica that does not know the add yet, and waits for it.
#[test]
fn a_remove_waits_for_what_its_context_has_seen() {
    let (mut a, mut b) = pair(FieldKind::Set);
    a.done(&add("x"));
    a.done(&add("y"));
    let seen = a.typed.context().clone();
    b.change(&remove("x"), Some(&seen)).expect("applies");
    assert_eq!(b.typed.value(), set(&[]));
    let mut c = Replica::new(3, FieldKind::Set);
    c.hear(&b);
    assert_eq!(meet(&mut a, &mut c), set(&["y"]));
    assert_eq!(meet(&mut a, &mut b), set(&["y"]));
    assert!(b.typed.waiting.is_empty(), "it is done");
}

#[test]
fn on_wins_over_off_that_had_not_seen_it() {
    let (mut a, mut b) = pair(FieldKind::Flag);
    a.done(&TypeOperation::Enable);
    meet(&mut a, &mut b);
    a.done(&TypeOperation::Disable);
    b.done(&TypeOperation::Enable);
    assert_eq!(meet(&mut a, &mut b), TypeValue::Flag(true));
    a.done(&TypeOperation::Disable);
    assert_eq!(meet(&mut a, &mut b), TypeValue::Flag(false));
}

/// Both replicas' clocks stand still: an assignment that has seen the other is later all the same.
#[test]
fn an_assignment_is_later_than_what_it_replaces() {
    let (mut a, mut b) = pair(FieldKind::Register);
    for (at, word) in ["z", "y", "x"].into_iter().enumerate() {
        let at = if at % 2 == 0 { &mut a } else { &mut b };
        at.done(&TypeOperation::Assign(text(word)));
        let both = meet(&mut a, &mut b);
        assert_eq!(both, TypeValue::Register(text(word)));
    }
    a.done(&TypeOperation::Assign(text("one")));
    b.done(&TypeOperation::Assign(text("other")));
    assert_eq!(meet(&mut a, &mut b), TypeValue::Register(text("other")), "same hour: the greater");
}

#[test]
fn what_a_removed_field_held_is_gone_and_what_came_meanwhile_stays() {
    let (mut a, mut b) = pair(FieldKind::Map);
    let tags = || field("tags", FieldKind::Set);
    a.done(&update(tags(), add("old")));
    meet(&mut a, &mut b);
    a.done(&drop_field(tags()));
    assert_eq!(a.typed.value(), TypeValue::Map(vec![]));
    b.done(&update(tags(), add("new")));
    assert_eq!(meet(&mut a, &mut b), TypeValue::Map(vec![(tags(), set(&["new"]))]));
}

#[test]
fn fields_of_one_name_and_two_kinds_are_two() {
    let mut a = Replica::new(1, FieldKind::Map);
    let (flag, count) = (field("x", FieldKind::Flag), field("x", FieldKind::Counter));
    let inner = field("in", FieldKind::Map);
    a.done(&TypeOperation::Fields(vec![
        FieldStep::Update(flag.clone(), TypeOperation::Disable),
        FieldStep::Update(count.clone(), TypeOperation::Add(3)),
        FieldStep::Update(inner.clone(), update(flag.clone(), TypeOperation::Enable)),
        FieldStep::Update(field("n", FieldKind::Hll), add("one")),
        FieldStep::Update(field("g", FieldKind::Gset), add("one")),
        FieldStep::Update(field("e", FieldKind::Set), TypeOperation::Elements(vec![])),
    ]));
    let shown = TypeValue::Map(vec![
        (field("e", FieldKind::Set), set(&[])),
        (field("g", FieldKind::Gset), TypeValue::Gset(vec![text("one")])),
        (inner, TypeValue::Map(vec![(flag.clone(), TypeValue::Flag(true))])),
        (field("n", FieldKind::Hll), TypeValue::Hll(1)),
        (count, TypeValue::Counter(3)),
        (flag, TypeValue::Flag(false)),
    ]);
    assert_eq!(a.typed.value(), shown);
}

#[test]
fn what_is_no_operation_of_the_type_is_refused() {
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
        let fits = |operation: &TypeOperation| {
            Replica::new(1, kind).change(operation, None) != Err(Refused::WrongType(kind))
        };
        let fitting = operations.iter().filter(|operation| fits(operation)).count();
        let elements = matches!(kind, FieldKind::Set | FieldKind::Gset | FieldKind::Hll);
        let two = elements || kind == FieldKind::Flag;
        assert_eq!(fitting, if two { 2 } else { 1 }, "{kind:?}");
    }
    for kind in [FieldKind::Gset, FieldKind::Hll] {
        let mut grows = Replica::new(1, kind);
        grows.done(&add("x"));
        assert_eq!(grows.change(&remove("x"), None), Err(Refused::WrongType(kind)));
    }
}

#[test]
fn changes_end_at_their_limits() {
    let steps = |count| TypeOperation::Elements(vec![ElementStep::Add(text("x")); count]);
    for kind in [FieldKind::Set, FieldKind::Hll] {
        let mut many = Replica::new(1, kind);
        assert_eq!(many.change(&steps(TYPE_STEPS_MAX), None), Ok(()));
        assert_eq!(many.change(&steps(TYPE_STEPS_MAX + 1), None), Err(Refused::TooMany));
    }
    let nested = |depth| {
        let leaf = update(field("f", FieldKind::Flag), TypeOperation::Enable);
        (1..depth).fold(leaf, |inner, _| update(field("m", FieldKind::Map), inner))
    };
    let mut deep = Replica::new(1, FieldKind::Map);
    assert_eq!(deep.change(&nested(TYPE_DEPTH_MAX), None), Ok(()));
    assert_eq!(deep.change(&nested(TYPE_DEPTH_MAX + 1), None), Err(Refused::TooDeep));
    let mut other = Replica::new(2, FieldKind::Set);
    other.done(&add("x"));
    let unknown = other.typed.context().clone();
    let removes = |count: usize| {
        let element = |at: usize| ElementStep::Remove(at.to_string().into());
        TypeOperation::Elements((0..count).map(element).collect())
    };
    let mut waits = Replica::new(1, FieldKind::Set);
    assert_eq!(waits.change(&removes(TYPE_WAITING_MAX), Some(&unknown)), Ok(()));
    let more = removes(TYPE_WAITING_MAX + 1);
    assert_eq!(waits.change(&more, Some(&unknown)), Err(Refused::TooMany));
}
