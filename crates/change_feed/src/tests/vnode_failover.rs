//! Model of two nodes that write, are compared and forget, and of a reader that changes between
//! them: it misses nothing that the node at which it arrives has.

use crate::{Bridge, BridgeList, PartPlace, VnodePosition};
use proptest::prelude::*;
use std::collections::BTreeMap;

const KEYS: u32 = 6;

#[derive(Clone, Debug)]
enum ModelStep {
    /// A client writes a key at one node.
    Write(usize, u32),
    /// The other node gets a key of this one, as by a write or a read repair.
    Repair(usize, u32),
    /// A comparison begins.
    Begin,
    /// The comparison repairs a key, on both sides.
    Compare(u32),
    /// It repairs the keys that are left, and ends.
    End,
    /// Retention removes what was replaced, up to the share of the feed in percent.
    Forget(usize, usize),
    /// The reader gets a page of so many entries.
    Read(usize),
    /// The reader goes on at the other node.
    Switch,
}

fn step() -> impl Strategy<Value = ModelStep> {
    let (node, key) = (0..2_usize, 0..KEYS);
    prop_oneof![
        8 => (node.clone(), key.clone()).prop_map(|(node, key)| ModelStep::Write(node, key)),
        2 => (node.clone(), key.clone()).prop_map(|(node, key)| ModelStep::Repair(node, key)),
        3 => Just(ModelStep::Begin),
        6 => key.prop_map(ModelStep::Compare),
        3 => Just(ModelStep::End),
        1 => (node, 0..100_usize).prop_map(|(node, percent)| ModelStep::Forget(node, percent)),
        8 => (1..6_usize).prop_map(ModelStep::Read),
        2 => Just(ModelStep::Switch),
    ]
}

/// Node: the versions of its keys, and its feed.
#[derive(Default)]
struct ModelNode {
    rows: BTreeMap<u32, u64>,
    feed: Vec<(VnodePosition, u32, u64)>,
    batch: u64,
    /// Bridges from the other node.
    bridges: BridgeList,
}

impl ModelNode {
    /// Takes a version of a key, unless it has a newer one.
    fn merge(&mut self, key: u32, version: u64) {
        if version > self.rows.get(&key).copied().unwrap_or_default() {
            self.rows.insert(key, version);
            self.batch += 1;
            self.feed.push((self.position(), key, version));
        }
    }

    fn position(&self) -> VnodePosition {
        VnodePosition { life: 1, batch: self.batch, ordinal: 0 }
    }
}

struct FeedModel {
    nodes: [ModelNode; 2],
    versions: u64,
    /// Positions of both nodes at the beginning of the comparison, and the keys to compare.
    comparison: Option<([VnodePosition; 2], Vec<u32>)>,
    /// True if `own` of a bridge is noted at the end of the comparison: the mistake.
    notes_end: bool,
    /// Node that is read, the reader's place, and the last event of each key.
    reader: (usize, PartPlace, BTreeMap<u32, u64>),
}

impl FeedModel {
    fn new(notes_end: bool) -> FeedModel {
        let reader = (0, PartPlace::beginning(false), BTreeMap::new());
        FeedModel { nodes: Default::default(), versions: 0, comparison: None, notes_end, reader }
    }

