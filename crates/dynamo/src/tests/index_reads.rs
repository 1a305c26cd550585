//! Index reads: what a page shows equals what a read of every key would show, whichever replica is
//! outdated, is lost, or has not built the index.

use super::index_laws::definition;
use super::list_model::block_on;
use super::logged_node::remote_row;
use super::test_node::{HERE, SentQuestion, TestNode, bucket, ring_of};
use crate::IndexRead;
use crate::message::VnodeQuestion;
use base::index::{IndexContent, IndexQuery, TermSelection};
use base::mutants::MutantList as _;
use base::range::Direction;
use base::reply::IndexRecord;
use base::{
    Body, Bound, Content, Error, IndexRow, Key, NodeId, Properties, Quorum, ReadLevel, Reason,
    Result,
};
use bytes::Bytes;
use indexes::{DefinitionSet, FieldQuery, TermKind};
use logic::coverage::PageEnd;
use proptest::prelude::*;
use runtime::mutants::Mutant;
use runtime::world;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use vnode_rows::index_rows::{
    EntryPosition, IndexAnswer, IndexContent as PageContent, IndexPage, RowDeriver,
};
use vnode_rows::layout::{Row, StoredValue, read_row, write_row};
use vnode_rows::slots::{Slot, SlotSpan};

/// Number of nodes; each partition has three owners.
const NODES: u64 = 5;

/// State of a key: the number in its value, before and after the last write. `None`: no value.
#[derive(Clone, Debug)]
struct KeyState {
    before: Option<i64>,
    after: Option<i64>,
    /// Owner, by its place, that has not got the last write. 3: all have it.
    outdated: usize,
    /// True if this owner has no row at all.
    is_wiped: bool,
}

/// Node under test, and the model of the others.
struct IndexCluster {
    node: TestNode,
    rows: BTreeMap<NodeId, BTreeMap<Key, Row>>,
    building: BTreeSet<NodeId>,
    lost: BTreeSet<NodeId>,
    fetches: usize,
}

fn key(number: usize) -> Key {
    Key::from(format!("k{number:03}"))
}

/// Returns the row after the first or the second write, which replaces the first.
fn row(count: u64, number: Option<i64>) -> Row {
    let content = number.map(|number| Content::plain(format!("{{\"n\":{number}}}").into()));
    let value = StoredValue::new(content.as_ref(), world::unix_ms());
    let first = remote_row(9, 1, value.clone());
    if count == 1 { first } else { remote_row(9, count, value).discard(&first.join()) }
}

fn definitions() -> DefinitionSet {
    let mut definitions = DefinitionSet::default();
    definitions.insert(definition(1)).expect("the first");
    definitions
}

impl IndexCluster {
    async fn start(states: &[KeyState], (building, lost): (u64, u64)) -> IndexCluster {
        let (node, ring) = (TestNode::start(NODES), ring_of(NODES));
        let mut rows: BTreeMap<NodeId, BTreeMap<Key, Row>> = BTreeMap::new();
        for (number, state) in states.iter().enumerate() {
            let partition = Slot::for_key(&bucket(), &key(number)).partition(&ring);
            for (nth, owner) in ring.owners(partition, 3).into_iter().enumerate() {
                let row = match nth == state.outdated {
                    true if state.is_wiped => continue,
                    true => row(1, state.before),
                    false => row(2, state.after),
                };
                rows.entry(owner).or_default().insert(key(number), row);
            }
        }
        for (key, row) in rows.remove(&HERE).unwrap_or_default() {
            node.put_row(&key, &row).await;
        }
        let store = &node.available.vnode_store;
        store.add_index(&bucket(), definition(1)).expect("taken");
        node.sync().await;
        while building != HERE.0
            && let Some((id, phase)) = store.unfinished_index().expect("memory")
        {
            store.write_next_page(&id, phase).expect("taken");
            node.sync().await;
        }
        let (building, lost) = ([NodeId(building)].into(), [NodeId(lost)].into());
        IndexCluster { node, rows, building, lost, fetches: 0 }
    }

    /// Answers all questions that the node under test has sent.
    async fn answer(&mut self) {
        for sent in self.node.take_questions() {
            if self.lost.contains(&sent.to) {
                self.node.answer_error(&sent, &Error::new(Reason::NoQuorum, "it has ended"));
                continue;
            }
            let rows = self.rows.entry(sent.to).or_default();
            match &sent.question {
                VnodeQuestion::Fetch(key_ref) => {
                    self.fetches += 1;
                    self.node.answer_row(&sent, rows.get(&key_ref.key));
                }
                VnodeQuestion::Store { key_ref, row, .. } => {
                    let repaired = read_row(row).expect("it reads");
                    let former = rows.remove(&key_ref.key).unwrap_or_default();
                    rows.insert(key_ref.key.clone(), former.sync(repaired));
                    self.node.answer_stored(&sent);
                }
                VnodeQuestion::Index { spans, query, .. } => {
                    let mut fields = Vec::new();
                    self.page(&sent, spans, query).write(&mut fields);
                    self.node.answer(&sent, &fields);
                }
                other => panic!("an index read does not ask that: {other:?}"),
            }
        }
        self.node.sync().await;
    }

