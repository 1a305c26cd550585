//! Queries of a node's indexes: every page holds what a scan of the rows says, and pages end.

use super::index_laws::{IndexedNode, definition, node_event};
use super::logged_node::{LoggedNode, block_on};
use super::test_node::bucket;
use base::range::Direction;
use base::{Partition, Reason};
use bytes::Bytes;
use indexes::{DefinitionSet, IndexEntry, IndexField, IndexNumber, Term, TermKind, TermRange};
use logic::coverage::PageEnd;
use proptest::prelude::*;
use runtime::world;
use std::collections::BTreeMap;
use std::ops::Bound;
use store::RowChange;
use vnode_rows::index_rows::{
    EntryPosition, EntryValue, IndexAnswer, IndexContent, IndexPage, IndexQuery, RowDeriver,
    WALKED_MAX, entry_key, row_place,
};
use vnode_rows::layout::slot_keys;
use vnode_rows::slots::{Slot, SlotSpan};

fn span(partition: u32) -> SlotSpan {
    SlotSpan { partition: Partition(partition), partitions: 8 }
}

fn query(terms: TermRange, direction: Direction, content: IndexContent) -> IndexQuery {
    let field = IndexField::Declared(IndexNumber(1));
    IndexQuery { field, terms, after: None, direction, content, rows_max: 2 }
}

async fn ask(node: &LoggedNode, spans: &[SlotSpan], query: &IndexQuery) -> IndexAnswer {
    let (available, spans) = (&node.node.available, spans.to_vec());
    let epoch = available.schema.ring_epoch();
    available.index_page(epoch, spans, bucket(), query.clone()).await.expect("memory")
}

/// Returns the rows of all pages of a query.
async fn all_pages(
    node: &LoggedNode,
    spans: &[SlotSpan],
    mut query: IndexQuery,
) -> Vec<(EntryPosition, Option<Bytes>)> {
    let mut rows = Vec::new();
    loop {
        let IndexAnswer::Page(page) = ask(node, spans, &query).await else {
            panic!("the index is ready")
        };
        assert!(page.rows.len() <= query.rows_max);
        let IndexPage { rows: found, end } = page;
        rows.extend(found);
        match end {
            PageEnd::Complete => return rows,
            PageEnd::Through(position) => query.after = Some(position),
        }
    }
}

/// Returns what a scan of the rows says of the index on `$.n`.
fn scan(node: &LoggedNode, spans: &[SlotSpan]) -> BTreeMap<EntryPosition, Bytes> {
    let mut definitions = DefinitionSet::default();
    definitions.insert(definition(1)).expect("the first");
    let deriver = RowDeriver { definitions: &definitions, has_tags: false };
    let asked: Vec<u32> = spans.iter().flat_map(|span| span.slots()).collect();
    let (low, high) = slot_keys(None);
    let mut expected = BTreeMap::new();
    for found in node.trees().snapshot().range(low, high, false) {
        let (tree_key, row) = found.expect("memory");
        let Some((slot, of, key)) = row_place(&tree_key) else { continue };
        if of != bucket() || !asked.contains(&slot.0) {
            continue;
        }
        for (entry, expires_ms) in deriver.entries(Some(&row)) {
            if expires_ms.is_none_or(|at_ms| at_ms > world::unix_ms()) {
                expected.insert((entry.term, key.clone()), row.clone());
            }
        }
    }
    expected
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(60)
    })]

    #[test]
    fn pages_of_a_query_show_each_asked_row_once_and_in_order(
        events in prop::collection::vec(node_event(), 10..60),
        partitions in prop::collection::btree_set(0_u32..8, 1..9),
        bounds in (0_i64..3, 0_i64..3),
        is_descending in any::<bool>(),
        has_records in any::<bool>(),
    ) {
        block_on(async move {
            let mut node = IndexedNode::start();
            for event in events {
                node = node.take(event).await;
            }
            // There or not, dropped or not: at the end it is in force.
            node.settle().await;
            let taken = node.node.store().add_index(&bucket(), definition(1));
            taken.expect("its number is free or its own");
            node.settle().await;
            let spans: Vec<_> = partitions.into_iter().map(span).collect();
            let (low, high) = (Term::int(bounds.0), Term::int(bounds.1));
            let terms = TermRange::between(
                TermKind::Int,
                Bound::Included(&low),
                Bound::Included(&high),
            );
            let direction =
                if is_descending { Direction::Descending } else { Direction::Ascending };
            let content =
                if has_records { IndexContent::Records } else { IndexContent::Entries };
            let query = query(terms.expect("one kind"), direction, content);
            let shown = all_pages(&node.node, &spans, query).await;
            let mut expected: Vec<_> = scan(&node.node, &spans)
                .into_iter()
                .filter(|((term, _), _)| low <= *term && *term <= high)
                .map(|(position, row)| (position, Some(row).filter(|_| has_records)))
                .collect();
            if is_descending {
                expected.reverse();
            }
            assert_eq!(shown, expected);
        });
    }
}

