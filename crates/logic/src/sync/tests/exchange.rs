//! Exchanges of two copies: all differences are found, nothing else, and the bytes are counted.

use super::{PartitionCopy, key_of};
use crate::sync::{
    Effect, Event, Exchange, Leaf, ROWS_PER_PAGE_MAX, RowDigest, Side, Summary, SyncAnswer,
    SyncQuestion, leaf_of, row_hash,
};
use base::Key;
use base::codec::Reader;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Returns the rows of a copy in these leaves, after one key and up to another.
fn list(
    copy: &PartitionCopy,
    leaves: &[Leaf],
    after: Option<&Key>,
    upto: Option<&Key>,
) -> Vec<RowDigest> {
    let is_listed = |key: &Key| {
        after.is_none_or(|after| key > after)
            && upto.is_none_or(|upto| key <= upto)
            && leaves.binary_search(&leaf_of(key)).is_ok()
    };
    let rows = copy.rows.iter().filter(|(key, _)| is_listed(key));
    rows.map(|(key, bytes)| RowDigest { key: key.clone(), digest: row_hash(key, bytes).digest })
        .collect()
}

fn answer(copy: &PartitionCopy, question: &SyncQuestion, page: usize) -> SyncAnswer {
    if let Some(answer) = question.answer(&copy.tree) {
        return answer;
    }
    let SyncQuestion::Rows { leaves, after } = question else { unreachable!("all others answer") };
    let mut rows = list(copy, leaves, after.as_ref(), None);
    let more = rows.len() > page;
    rows.truncate(page);
    SyncAnswer::Rows { rows, more }
}

/// Result and cost of an exchange.
struct Compared {
    differs: BTreeMap<Key, Side>,
    summary: Summary,
    bytes: usize,
}

/// Runs an exchange; messages pass through their encoding.
fn compare(here: &PartitionCopy, there: &PartitionCopy, page: usize) -> Compared {
    let mut exchange = Exchange::new();
    let mut effects = Vec::new();
    exchange.step(Event::Started, &here.tree, &mut effects);
    let (mut differs, mut bytes, mut done) = (BTreeMap::new(), 0, None);
    while !effects.is_empty() {
        for effect in std::mem::take(&mut effects) {
            assert_eq!(done, None, "nothing comes behind the end");
            match effect {
                Effect::Ask(question) => {
                    let mut bytes_sent = Vec::new();
                    question.write(&mut bytes_sent);
                    bytes += bytes_sent.len();
                    let decoded =
                        SyncQuestion::read(&mut Reader::new(&bytes_sent)).expect("as it was said");
                    assert_eq!(decoded, question);
                    let mut bytes_sent = Vec::new();
                    answer(there, &decoded, page).write(&mut bytes_sent);
                    bytes += bytes_sent.len();
                    let decoded =
                        SyncAnswer::read(&mut Reader::new(&bytes_sent)).expect("as it was said");
                    exchange.step(Event::Answered(decoded), &here.tree, &mut effects);
                }
                Effect::List { leaves, after, last } => {
                    let rows = list(here, &leaves, after.as_ref(), last.as_ref());
                    exchange.step(Event::Listed(rows), &here.tree, &mut effects);
                }
                Effect::Differs { key, at } => {
                    assert_eq!(differs.insert(key, at), None, "named once");
                }
                Effect::Done(summary) => done = Some(summary),
            }
        }
    }
    Compared { differs, summary: done.expect("an exchange ends"), bytes }
}

/// Returns the differences, found without any tree.
fn expected_differences(here: &PartitionCopy, there: &PartitionCopy) -> BTreeMap<Key, Side> {
    let keys = here.rows.keys().chain(there.rows.keys());
    let side = |key: &Key| match (here.rows.get(key), there.rows.get(key)) {
        (Some(ours), Some(theirs)) if ours == theirs => None,
        (Some(_), Some(_)) => Some(Side::Both),
        (Some(_), None) => Some(Side::Local),
        (None, _) => Some(Side::Remote),
    };
    keys.filter_map(|key| side(key).map(|side| (key.clone(), side))).collect()
}

#[test]
fn equal_copies_exchange_only_roots() {
    let copy = PartitionCopy::of(1_000);
    let compared = compare(&copy, &copy.clone(), ROWS_PER_PAGE_MAX);
    assert_eq!(compared.summary, Summary { is_complete: true, questions: 1, rows: 0 });
    assert_eq!(compared.bytes, 26, "25 to ask, one to answer");
}

/// Checks that, with k of 100,000 rows differing, the bytes are in proportion to k: a few hundred
/// for each.
#[test]
fn exchange_bytes_are_proportional_to_differences() {
    let here = PartitionCopy::of(100_000);
    let mut costs = Vec::new();
    for k in [1, 10, 100, 1_000, 10_000] {
        let mut there = here.clone();
        for number in 0..k {
            let row = number * (100_000 / k);
            match number % 3 {
                0 => there.set(row, b"another"),
                1 => there.remove(row),
                _ => there.set(1_000_000 + row, b"a new one"),
            }
        }
        let compared = compare(&here, &there, ROWS_PER_PAGE_MAX);
        assert_eq!(compared.differs, expected_differences(&here, &there));
        assert!(compared.summary.is_complete);
        costs.push((k, compared.bytes / k as usize));
    }
    // The paths from the root to single leaves part early when there are few, late when many.
    let limits = [750, 500, 350, 250, 150];
    let within = costs.iter().zip(limits).all(|((_, each), most)| *each <= most);
    assert!(within, "bytes for each row that differs: {costs:?}");
}