    fn page(
        &self,
        sent: &SentQuestion,
        spans: &[SlotSpan],
        query: &vnode_rows::index_rows::IndexQuery,
    ) -> IndexAnswer {
        if self.building.contains(&sent.to) {
            return IndexAnswer::Building(3, 1_024);
        }
        let deriver = RowDeriver { definitions: &definitions(), has_tags: false };
        let mut entries: Vec<(EntryPosition, Option<Bytes>)> = Vec::new();
        for (key, row) in &self.rows[&sent.to] {
            let slot = Slot::for_key(&bucket(), key).0;
            if !spans.iter().any(|span| span.slots().contains(&slot)) {
                continue;
            }
            let record = (query.content == PageContent::Records).then(|| write_row(row));
            let found =
                deriver.entries_of(row).into_keys().filter(|it| query.terms.contains(&it.term));
            entries.extend(found.map(|it| ((it.term, key.clone()), record.clone())));
        }
        entries.sort();
        if query.direction == Direction::Descending {
            entries.reverse();
        }
        let follows = |(position, _): &(EntryPosition, _)| match (&query.after, query.direction) {
            (None, _) => true,
            (Some(after), Direction::Ascending) => position > after,
            (Some(after), Direction::Descending) => position < after,
        };
        entries.retain(follows);
        let has_more = entries.len() > query.rows_max;
        entries.truncate(query.rows_max);
        let last = entries.last().filter(|_| has_more).map(|(position, _)| position.clone());
        let end = last.map_or(PageEnd::Complete, PageEnd::Through);
        IndexAnswer::Page(IndexPage { rows: entries, end })
    }

    /// Asks the node under test for a page.
    async fn query(&mut self, query: &IndexQuery) -> Result<base::IndexPage> {
        let definitions = definitions();
        let definition = definitions.iter().next().expect("one");
        let field = FieldQuery::new(&bucket(), definition.field(), TermKind::Int, query)?;
        let read = IndexRead {
            bucket: bucket(),
            properties: Properties::available().into(),
            field,
            definitions,
            query: query.clone(),
            level: ReadLevel::Consistent,
        };
        let available = self.node.available.clone();
        let mut page = pin!(available.read_index(read));
        loop {
            tokio::select! {
                biased;
                reply = &mut page => match reply?.body {
                    Body::IndexPage(page) => return Ok(*page),
                    other => panic!("a page, not {other:?}"),
                },
                () = tokio::task::yield_now() => self.answer().await,
            }
        }
    }

    /// Returns the rows of all pages.
    async fn all_pages(&mut self, mut query: IndexQuery) -> Result<Vec<IndexRow>> {
        let mut rows = Vec::new();
        loop {
            let page = self.query(&query).await?;
            assert!(query.rows_max.is_none_or(|most| page.rows.len() <= most));
            assert!(!page.is_partial || query.allows_partial);
            rows.extend(page.rows);
            query.after = page.after;
            if query.after.is_none() {
                return Ok(rows);
            }
        }
    }
}

fn all_terms() -> IndexQuery {
    IndexQuery { index: "i1".into(), want: IndexContent::Terms, ..IndexQuery::default() }
}

fn key_state() -> impl Strategy<Value = KeyState> {
    let number = proptest::option::of(0_i64..6);
    (number.clone(), number, 0..4_usize, any::<bool>()).prop_map(
        |(before, after, outdated, is_wiped)| KeyState { before, after, outdated, is_wiped },
    )
}

/// Returns the terms and keys that these states show between two terms.
fn expected(states: &[KeyState], (low, high): (i64, i64)) -> Vec<(String, Key)> {
    let shown = states.iter().enumerate().filter_map(|(nth, state)| Some((state.after?, key(nth))));
    let mut shown: Vec<_> = shown.filter(|(term, _)| low <= *term && *term < high).collect();
    shown.sort();
    shown.into_iter().map(|(term, key)| (term.to_string(), key)).collect()
}

