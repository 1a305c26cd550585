//! Laws of indexes: whatever changes rows and indexes, and wherever a crash cuts the log, the
//! entries are those of the rows.

use super::logged_node::{LoggedNode, block_on, policy, remote_row, write};
use crate::IndexMends;
use crate::index_upkeep::{BuildPage, ScrubCursor};
use crate::vnode_ops::{KeyRef, SeenVersions};
use base::mutants::MutantList;
use base::{BucketName, Content, Headers};
use bytes::Bytes;
use indexes::{IndexDefinition, IndexName, IndexNumber, JsonPath, ValueFormat, ValueType};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use runtime::mutants::Mutant;
use runtime::world;
use std::ops::Bound;
use store::Trees;
use vnode_rows::hash_trees::hash;
use vnode_rows::index_rows::{IndexDifference, IndexId, differences, entries_prefix};
use vnode_rows::layout::StoredValue;

/// Something that happens to a node with indexes.
#[derive(Clone, Debug)]
pub(super) enum NodeEvent {
    /// A write of this content, in place of what the node has or beside it.
    Write(u8, ValueKind, bool),
    /// The row of another node, its write of this count.
    Merge(u8, ValueKind, u64),
    Expire(u8),
    Reap(u8),
    HandOff(u8),
    AddIndex(u32),
    AddTags,
    DropIndex(u32),
    /// A page of a build or a removal.
    Work,
    /// First half of a page of a build: it is read.
    ReadPage,
    /// Second half: it is written, if it was read.
    WritePage,
    Apply,
    /// A millisecond passes.
    Pass,
    Restart,
}

/// Kind of a value, with a number in it.
#[derive(Clone, Debug)]
pub(super) enum ValueKind {
    Document(u64),
    Tagged(u64),
    Expiring(u64),
    Typed(u64),
    Text,
    Tombstone,
}

fn value_kind() -> impl Strategy<Value = ValueKind> {
    let number = 0_u64..3;
    prop_oneof![
        4 => number.clone().prop_map(ValueKind::Document),
        2 => number.clone().prop_map(ValueKind::Tagged),
        2 => number.clone().prop_map(ValueKind::Expiring),
        1 => number.prop_map(ValueKind::Typed),
        1 => Just(ValueKind::Text),
        2 => Just(ValueKind::Tombstone),
    ]
}

pub(super) fn node_event() -> impl Strategy<Value = NodeEvent> {
    let (key, number) = (0_u8..6, 1_u32..4);
    prop_oneof![
        8 => (key.clone(), value_kind(), any::<bool>())
            .prop_map(|(key, value, overwrites)| NodeEvent::Write(key, value, overwrites)),
        4 => (key.clone(), value_kind(), 1_u64..9)
            .prop_map(|(key, value, count)| NodeEvent::Merge(key, value, count)),
        1 => key.clone().prop_map(NodeEvent::Expire),
        2 => key.clone().prop_map(NodeEvent::Reap),
        1 => key.prop_map(NodeEvent::HandOff),
        2 => number.clone().prop_map(NodeEvent::AddIndex),
        1 => Just(NodeEvent::AddTags),
        1 => number.prop_map(NodeEvent::DropIndex),
        12 => Just(NodeEvent::Work),
        6 => Just(NodeEvent::ReadPage),
        6 => Just(NodeEvent::WritePage),
        4 => Just(NodeEvent::Apply),
        2 => Just(NodeEvent::Pass),
        1 => Just(NodeEvent::Restart),
    ]
}

/// Returns one of two buckets; the first has declared indexes.
fn key_ref(number: u8) -> KeyRef {
    let name = if number < 5 { "b" } else { "c" };
    let bucket = BucketName::new(BucketName::AVAILABLE, name).expect("a name");
    KeyRef::new(bucket, vec![b'k', number].into())
}

