//! Model of the other nodes for coverage reads: each has the keys that it owns by the model's ring,
//! and refuses questions that were planned by an older one.

use super::test_node::{HERE, SentQuestion, TestNode, bucket, ring_of, row};
use crate::coverage_plans::CoverageNeeds;
use crate::coverage_read::CoverageRead;
use crate::list::ListedNames;
use crate::message::VnodeQuestion;
use crate::reply;
use base::{Error, Key, NodeId, Partition, Reason, Result};
use logic::ring::{Rack, Ring, RingChangeRequest, plan};
use runtime::mutants::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use store::RowChange;
use vnode_rows::layout::{row_key, write_row};
use vnode_rows::slots::{Slot, SlotSpan};

/// Change of the world during a read.
#[derive(Clone, Debug)]
pub(super) enum ReadEvent {
    /// A node ends.
    Lose(u64),
    /// The ring changes. `is_known`: the reading node has heard of it, and has removed the rows
    /// that it no longer keeps.
    Change {
        /// Kind of the change, and a node.
        change: (u8, u64),
        is_known: bool,
    },
}

/// Node under test, and the model of the others.
pub(super) struct ModelCluster {
    pub(super) node: TestNode,
    pub(super) keys: BTreeSet<Key>,
    /// Owners that lack a key.
    pub(super) missed: BTreeMap<Key, NodeId>,
    /// Rings by their epochs; the last one is in force.
    rings: BTreeMap<u64, Ring>,
    lost: BTreeSet<NodeId>,
    /// Lost nodes that were asked: a read does not ask them again.
    noticed: BTreeSet<NodeId>,
    /// True if fallbacks may be asked, too.
    pub(super) asks_fallbacks: bool,
    /// Events to come, each after so many questions and rows.
    pub(super) events: Vec<(usize, ReadEvent)>,
    pub(super) steps: usize,
}

/// Returns a request for a change of a ring of nodes 1 to 6.
fn request((kind, node): (u8, u64)) -> RingChangeRequest {
    let (node, rack) = (NodeId(node), Rack::default());
    match kind % 5 {
        0 => RingChangeRequest::Join { node: NodeId(6), rack },
        1 => RingChangeRequest::Leave { node },
        2 => RingChangeRequest::Replace { old: node, new: NodeId(6), rack },
        3 => RingChangeRequest::Double,
        _ => RingChangeRequest::Halve,
    }
}

impl ModelCluster {
    /// Starts a node of a ring of nodes 1 to `nodes`.
    pub(super) fn start(nodes: u64, keys: BTreeSet<Key>) -> ModelCluster {
        let (node, ring) = (TestNode::start(nodes), ring_of(nodes));
        let cluster = ModelCluster {
            node,
            keys,
            missed: BTreeMap::new(),
            rings: BTreeMap::from([(ring.epoch(), ring)]),
            lost: BTreeSet::new(),
            noticed: BTreeSet::new(),
            asks_fallbacks: false,
            events: Vec::new(),
            steps: 0,
        };
        cluster.store_local(true);
        cluster
    }

    /// Returns the ring in force at the other nodes.
    fn ring(&self) -> &Ring {
        self.rings.values().next_back().expect("there is a first")
    }

    /// Returns true if a node has a key.
    fn has(&self, node: NodeId, key: &Key) -> bool {
        let ring = self.ring();
        let partition = Slot::for_key(&bucket(), key).partition(ring);
        ring.owners(partition, 3).contains(&node) && self.missed.get(key) != Some(&node)
    }

    /// Stores the keys that the node under test keeps. `removes`: and removes the others.
    pub(super) fn store_local(&self, removes: bool) {
        let value = write_row(&row(2, 1, "v"));
        let change = |key: &Key| {
            let row_key = row_key(&bucket(), key);
            match self.has(HERE, key) {
                true => Some(RowChange::Put(row_key, value.clone())),
                false => removes.then_some(RowChange::Remove(row_key)),
            }
        };
        let mut changes = self.keys.iter().filter_map(change);
        self.node.available.trees.apply(&mut changes).expect("memory");
    }

    /// Applies the events that are due. `between`: no page is being read.
    fn apply_events(&mut self, between: bool) {
        let steps = self.steps;
        let is_due = |(at, event): &(usize, ReadEvent)| {
            *at <= steps && (between || !matches!(event, ReadEvent::Change { is_known: true, .. }))
        };
        while let Some(at) = self.events.iter().position(is_due) {
            match self.events.remove(at).1 {
                ReadEvent::Lose(node) => drop(self.lost.insert(NodeId(node))),
                ReadEvent::Change { change, is_known } => self.change_ring(change, is_known),
            }
        }
    }