#[tokio::test]
async fn index_answers_only_once_its_build_is_stored() {
    let node = IndexedNode::start();
    let query = query(TermRange::all(TermKind::Int), Direction::Ascending, IndexContent::Entries);
    let spans: Vec<_> = (0..8).map(span).collect();
    assert_eq!(ask(&node.node, &spans, &query).await, IndexAnswer::Absent);
    node.node.store().add_index(&bucket(), definition(1)).expect("taken");
    assert_eq!(ask(&node.node, &spans, &query).await, IndexAnswer::Absent, "not stored yet");
    node.node.run().await;
    assert_eq!(ask(&node.node, &spans, &query).await, IndexAnswer::Building(0, 1_024));
    let store = node.node.store();
    let (id, phase) = store.unfinished_index().expect("memory").expect("it is being built");
    store.write_next_page(&id, phase).expect("taken");
    node.node.run().await;
    assert_eq!(ask(&node.node, &spans, &query).await, IndexAnswer::Building(63, 1_024));
    node.settle().await;
    let empty = IndexPage { rows: Vec::new(), end: PageEnd::Complete };
    assert_eq!(ask(&node.node, &spans, &query).await, IndexAnswer::Page(empty));
    store.drop_index(&bucket(), IndexNumber(1)).expect("taken");
    node.node.run().await;
    assert_eq!(ask(&node.node, &spans, &query).await, IndexAnswer::Absent);
    let tags = IndexQuery { field: IndexField::tag(b"x_int").expect("a field"), ..query };
    assert_eq!(ask(&node.node, &spans, &tags).await, IndexAnswer::Absent);
}

/// Entries of one slot alone, as many as a node has of a ring with many partitions.
#[tokio::test]
async fn page_ends_after_a_bounded_number_of_entries_of_other_slots() {
    let node = IndexedNode::start();
    node.node.store().add_index(&bucket(), definition(1)).expect("taken");
    node.settle().await;
    let count = WALKED_MAX as i64 + 10;
    let entry = |number: i64| {
        let field = IndexField::Declared(IndexNumber(1));
        let entry = IndexEntry { field, term: Term::int(number) };
        let slot = Slot(if number == count - 1 { 1_023 } else { 0 });
        let value = EntryValue { slot, expires_ms: None }.write();
        RowChange::Put(entry_key(&bucket(), &entry, b"k"), value)
    };
    node.node.trees().apply(&mut (0..count).map(entry)).expect("memory");
    for (direction, last) in
        [(Direction::Ascending, WALKED_MAX as i64 - 1), (Direction::Descending, 10)]
    {
        let mut query = query(TermRange::all(TermKind::Int), direction, IndexContent::Entries);
        let through = |page: IndexAnswer| match page {
            IndexAnswer::Page(IndexPage { rows, end }) if rows.is_empty() => end,
            other => panic!("{other:?}"),
        };
        let position = (Term::int(last), Bytes::from_static(b"k"));
        // Slot 0 is in the first partition, and slot 1,023 in the last.
        let end = through(ask(&node.node, &[span(1)], &query).await);
        assert_eq!(end, PageEnd::Through(position.clone()), "{direction:?}");
        query.after = Some(position);
        assert_eq!(through(ask(&node.node, &[span(1)], &query).await), PageEnd::Complete);
    }
    let query = query(TermRange::all(TermKind::Int), Direction::Ascending, IndexContent::Entries);
    let rows = all_pages(&node.node, &[span(7)], query).await;
    assert_eq!(rows, [((Term::int(count - 1), Bytes::from_static(b"k")), None)]);
}

#[tokio::test]
async fn query_of_an_older_ring_for_lost_partitions_is_refused() {
    let node = LoggedNode::start();
    let available = &node.node.available;
    let query = query(TermRange::all(TermKind::Int), Direction::Ascending, IndexContent::Entries);
    // By the new ring another node owns everything.
    let ring = super::test_node::ring_of(1);
    let elsewhere = logic::ring::Ring::initial(
        base::NodeId(9),
        logic::ring::Rack::default(),
        ring.partitions(),
        3,
    );
    let epoch = available.schema.ring_epoch();
    available.schema.replace_all(BTreeMap::new(), BTreeMap::new(), Some(elsewhere));
    let ask = |epoch| available.index_page(epoch, vec![span(1)], bucket(), query.clone());
    let new_epoch = available.schema.ring_epoch();
    assert_eq!(ask(new_epoch).await, Ok(IndexAnswer::Absent));
    assert_eq!(ask(new_epoch - 1).await.map_err(|error| error.reason), Err(Reason::Changed));
    assert!(epoch <= new_epoch);
}
