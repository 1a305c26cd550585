//! Scrub of a node's indexes: damage is found, mended and counted, and nothing else is touched.

use super::index_laws::{IndexedNode, NodeEvent, ValueKind, definition, differences_in};
use super::test_node::bucket;
use crate::IndexMends;
use crate::index_upkeep::ScrubCursor;
use bytes::Bytes;
use indexes::{IndexEntry, IndexField, IndexNumber, Term};
use store::RowChange;
use vnode_rows::index_rows::{EntryValue, IndexDifference, IndexId, IndexPhase, entry_key};
use vnode_rows::slots::Slot;

/// Returns a node with three rows and their entries.
async fn indexed_node() -> IndexedNode {
    let mut node = IndexedNode::start();
    let (add, tags) = (NodeEvent::AddIndex(1), NodeEvent::AddTags);
    let write = |key| NodeEvent::Write(key, ValueKind::Tagged(1), true);
    for event in [write(0), add, tags, write(1), write(2)] {
        node = node.take(event).await;
    }
    node.settle().await;
    assert_eq!(differences_in(node.node.trees()), []);
    node
}

fn tree_key(number: u32, term: i64, key: &[u8]) -> Bytes {
    let field = IndexField::Declared(IndexNumber(number));
    entry_key(&bucket(), &IndexEntry { field, term: Term::int(term) }, key)
}

#[tokio::test]
async fn scrub_mends_lost_and_surplus_entries_and_counts_them() {
    let node = indexed_node().await;
    let value = EntryValue { slot: Slot(3), expires_ms: None }.write();
    let lost = tree_key(1, 1, b"k\x01");
    let surplus = [
        // Of a row with another term, of no row, of an index that does not exist.
        tree_key(1, 5, b"k\x01"),
        tree_key(1, 1, b"nobody"),
        tree_key(9, 1, b"k\x01"),
    ];
    let wrong_slot = tree_key(1, 1, b"k\x02");
    let mut damage = vec![RowChange::Remove(lost.clone())];
    damage.push(RowChange::Put(wrong_slot.clone(), value.clone()));
    damage.extend(surplus.iter().map(|key| RowChange::Put(key.clone(), value.clone())));
    node.node.trees().apply(&mut damage.into_iter()).expect("memory");
    let mut expected: Vec<_> = surplus.into_iter().map(IndexDifference::Stale).collect();
    expected.extend([lost, wrong_slot].map(IndexDifference::Missing));
    let sorted = |mut differences: Vec<IndexDifference>| {
        differences.sort_by_key(|difference| format!("{difference:?}"));
        differences
    };
    assert_eq!(sorted(differences_in(node.node.trees())), sorted(expected));

    assert_eq!(node.scrub(), IndexMends { missing: 2, stale: 3 });
    node.node.run().await;
    assert_eq!(differences_in(node.node.trees()), []);
    assert_eq!(node.scrub(), IndexMends::default(), "a second round finds nothing");
    assert_eq!(node.node.store().index_mends(), IndexMends { missing: 2, stale: 3 });
}

#[tokio::test]
async fn scrub_removes_an_entry_that_can_not_be_read() {
    let node = indexed_node().await;
    let mut damaged = tree_key(1, 1, b"k\x01").to_vec();
    damaged.truncate(vnode_rows::index_rows::entries_prefix().len() + 4);
    let damaged = RowChange::Put(damaged.into(), Bytes::from_static(b"?"));
    node.node.trees().apply(&mut [damaged].into_iter()).expect("memory");
    assert_eq!(node.scrub(), IndexMends { missing: 0, stale: 1 });
    node.node.run().await;
    assert_eq!(differences_in(node.node.trees()), []);
}

#[tokio::test]
async fn background_work_builds_scrubs_and_keeps_its_budget() {
    let node = indexed_node().await;
    let available = &node.node.node.available;
    let store = node.node.store();
    assert_eq!(store.index_statuses().expect("memory").len(), 2);
    store.add_index(&bucket(), definition(3)).expect("taken");
    store.drop_index(&bucket(), IndexNumber(1)).expect("taken");
    while node.node.during(available.work_on_index(0)).await.expect("no faults") {}
    let statuses = store.index_statuses().expect("memory");
    let declared = |number| IndexId::Declared(bucket(), IndexNumber(number));
    let ids: Vec<_> = statuses.iter().map(|status| status.id.clone()).collect();
    assert_eq!(ids, [IndexId::Tags, declared(3)]);
    let is_ready = |phase| phase == IndexPhase::Ready;
    assert!(statuses.iter().all(|status| is_ready(status.phase) && status.slots_done == 1_024));
    assert_eq!(statuses[1].rows, 3);
    assert_eq!(differences_in(node.node.trees()), []);
    let mut next = Some(ScrubCursor::default());
    while let Some(cursor) = next {
        let page = node.node.during(available.scrub_index_page(cursor)).await.expect("no faults");
        assert_eq!(page.mends, IndexMends::default());
        next = page.next;
    }

    store.drop_bucket_indexes(&bucket()).expect("taken");
    node.settle().await;
    let ids: Vec<_> = store.index_statuses().expect("memory").into_iter().map(|it| it.id).collect();
    assert_eq!(ids, [IndexId::Tags]);
    assert_eq!(differences_in(node.node.trees()), []);
}

#[tokio::test]
async fn taken_number_and_unique_index_are_refused() {
    let node = indexed_node().await;
    let store = node.node.store();
    store.add_index(&bucket(), definition(1)).expect("it is in force already");
    let mut other = definition(1);
    other.is_strict = true;
    assert!(store.add_index(&bucket(), other).is_err(), "another definition of this number");
    let mut unique = definition(2);
    unique.is_unique = true;
    assert!(store.add_index(&bucket(), unique).is_err());
    store.drop_index(&bucket(), IndexNumber(1)).expect("taken");
    assert!(store.add_index(&bucket(), definition(1)).is_err(), "it is being dropped");
    assert_eq!(store.drop_index(&bucket(), IndexNumber(1)), Ok(None));
    node.settle().await;
    store.add_index(&bucket(), definition(1)).expect("the number is free");
}

#[tokio::test]
async fn removal_of_many_entries_keeps_the_record_until_the_last_page() {
    let node = indexed_node().await;
    let value = EntryValue { slot: Slot(3), expires_ms: None }.write();
    let key = |number: i64| tree_key(1, number, b"planted");
    let planted = (0..600).map(|number| RowChange::Put(key(number), value.clone()));
    node.node.trees().apply(&mut planted.collect::<Vec<_>>().into_iter()).expect("memory");
    let store = node.node.store();
    store.drop_index(&bucket(), IndexNumber(1)).expect("taken");
    node.node.run().await;
    let id = IndexId::Declared(bucket(), IndexNumber(1));
    let is_there = |key: &Bytes| node.node.trees().get(key).expect("memory").is_some();
    let mut pages = 0;
    while let Some((id, phase)) = store.unfinished_index().expect("memory") {
        assert!(is_there(&id.record_key()), "before page {pages}");
        store.write_next_page(&id, phase).expect("taken");
        node.node.run().await;
        pages += 1;
    }
    // 603 entries.
    assert_eq!(pages, 3);
    assert!(!is_there(&id.record_key()) && (0..600).all(|number| !is_there(&key(number))));
    assert_eq!(differences_in(node.node.trees()), []);
}
