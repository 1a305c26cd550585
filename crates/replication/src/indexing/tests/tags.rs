//! Tags beside the values of rows: which updates keep them, where their entries begin and end, and
//! what is refused.

use super::*;
use crate::seals::BOOKKEEPING_BUCKET;
use base::request::{ExpireWhen, Expiry, OnMissing, SequenceMode, TaggedSet, When};
use base::{Outcome, Reason, Tags};
use indexes::TermKind;
use replica_state::index_check::IndexMismatch;
use replica_state::tag_record::tag_record_key;

/// Returns a write of `value` with these tags.
fn tagged(key: &str, value: &str, tags: &[(&str, &str)]) -> Update {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let tags = Tags(tags.iter().map(|(field, text)| (bytes(field), bytes(text))).collect());
    let (key, value, expiry, when) = (bytes(key), bytes(value), Expiry::Default, When::Always);
    Update::SetTagged(Box::new(TaggedSet { key, value, expiry, when, tags }))
}

fn key(text: &'static str) -> Key {
    Key::from(text)
}

impl IndexedGroup {
    /// Returns the keys that a query of the whole field finds, in order.
    fn tag_keys(&mut self, field: &str) -> Vec<Key> {
        let kind = if field.ends_with("_int") { TermKind::TagInteger } else { TermKind::TagBytes };
        let query = TermQuery {
            field: IndexField::tag(field.as_bytes()).expect("a field"),
            terms: TermRange::all(kind),
            filter: None,
            after: None,
            direction: Direction::Ascending,
            rows_max: None,
            bytes_max: None,
            content: MatchContent::Terms,
        };
        let answer = self.write(|overlay| overlay.query_index(INDEXED, &query));
        let Ok(IndexAnswer::Page(page)) = answer else { panic!("a page, not {answer:?}") };
        page.rows.into_iter().map(|row| row.key).collect()
    }

    fn tags(&mut self, key: &'static str) -> Option<Tags> {
        let row = self.write(|overlay| overlay.row(INDEXED, key.as_bytes())).expect("memory");
        row.and_then(|row| row.tags).map(|tags| *tags)
    }

    fn has_tag_record(&mut self) -> bool {
        let record = tag_record_key(INDEXED);
        let row = self.write(|overlay| overlay.row(BOOKKEEPING_BUCKET, &record));
        row.expect("memory").is_some()
    }
}

#[test]
fn updates_of_a_whole_value_remove_tags_and_changes_of_the_row_keep_them() {
    let [k, to] = [key("k"), key("t")];
    let (expiry, when, value) = (Expiry::After(9), When::Always, Value::from("5"));
    let (expected, wanted) = (Some(Value::from("7")), Some(value.clone()));
    for (update, keeps) in [
        (Update::Set { key: k.clone(), value: value.clone(), expiry: Expiry::Keep }, false),
        (Update::SetIf { key: k.clone(), value: value.clone(), expiry, when }, false),
        (Update::TestAndSet { key: k.clone(), expected, wanted: wanted.clone() }, false),
        (Update::Replace { key: k.clone(), wanted }, false),
        (Update::Confirm { key: k.clone(), value: value.clone() }, false),
        (Update::Delete { key: k.clone(), missing: OnMissing::Fail }, false),
        (Update::DeletePrefix { prefix: Key::new() }, false),
        // The value is there already: nothing is written.
        (Update::Confirm { key: k.clone(), value: Value::from("7") }, true),
        (Update::Add { key: k.clone(), delta: 2 }, true),
        (Update::AddFloat { key: k.clone(), delta: 0.5 }, true),
        (Update::Append { key: k.clone(), value: value.clone() }, true),
        (Update::SetRange { key: k.clone(), offset: 3, value }, true),
        (Update::Expire { key: k.clone(), expiry, when: ExpireWhen::Always }, true),
        (Update::Copy { from: k.clone(), to: to.clone(), when }, true),
        (Update::Rename { from: k, to, when }, true),
    ] {
        let mut group = IndexedGroup::new();
        let applied = group.update(&tagged("k", "7", &[("a_int", "7"), ("b_bin", "x")]));
        assert_eq!(applied, Ok(Outcome::Applied(true)));
        group.update(&update).expect("it applies");
        group.check_accepted();
        let expected: &[&str] = match &update {
            Update::Copy { .. } => &["k", "t"],
            Update::Rename { .. } => &["t"],
            _ if keeps => &["k"],
            _ => &[],
        };
        assert_eq!(group.tag_keys("a_int"), expected, "{update:?}");
        assert_eq!(group.tag_keys("b_bin"), expected, "{update:?}");
        let place = if matches!(update, Update::Rename { .. }) { "t" } else { "k" };
        assert_eq!(group.tags(place).is_some(), keeps, "{update:?}");
    }
}