    fn change_ring(&mut self, change: (u8, u64), is_known: bool) {
        let planned = plan(self.ring(), &[request(change)], 3, &BTreeSet::new());
        let planned = planned.ok().and_then(|it| self.ring().commit(&it).ok());
        let Some(mut ring) = planned else { return };
        ring = ring.mark_idle_arrived(&[3]);
        for partition in (0..ring.partitions()).map(Partition) {
            ring = ring.arrive(partition, &[]).unwrap_or(ring);
        }
        if is_known {
            self.node.available.schema.set_ring(Some(ring.clone()));
        }
        self.rings.insert(ring.epoch(), ring);
        self.store_local(is_known);
    }

    /// Answers all questions that the node under test has sent.
    fn answer(&mut self) {
        for sent in self.node.take_questions() {
            self.steps += 1;
            self.apply_events(false);
            if self.lost.contains(&sent.to) {
                let is_read = matches!(sent.question, VnodeQuestion::Keys { .. });
                assert!(!is_read || self.noticed.insert(sent.to), "{} is lost", sent.to);
                self.node.answer_error(&sent, &Error::new(Reason::NoQuorum, "it has ended"));
                continue;
            }
            match &sent.question {
                VnodeQuestion::Ring => self.node.answer(&sent, &self.ring().encode()),
                VnodeQuestion::Keys { spans, after, rows_max, .. } => {
                    self.answer_keys(&sent, spans, after.as_ref(), *rows_max);
                }
                other => panic!("a read asks for keys and rings, not {other:?}"),
            }
        }
    }

    fn answer_keys(
        &self,
        sent: &SentQuestion,
        spans: &[SlotSpan],
        after: Option<&Key>,
        rows_max: usize,
    ) {
        let keeps = |ring: &Ring, span: &SlotSpan| {
            span.in_ring(ring).all(|partition| ring.owners(partition, 3).contains(&sent.to))
        };
        let kept_all = |ring: &Ring| spans.iter().all(|span| keeps(ring, span));
        let is_by_that_ring = self.rings.get(&sent.epoch).is_some_and(kept_all);
        let is_mutant = Mutant::SendNewestRingEpoch.is_active();
        assert!(is_by_that_ring || self.asks_fallbacks || is_mutant, "only owners are asked");
        if sent.epoch < self.ring().epoch() && !kept_all(self.ring()) {
            self.node.answer_error(sent, &Error::new(Reason::Changed, "it has moved"));
            return;
        }
        let is_asked = |key: &Key| {
            let slot = Slot::for_key(&bucket(), key).0;
            spans.iter().any(|span| span.slots().contains(&slot))
        };
        let follows = |key: &&Key| after.is_none_or(|after| *key > after);
        let names = self.keys.iter().filter(follows);
        let mut names = names.filter(|key| is_asked(key) && self.has(sent.to, key)).cloned();
        let page: Vec<_> = names.by_ref().take(rows_max).collect();
        let mut fields = Vec::new();
        reply::put_names(&page, names.next().is_some(), &mut fields);
        self.node.answer(sent, &fields);
    }

    /// Begins another read, which may ask lost nodes again.
    pub(super) fn begin_read(&mut self) {
        self.noticed.clear();
    }

    /// Runs a future of the node under test, and answers its questions.
    pub(super) async fn drive<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                output = &mut future => return output,
                () = tokio::task::yield_now() => self.answer(),
            }
        }
    }

    /// Reads all keys, in pages of up to `rows_max` rows. Returns them with their agreement.
    pub(super) async fn read(
        &mut self,
        needs: CoverageNeeds,
        rows_max: usize,
    ) -> Result<Vec<(Key, bool)>> {
        let names = ListedNames::Keys(bucket());
        let mut read = CoverageRead::plan(&self.node.available, names, needs, None)?;
        let mut found = Vec::new();
        while let Some(row) = self.drive(read.next(rows_max)).await? {
            found.push((row.position, row.is_agreed));
            self.steps += 1;
            self.apply_events(true);
        }
        Ok(found)
    }
}

/// Returns this many keys.
pub(super) fn keys(count: usize) -> BTreeSet<Key> {
    (0..count).map(|number| Key::from(format!("k{number:04}"))).collect()
}

/// Runs a test of a model cluster.
pub(super) fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test)
}
