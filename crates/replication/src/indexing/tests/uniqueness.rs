//! Unique indexes: one living key for each term.

use super::*;
use base::request::{Expiry, SequenceMode, When};
use base::{Outcome, Reason};

/// Returns a group with a unique index of `$.u`, and the record `a` with the term 1.
fn with_holder() -> IndexedGroup {
    let mut group = IndexedGroup::new();
    assert_eq!(group.build_index(unique(1, "$.u")), IndexPhase::Ready);
    group.update(&set("a", "{\"u\":1}")).expect("the first");
    group
}

fn refused(group: &mut IndexedGroup, update: &Update) -> base::Error {
    let entries = group.entries();
    let error = group.update(update).expect_err("another key has the term");
    assert_eq!((error.reason, group.entries()), (Reason::AlreadyExists, entries));
    group.check_accepted();
    error
}

#[test]
fn second_key_with_a_term_is_refused_and_told_the_index_and_the_holder() {
    let mut group = with_holder();
    let error = refused(&mut group, &set("b", "{\"u\":1}"));
    assert!(error.text().contains("`i1`") && error.text().contains("`a`"), "{error}");
    let (from, to, when) = (Key::from("a"), Key::from("b"), When::Always);
    refused(&mut group, &Update::Copy { from: from.clone(), to: to.clone(), when });
    group.update(&set("a", "{\"u\":1,\"x\":2}")).expect("it is its own");
    group.update(&Update::Rename { from: from.clone(), to: to.clone(), when }).expect("it moves");
    refused(&mut group, &set("a", "{\"u\":1}"));
    group.update(&Update::Rename { from: to.clone(), to: to.clone(), when }).expect("it stays");
    let missing = base::request::OnMissing::Fail;
    group.update(&Update::Delete { key: to, missing }).expect("it is there");
    group.update(&set("a", "{\"u\":1}")).expect("the term is free");
    group.check_accepted();
}

#[test]
fn step_with_a_duplicate_term_fails_alone_or_with_its_sequence() {
    let mut group = with_holder();
    let steps = || vec![set("b", "{\"u\":2}"), set("c", "{\"u\":1}"), set("d", "{\"u\":2}")];
    let sequence = |mode| Update::Sequence { steps: steps(), mode };
    refused(&mut group, &sequence(SequenceMode::AllOrNothing));
    let outcome = group.update(&sequence(SequenceMode::EachAlone)).expect("each alone");
    let Outcome::Steps(outcomes) = outcome else { panic!("{outcome:?}") };
    let reasons: Vec<_> =
        outcomes.iter().map(|step| step.as_ref().err().map(|e| e.reason)).collect();
    let duplicate = Some(Reason::AlreadyExists);
    assert_eq!(reasons, [None, duplicate, duplicate]);
    assert_eq!(group.entries(), 2);
}

#[test]
fn term_of_an_expired_record_is_free_and_the_record_goes_with_it() {
    let mut group = IndexedGroup::new();
    assert_eq!(group.build_index(unique(1, "$.u")), IndexPhase::Ready);
    let (key, value) = (Key::from("a"), Value::from("{\"u\":1}"));
    group.update(&Update::Set { key, value, expiry: Expiry::After(10) }).expect("the first");
    refused(&mut group, &set("b", "{\"u\":1}"));
    group.pass(10);
    group.update(&set("b", "{\"u\":1}")).expect("nobody sees the first");
    assert_eq!(group.entries(), 1);
    let row = group.write(|overlay| overlay.stored_row(INDEXED, b"a"));
    assert_eq!(row, Ok(None), "the sweep has nothing left to do");
    assert_eq!(group.sweep(9), 1, "but for its hint");
    group.apply();
    group.check_accepted();
}

/// A copy of a bucket that clients write to is not as of one moment: a term may pass from one key
/// to another and back between the copies of the two.
#[test]
fn copied_rows_pass_a_term_on_in_any_order() {
    let row = |term| {
        let value = Value::from(format!("{{\"u\":{term}}}"));
        StoredRow { version: Version(1), expires: None, value, tags: None }
    };
    // At the end `x` has the term 1, and `y` 2.
    let last = [("x", 1), ("y", 2)];
    for early in [[("x", 1), ("y", 1)], [("y", 1), ("x", 1)], [("x", 2), ("y", 1)]] {
        for last in [last, [last[1], last[0]]] {
            let mut group = IndexedGroup::new();
            group.begin_index(unique(1, "$.u")).expect("it is the first");
            for (key, term) in early.into_iter().chain(last) {
                let copied = group
                    .write(|overlay| overlay.put_versioned(INDEXED, key.as_bytes(), &row(term)));
                copied.expect("it is accepted");
            }
            assert_eq!(group.entries(), 2, "{early:?}, {last:?}");
            while !group.step(1) {}
            assert_eq!(group.record(1).map(|record| record.phase), Some(IndexPhase::Ready));
            group.check_accepted();
        }
    }
}