#[test]
fn conditions_of_tagged_writes_hold_and_expired_rows_are_not_found() {
    let mut group = IndexedGroup::new();
    let with = |when, expiry, number: &str| {
        let Update::SetTagged(mut set) = tagged("k", "v", &[("a_int", number)]) else {
            unreachable!("that is what it returns")
        };
        (set.when, set.expiry) = (when, expiry);
        Update::SetTagged(set)
    };
    for (when, is_written) in [(When::Present, false), (When::Absent, true), (When::Absent, false)]
    {
        let outcome = group.update(&with(when, Expiry::After(50), "1"));
        assert_eq!(outcome, Ok(Outcome::Applied(is_written)), "{when:?}");
    }
    group.update(&with(When::Present, Expiry::Keep, "2")).expect("it is there");
    assert_eq!(group.entries(), 1, "the former tag has no entry");
    assert_eq!(group.tag_keys("a_int"), ["k"]);
    group.pass(50);
    assert_eq!((group.tag_keys("a_int"), group.entries()), (Vec::<Key>::new(), 1));
    group.sweep(9);
    assert_eq!(group.entries(), 0);
    group.check_accepted();
}

#[test]
fn record_of_tags_comes_with_the_first_tag_and_goes_with_the_bucket() {
    let mut group = IndexedGroup::new();
    group.update(&set("plain", "7")).expect("memory");
    assert!(group.queue.indexes.is_empty() && !group.has_tag_record());
    // A step that fails takes the record with it.
    let (key, missing) = (key("absent"), OnMissing::Fail);
    let steps = vec![tagged("k", "7", &[("a_int", "7")]), Update::Delete { key, missing }];
    let sequence = Update::Sequence { steps, mode: SequenceMode::AllOrNothing };
    assert!(group.update(&sequence).is_err());
    assert!(group.queue.indexes.is_empty() && !group.has_tag_record());
    group.update(&tagged("k", "7", &[("a_int", "7")])).expect("memory");
    assert!(group.has_tag_record());
    group.apply();
    assert!(group.applied_indexes.has(INDEXED) && !group.applied_indexes.has(PLAIN));
    // Another master knows that it must look for entries of the row that it replaces.
    group.end_epoch();
    group.update(&set("k", "7")).expect("memory");
    assert_eq!(group.entries(), 0);
    group.check_accepted();
    group.write(|overlay| overlay.forget_indexes(INDEXED)).expect("memory");
    assert!(group.queue.indexes.is_empty() && !group.has_tag_record());
}

#[test]
fn tags_that_can_not_be_indexed_are_refused_and_change_nothing() {
    let mut group = IndexedGroup::new();
    group.update(&tagged("k", "1", &[("a_int", "1")])).expect("memory");
    let (long, digits) = ("x".repeat(9_000), "1".repeat(1_001));
    for (field, text, reason) in [
        ("a_int", "one", Reason::NotANumber),
        ("a_int", "", Reason::NotANumber),
        ("a", "1", Reason::Malformed),
        ("a_int", &digits[..], Reason::TooLarge),
        ("a_bin", &long[..], Reason::TooLarge),
    ] {
        let refused = group.update(&tagged("k", "2", &[(field, text)])).expect_err("refused");
        assert_eq!(refused.reason, reason, "{field} {}", text.len());
    }
    assert_eq!(group.tag_keys("a_int"), ["k"]);
    let value = group.write(|overlay| overlay.row(INDEXED, b"k")).expect("memory");
    assert_eq!(value.map(|row| row.value), Some(Value::from("1")));
    // Together with entries of declared indexes they count among those of a value.
    group.build_index(definition(1, "$[*]", ValueType::Int));
    let list: Vec<_> = (0..1_024).map(|number| number.to_string()).collect();
    let list = format!("[{}]", list.join(","));
    group.update(&set("l", &list)).expect("it has as many as are allowed");
    let refused = group.update(&tagged("l", &list, &[("a_int", "1")])).expect_err("one more");
    assert_eq!(refused.reason, Reason::TooLarge);
    group.check_accepted();
}

#[test]
fn damaged_entries_of_tags_are_mended_as_their_rows_say() {
    let mut group = IndexedGroup::new();
    group.update(&tagged("k", "v", &[("a_int", "1"), ("b_bin", "x")])).expect("memory");
    group.update(&tagged("l", "v", &[("a_int", "2")])).expect("memory");
    group.apply();
    let check = |group: &IndexedGroup| {
        check_indexes(&*group.trees.snapshot(), GROUP, INDEXED, 9).expect("memory")
    };
    let mut prefix = Vec::new();
    let space = replica_state::layout::Space::Index;
    replica_state::layout::bucket_key(GROUP, space, INDEXED, &[], &mut prefix);
    let rows = |group: &IndexedGroup| {
        let snapshot = group.trees.snapshot();
        store::Chunk::read(&*snapshot, &prefix, None, usize::MAX).expect("memory").rows
    };
    let sound = rows(&group);
    let (lost, row) = sound[0].clone();
    let surplus = Bytes::from([&sound[1].0[..], b"x"].concat());
    let damage = vec![RowChange::Remove(lost), RowChange::Put(surplus, row)];
    group.trees.apply(&mut damage.into_iter()).expect("memory");
    let found = check(&group);
    assert!(matches!(&found[..], [IndexMismatch::Missing { .. }, IndexMismatch::Surplus { .. }]));
    let mended = group.write(|overlay| overlay.mend_entries(INDEXED, &found));
    assert_eq!(mended, Ok(2));
    group.apply();
    assert_eq!((rows(&group), check(&group)), (sound, Vec::new()));
}