fn value(kind: &ValueKind) -> StoredValue {
    let now_ms = world::unix_ms();
    let document = |number: u64| format!(r#"{{"n":{number},"t":["a","{number}"]}}"#);
    let (number, tags, text) = match kind {
        ValueKind::Document(number) | ValueKind::Expiring(number) => (*number, false, true),
        ValueKind::Tagged(number) => (*number, true, true),
        ValueKind::Typed(number) => {
            return StoredValue::typed(document(*number).into(), now_ms);
        }
        ValueKind::Text => (0, false, false),
        ValueKind::Tombstone => return StoredValue::new(None, now_ms),
    };
    let tag = |name: &'static str, text: String| (Bytes::from(name), Bytes::from(text));
    let indexes = match tags {
        true => vec![tag("x_int", number.to_string()), tag("y_bin", "same".into())],
        false => Vec::new(),
    };
    let value = if text { document(number) } else { "no document".into() };
    let headers = Headers { indexes, ..Headers::default() };
    let value = StoredValue::new(Some(&Content { value: value.into(), headers }), now_ms);
    match kind {
        // An expired value stays until something removes it.
        ValueKind::Expiring(number) => value.with_expiry(now_ms + number),
        _ => value,
    }
}

/// Returns a definition; two numbers have the same path and type, and names of their own.
pub(super) fn definition(number: u32) -> IndexDefinition {
    let (path, value_type) = match number {
        2 => ("$.t[*]", ValueType::String),
        _ => ("$.n", ValueType::Int),
    };
    IndexDefinition {
        number: IndexNumber(number),
        name: IndexName::parse(&format!("i{number}")).expect("a name"),
        path: JsonPath::parse(path).expect("a path"),
        value_type,
        format: ValueFormat::Json,
        is_unique: false,
        is_strict: false,
    }
}

/// Node with its indexes, and a page of a build between its halves.
pub(super) struct IndexedNode {
    pub(super) node: LoggedNode,
    incarnation: u64,
    page: Option<(IndexId, BuildPage)>,
}

impl IndexedNode {
    pub(super) fn start() -> IndexedNode {
        IndexedNode { node: LoggedNode::start(), incarnation: 1, page: None }
    }

    fn work(&self) -> bool {
        let store = self.node.store();
        let Some((id, phase)) = store.unfinished_index().expect("memory") else { return false };
        store.write_next_page(&id, phase).expect("taken");
        true
    }

    pub(super) async fn take(mut self, event: NodeEvent) -> IndexedNode {
        let store = self.node.store().clone();
        let bucket = key_ref(0).bucket;
        match event {
            NodeEvent::Write(key, kind, overwrites) => {
                let seen =
                    if overwrites { SeenVersions::Everything } else { SeenVersions::Nothing };
                write(&store, &key_ref(key), value(&kind), seen).expect("taken");
            }
            NodeEvent::Merge(key, kind, count) => {
                let row = remote_row(2, count, value(&kind));
                store.merge(&key_ref(key), row, policy(), None).expect("taken");
            }
            NodeEvent::Expire(key) => store.expire(&key_ref(key), policy()).expect("taken"),
            NodeEvent::Reap(key) => self.reap(&key_ref(key)).await,
            NodeEvent::HandOff(key) => {
                self.node.run().await;
                if let Some(row) = store.read(&key_ref(key)).expect("memory") {
                    let rows = vec![(key_ref(key).row_key(), row)];
                    self.node.node.available.remove_rows(rows).expect("taken");
                }
            }
            // Refused while an index of this number is being dropped.
            NodeEvent::AddIndex(number) => drop(store.add_index(&bucket, definition(number))),
            NodeEvent::AddTags => {
                store.add_tag_index().expect("taken");
            }
            NodeEvent::DropIndex(number) => {
                store.drop_index(&bucket, IndexNumber(number)).expect("taken");
            }
            NodeEvent::Work => {
                self.work();
            }
            NodeEvent::ReadPage => {
                let unfinished = store.unfinished_index().expect("memory");
                self.page = unfinished.and_then(|(id, _)| {
                    let page = store.read_build_page(&id).expect("memory")?;
                    Some((id, page))
                });
            }
            NodeEvent::WritePage => {
                if let Some((id, page)) = self.page.take() {
                    store.write_build_page(&id, page).expect("taken");
                }
            }
            NodeEvent::Apply => self.node.run().await,
            NodeEvent::Pass => self.node.node.pass_ms(1),
            NodeEvent::Restart => {
                self.incarnation += 1;
                self.node = self.node.restart(self.incarnation);
                self.page = None;
            }
        }
        self
    }

    async fn reap(&self, key_ref: &KeyRef) {
        self.node.run().await;
        let Some(row) = self.node.store().read(key_ref).expect("memory") else { return };
        let digest = hash(&key_ref.row_key(), &row).digest;
        let available = &self.node.node.available;
        let rows = vec![(key_ref.clone(), digest)];
        let reaped = available.check_tombstones(rows, available.schema.ring_epoch(), true);
        self.node.during(reaped).await.expect("no faults");
    }

    /// Completes all builds and removals.
    pub(super) async fn settle(&self) {
        self.node.run().await;
        while self.work() {
            self.node.run().await;
        }
    }

    /// Scrubs all rows and entries once.
    pub(super) fn scrub(&self) -> IndexMends {
        let (mut mends, mut next) = (IndexMends::default(), Some(ScrubCursor::default()));
        while let Some(cursor) = next {
            let page = self.node.store().scrub_page(cursor).expect("memory");
            mends.add(page.mends);
            next = page.next;
        }
        mends
    }
}

pub(super) fn differences_in(trees: &dyn Trees) -> Vec<IndexDifference> {
    differences(&*trees.snapshot()).expect("memory")
}

/// Runs a history; returns the number of entries at its end, and the differences after any record
/// of the log.
async fn history(events: Vec<NodeEvent>) -> (usize, Vec<IndexDifference>) {
    let mut node = IndexedNode::start();
    let mut found = Vec::new();
    for event in events {
        node = node.take(event).await;
        // Between any two events, whatever is logged and not applied yet.
        if node.scrub() != IndexMends::default() {
            found.push(IndexDifference::Stale(Bytes::from_static(b"the scrub mended something")));
        }
    }
    node.settle().await;
    node.node.check_each_crash(|trees| found.extend(differences_in(trees)));
    let trees = node.node.trees();
    found.extend(differences_in(trees));
    let prefix = entries_prefix();
    let snapshot = trees.snapshot();
    let low = Bound::Included(Bytes::from(prefix.clone()));
    let entries = snapshot.range(low, Bound::Unbounded, false);
    let is_entry = |row: &store::TreeRow| row.0.starts_with(&prefix);
    (entries.filter(|row| row.as_ref().is_ok_and(is_entry)).count(), found)
}

fn events() -> impl Strategy<Value = Vec<NodeEvent>> {
    prop::collection::vec(node_event(), 10..60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(150)
    })]

    #[test]
    fn entries_are_those_of_the_rows_after_every_record_of_the_log(events in events()) {
        let (_, found) = block_on(history(events));
        prop_assert!(found.is_empty(), "{found:?}");
    }
}