/// Adds rows that all fall into the leaf of one of them: the hash has no key, so anybody finds such
/// keys by trying.
fn flood_one_leaf(copy: &mut PartitionCopy, count: usize) -> BTreeMap<Key, Side> {
    let leaf = leaf_of(&key_of(0));
    let numbers = (1_000_000..).filter(|number| leaf_of(&key_of(*number)) == leaf);
    let numbers: Vec<_> = numbers.take(count).collect();
    numbers.iter().for_each(|number| copy.set(*number, b"flood"));
    numbers.into_iter().map(|number| (key_of(number), Side::Local)).collect()
}

#[test]
fn keys_of_one_leaf_cost_the_pages_of_their_own_rows_and_nothing_else() {
    const PAGE: usize = 4;
    let there = PartitionCopy::of(3_000);
    let mut here = there.clone();
    let flood = flood_one_leaf(&mut here, 20);
    let compared = compare(&there, &here, PAGE);
    assert_eq!(compared.differs.keys().collect::<Vec<_>>(), flood.keys().collect::<Vec<_>>());
    assert!(compared.summary.is_complete);
    // The path to the leaf, then its rows page by page.
    let pages = (flood.len() + 1).div_ceil(PAGE) as u64 + 1;
    assert!(compared.summary.questions <= 4 + pages, "{} questions", compared.summary.questions);
    assert_eq!(compare(&here, &there, PAGE).differs, flood);
    // A tree's size does not depend on how many rows share a leaf.
    let (with, without) = (here.tree.bytes(), there.tree.bytes());
    assert!(with <= without + 64, "{with} bytes with the flood, {without} without");
}

#[test]
fn empty_copy_differs_in_every_row() {
    let (here, empty) = (PartitionCopy::of(3_000), PartitionCopy::default());
    let compared = compare(&here, &empty, ROWS_PER_PAGE_MAX);
    assert_eq!(compared.differs, expected_differences(&here, &empty));
    let compared = compare(&empty, &here, 100);
    assert!(compared.differs.values().all(|side| *side == Side::Remote));
    assert_eq!(compared.summary.rows, 3_000);
}

#[test]
fn invalid_answer_ends_exchange_as_incomplete() {
    let copy = PartitionCopy::of(10);
    let end = |answers: Vec<Event>| {
        let mut exchange = Exchange::new();
        let mut effects = Vec::new();
        exchange.step(Event::Started, &copy.tree, &mut effects);
        for answer in answers {
            effects.clear();
            exchange.step(answer, &copy.tree, &mut effects);
        }
        matches!(effects[..], [Effect::Done(Summary { is_complete: false, .. })])
    };
    let rows = |keys: &[u32], more| {
        let row = |number: &u32| RowDigest { key: key_of(*number), digest: 1 };
        Event::Answered(SyncAnswer::Rows { rows: keys.iter().map(row).collect(), more })
    };
    let all_sums = || Event::Answered(SyncAnswer::Sums(vec![7; 16]));
    assert!(end(vec![Event::Failed]));
    assert!(end(vec![Event::Answered(SyncAnswer::Sums(vec![1, 2, 3]))]));
    assert!(end(vec![rows(&[1], false)]));
    assert!(end(vec![all_sums(), Event::Answered(SyncAnswer::Same)]));
    let sums = |count| Event::Answered(SyncAnswer::Sums(vec![7; count]));
    let down = || vec![all_sums(), sums(256), sums(4_096), sums(4_096)];
    assert!(end([down(), vec![rows(&[], true)]].concat()), "a page without rows and more to come");
    assert!(end([down(), vec![rows(&[2, 1], false)]].concat()), "rows out of order");
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn exchange_reports_all_and_only_differing_rows(
        common in 0..400_u32,
        ours in proptest::collection::vec((0..600_u32, 0..3_u8), 0..40),
        theirs in proptest::collection::vec((0..600_u32, 0..3_u8), 0..40),
        page in 1..50_usize,
    ) {
        let (mut here, mut there) = (PartitionCopy::of(common), PartitionCopy::of(common));
        for (copy, changes) in [(&mut here, ours), (&mut there, theirs)] {
            for (number, bytes) in changes {
                if bytes == 0 { copy.remove(number) } else { copy.set(number, &[bytes]) }
            }
        }
        let compared = compare(&here, &there, page);
        prop_assert!(compared.summary.is_complete);
        prop_assert_eq!(&compared.differs, &expected_differences(&here, &there));
        prop_assert_eq!(compared.summary.rows, compared.differs.len() as u64);
    }
}