fn shown(row: &IndexRow) -> (String, Key) {
    let term = row.term.as_ref().expect("terms are asked for");
    (String::from_utf8(term.to_vec()).expect("decimal"), row.key.clone())
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(150)
    })]

    #[test]
    fn pages_show_what_a_read_of_every_key_would_show(
        states in proptest::collection::vec(key_state(), 0..20),
        bounds in (0_i64..6, 0_i64..7),
        rows_max in proptest::option::of(1..5_usize),
        is_descending in any::<bool>(),
        has_records in any::<bool>(),
        // 0: no node.
        building in 0..=NODES,
        lost in prop_oneof![Just(0), 2..=NODES],
    ) {
        block_on(async move {
            let mut cluster = IndexCluster::start(&states, (building, lost)).await;
            let [low, high] = [bounds.0, bounds.1].map(|it| Bytes::from(it.to_string()));
            let direction =
                if is_descending { Direction::Descending } else { Direction::Ascending };
            let query = IndexQuery {
                terms: TermSelection::Between(Bound::Included(low), Bound::Excluded(high)),
                want: if has_records { IndexContent::Records } else { IndexContent::Terms },
                direction,
                rows_max,
                ..all_terms()
            };
            let rows = match cluster.all_pages(query).await {
                // One of three owners is down, and one has not built the index.
                Err(error) if building > 0 && lost > 0 && building != lost => {
                    assert_eq!(error.reason, Reason::IndexBuilding, "{error}");
                    return;
                }
                rows => rows.expect("enough nodes answer"),
            };
            let mut found: Vec<_> = rows.iter().map(shown).collect();
            if is_descending {
                found.reverse();
            }
            assert_eq!(found, expected(&states, bounds));
            for row in &rows {
                let value = row.record.as_ref().map(|record| match record {
                    IndexRecord::Siblings(siblings) => siblings.values[0].content.value.clone(),
                    IndexRecord::Row(row) => panic!("the bucket is available: {row:?}"),
                });
                let expected = format!("{{\"n\":{}}}", shown(row).0);
                assert_eq!(value, has_records.then(|| Bytes::from(expected)));
            }
        });
    }
}

#[test]
fn only_keys_on_which_replicas_differ_are_read_and_they_are_repaired() {
    let state = |outdated| KeyState { before: Some(1), after: Some(2), outdated, is_wiped: false };
    block_on(async {
        let mut cluster = IndexCluster::start(&vec![state(3); 20], (0, 0)).await;
        assert_eq!(cluster.all_pages(all_terms()).await.map(|rows| rows.len()), Ok(20));
        assert_eq!(cluster.fetches, 0, "all replicas agree");
        let states: Vec<_> = (0..20).map(|number| state(number % 4)).collect();
        let mut cluster = IndexCluster::start(&states, (0, 0)).await;
        for _ in 0..2 {
            let rows = cluster.all_pages(all_terms()).await.expect("all are up");
            assert_eq!(rows.iter().map(shown).collect::<Vec<_>>(), expected(&states, (0, 9)));
        }
        let fetches = std::mem::take(&mut cluster.fetches);
        assert!(fetches > 0 && fetches < 60, "{fetches}");
        assert_eq!(cluster.all_pages(all_terms()).await.map(|rows| rows.len()), Ok(20));
        assert_eq!(cluster.fetches, 0, "read repair followed");
    });
}

#[test]
fn entries_on_which_replicas_differ_are_wrong_without_a_read() {
    let states: Vec<_> = (0..20)
        .map(|number| KeyState {
            before: Some(1),
            after: Some(2),
            outdated: number % 3,
            is_wiped: false,
        })
        .collect();
    let found = || {
        block_on(async {
            let mut cluster = IndexCluster::start(&states, (0, 0)).await;
            cluster.all_pages(all_terms()).await.expect("all are up").len()
        })
    };
    assert_eq!(found(), 20);
    let unverified = Mutant::ShowUnverifiedEntries.while_active(found);
    assert!(unverified > 20, "the rule is what makes the difference");
}

/// A fallback of the lost owner has nothing: with it and the outdated owner alone, the key would
/// not be found.
#[test]
fn keys_are_verified_by_as_many_owners_as_answered_for_entries() {
    let states: Vec<_> = (0..30)
        .map(|number| KeyState {
            before: None,
            after: Some(0),
            outdated: number % 3,
            is_wiped: false,
        })
        .collect();
    block_on(async {
        let mut cluster = IndexCluster::start(&states, (2, 0)).await;
        for lost in 3..=NODES {
            cluster.lost = [NodeId(lost)].into();
            match cluster.all_pages(all_terms()).await {
                Ok(rows) => assert_eq!(rows.len(), states.len(), "without node {lost}"),
                Err(error) => assert_eq!(error.reason, Reason::IndexBuilding, "{error}"),
            }
        }
    });
}

#[test]
fn partitions_without_enough_replicas_are_refused_or_left_out_as_the_query_says() {
    let state = KeyState { before: None, after: Some(2), outdated: 3, is_wiped: false };
    block_on(async {
        let mut cluster = IndexCluster::start(&vec![state; 40], (0, 0)).await;
        // A node that has just started would wait for the others.
        assert_eq!(cluster.all_pages(all_terms()).await.map(|rows| rows.len()), Ok(40));
        (2..=NODES).for_each(|node| cluster.node.unlink(node));
        // The node has not just started.
        cluster.node.pass_ms(3_000);
        let refused = cluster.query(&all_terms()).await.expect_err("this node is alone");
        assert_eq!(refused.reason, Reason::ReadQuorumUnmet);
        assert!(refused.text().contains("partition"), "{refused}");
        let query = IndexQuery { allows_partial: true, ..all_terms() };
        let page = cluster.query(&query).await.expect("what there is");
        assert!(page.is_partial && !page.rows.is_empty() && page.rows.len() < 40);
        let query = IndexQuery { r: Some(Quorum::Number(4)), ..all_terms() };
        let refused = cluster.query(&query).await.expect_err("there are three copies");
        assert_eq!(refused.reason, Reason::Malformed);
    });
}