    fn take(&mut self, step: &ModelStep) {
        match *step {
            ModelStep::Write(node, key) => {
                self.versions += 1;
                self.nodes[node].merge(key, self.versions);
            }
            ModelStep::Repair(from, key) => {
                let version = self.nodes[from].rows.get(&key).copied().unwrap_or_default();
                self.nodes[1 - from].merge(key, version);
            }
            ModelStep::Begin => {
                let begun = [self.nodes[0].position(), self.nodes[1].position()];
                self.comparison.get_or_insert((begun, (0..KEYS).collect()));
            }
            ModelStep::Compare(key) => self.compare(key),
            ModelStep::End => self.end(),
            ModelStep::Forget(node, percent) => {
                let ModelNode { rows, feed, .. } = &mut self.nodes[node];
                let end = feed.len() * percent / 100;
                let mut at = 0;
                feed.retain(|(_, key, version)| {
                    at += 1;
                    at > end || rows.get(key) == Some(version)
                });
            }
            ModelStep::Read(entries) => self.read(entries),
            ModelStep::Switch => {
                let (node, place, _) = &mut self.reader;
                *node = 1 - *node;
                let is_known = place.covered > VnodePosition::START;
                let own = self.nodes[*node].bridges.behind(place.covered).filter(|_| is_known);
                *place = own.map_or(PartPlace::beginning(true), PartPlace::behind_bridge);
            }
        }
    }

    fn compare(&mut self, key: u32) {
        let Some((_, left)) = &mut self.comparison else { return };
        if !left.contains(&key) {
            return;
        }
        left.retain(|it| *it != key);
        let version = self.nodes.iter().filter_map(|node| node.rows.get(&key)).max().copied();
        self.nodes.iter_mut().for_each(|node| node.merge(key, version.unwrap_or_default()));
    }

    fn end(&mut self) {
        let Some((_, left)) = self.comparison.clone() else { return };
        left.into_iter().for_each(|key| self.compare(key));
        let Some((begun, _)) = self.comparison.take() else { return };
        let ended = [self.nodes[0].position(), self.nodes[1].position()];
        for node in 0..2 {
            let own = if self.notes_end { ended[node] } else { begun[node] };
            self.nodes[node].bridges.push(Bridge { peer: ended[1 - node], own });
        }
    }

    fn read(&mut self, entries: usize) {
        let (node, place, events) = &mut self.reader;
        let ModelNode { rows, feed, batch, .. } = &self.nodes[*node];
        let level = VnodePosition { life: 1, batch: *batch, ordinal: 0 };
        let mut behind = feed.iter().filter(|(at, ..)| *at > place.position);
        let mut end = level;
        for (position, key, version) in behind.by_ref().take(entries) {
            end = *position;
            // What was replaced is left out.
            if rows.get(key) == Some(version) {
                events.insert(*key, *version);
            }
        }
        let is_level = behind.next().is_none();
        let end = if is_level { level } else { end };
        *place = place.after_page(end, level, is_level);
    }

    /// Returns a key whose last event is older than the row of the node, once all is read.
    fn missed(&mut self) -> Option<u32> {
        self.read(usize::MAX);
        let (node, _, events) = &self.reader;
        let mut rows = self.nodes[*node].rows.iter();
        let last = |key: &u32| events.get(key).copied().unwrap_or_default();
        rows.find(|(key, version)| last(key) < **version).map(|(key, _)| *key)
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(4_000)
    })]

    #[test]
    fn reader_misses_nothing_wherever_it_goes_on(
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let mut model = FeedModel::new(false);
        for (number, step) in steps.iter().enumerate() {
            model.take(step);
            if number % 10 == 9 {
                prop_assert_eq!(model.missed(), None, "after {}", number);
            }
        }
        model.take(&ModelStep::Switch);
        prop_assert_eq!(model.missed(), None);
    }
}

/// Returns what a reader misses at the other node if a key is written there during a comparison.
fn missed_across_a_comparison(notes_end: bool) -> Option<u32> {
    let mut model = FeedModel::new(notes_end);
    let steps = [
        ModelStep::Write(0, 1),
        ModelStep::Begin,
        ModelStep::Compare(2),
        ModelStep::Write(1, 2),
        ModelStep::End,
        ModelStep::Read(100),
        ModelStep::Switch,
    ];
    steps.iter().for_each(|step| model.take(step));
    model.missed()
}

#[test]
fn bridge_begins_where_the_comparison_began() {
    assert_eq!(missed_across_a_comparison(false), None);
    assert_eq!(missed_across_a_comparison(true), Some(2), "the rule is what makes the difference");
}