/// Returns the first of some histories in which the judge notices a broken rule.
fn detects(mutant: Mutant) -> Option<usize> {
    let mut runner = TestRunner::deterministic();
    (0..60).find(|_| {
        let events = events().new_tree(&mut runner).expect("a history").current();
        let (_, found) = mutant.while_active(|| block_on(history(events)));
        !found.is_empty()
    })
}

#[test]
fn mutants_of_indexes_are_detected() {
    for mutant in [Mutant::LogEntriesApart, Mutant::KeepStaleEntries] {
        assert!(detects(mutant).is_some(), "{mutant:?} is not noticed");
    }
}

/// Builds an index while a row changes between the halves of each page.
async fn build_beside_changes() -> Vec<IndexDifference> {
    let mut node = IndexedNode::start();
    let write = |number| NodeEvent::Write(1, ValueKind::Document(number), true);
    for event in [write(0), NodeEvent::AddIndex(1), NodeEvent::Apply] {
        node = node.take(event).await;
    }
    for number in 1.. {
        node = node.take(NodeEvent::ReadPage).await;
        if node.page.is_none() {
            break;
        }
        for event in [write(number), NodeEvent::WritePage, NodeEvent::Apply] {
            node = node.take(event).await;
        }
    }
    differences_in(node.node.trees())
}

#[test]
fn build_adds_the_entries_of_rows_that_change_beside_it() {
    assert_eq!(block_on(build_beside_changes()), []);
    let found = Mutant::BuildFromSnapshotAlone.while_active(|| block_on(build_beside_changes()));
    assert!(!found.is_empty(), "nobody notices");
}

#[test]
fn histories_have_entries_of_every_kind_of_index() {
    let mut runner = TestRunner::deterministic();
    let counts: Vec<_> = (0..20)
        .map(|_| {
            let events = events().new_tree(&mut runner).expect("a history").current();
            block_on(history(events)).0
        })
        .collect();
    assert!(counts.iter().filter(|count| **count > 0).count() > 8, "{counts:?}");
}
