//! Model test: random operations on the real trees and on those in memory, compared with a
//! `BTreeMap` after every step.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{LsmTrees, MemoryTrees, RowChange, Snapshot, Trees};
use super::point_reads::read_each;
use super::{Scratch, open, open_narrow};

type Model = BTreeMap<Bytes, Bytes>;
type Bounds = (Bound<Bytes>, Bound<Bytes>);

#[derive(Clone, Debug)]
enum Step {
    Apply(Vec<RowChange>),
    Get(Bytes),
    GetEach(Vec<Bytes>),
    Range(Bounds, bool),
    Rotate,
    Flush,
    Compact,
    CompactSmall,
    /// Merges some neighbouring runs, due or not.
    Merge(usize, usize),
    DropPrefix(Bytes),
    TakeSnapshot,
    ReleaseSnapshot(usize),
    Reopen,
}

/// Trees under test, on disk or in memory.
trait Subject {
    fn trees(&self) -> &dyn Trees;
    /// Merges neighbouring runs on disk: position of the first and number, both at random.
    fn merge(&self, first: usize, count: usize);
    /// Restores the durable point.
    fn crash(&mut self);
}

struct OnDisk(Option<LsmTrees>, Scratch, fn(&Scratch) -> LsmTrees);

impl Subject for OnDisk {
    fn trees(&self) -> &dyn Trees {
        self.0.as_ref().unwrap()
    }

    fn merge(&self, first: usize, count: usize) {
        let Some(trees) = &self.0 else { return };
        let runs = trees.list().runs.len();
        if runs > 0 {
            let first = first % runs;
            assert!(trees.merge_range(first..first + 1 + count % (runs - first)).unwrap());
        }
    }

    fn crash(&mut self) {
        drop(self.0.take());
        self.0 = Some(self.2(&self.1));
    }
}

impl Subject for MemoryTrees {
    fn trees(&self) -> &dyn Trees {
        self
    }

    fn merge(&self, _first: usize, _count: usize) {}

    fn crash(&mut self) {
        MemoryTrees::crash(self).unwrap();
    }
}

/// Few keys, so that they repeat; some are prefixes of others, some have the extreme bytes.
fn key() -> impl Strategy<Value = Bytes> {
    vec(prop_oneof![Just(0u8), Just(1), Just(b'a'), Just(254), Just(255)], 1..4)
        .prop_map(Bytes::from)
}

fn change() -> impl Strategy<Value = RowChange> {
    prop_oneof![
        3 => (key(), vec(any::<u8>(), 0..40)).prop_map(|(k, v)| RowChange::Put(k, v.into())),
        1 => (key(), 4000..9000usize).prop_map(|(k, n)| RowChange::Put(k, vec![b'v'; n].into())),
        2 => key().prop_map(RowChange::Remove),
    ]
}

fn bound() -> impl Strategy<Value = Bound<Bytes>> {
    prop_oneof![
        Just(Bound::Unbounded),
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => vec(change(), 0..12).prop_map(Step::Apply),
        8 => key().prop_map(Step::Get),
        4 => vec(key(), 0..40).prop_map(Step::GetEach),
        4 => ((bound(), bound()), any::<bool>()).prop_map(|(b, r)| Step::Range(b, r)),
        3 => Just(Step::Rotate),
        3 => Just(Step::Flush),
        3 => Just(Step::Compact),
        1 => Just(Step::CompactSmall),
        3 => any::<(usize, usize)>().prop_map(|(first, count)| Step::Merge(first, count)),
        1 => vec(prop_oneof![Just(0u8), Just(b'a'), Just(255)], 0..2)
            .prop_map(|p| Step::DropPrefix(p.into())),
        2 => Just(Step::TakeSnapshot),
        1 => any::<usize>().prop_map(Step::ReleaseSnapshot),
        1 => Just(Step::Reopen),
    ]
}

fn write(model: &mut Model, change: &RowChange) {
    match change {
        RowChange::Put(key, value) => model.insert(key.clone(), value.clone()),
        RowChange::Remove(key) => model.remove(key),
    };
}

fn expected(model: &Model, (low, high): &Bounds, reverse: bool) -> Vec<(Bytes, Bytes)> {
    let inside = |key: &&Bytes| {
        (match low {
            Bound::Unbounded => true,
            Bound::Included(low) => *key >= low,
            Bound::Excluded(low) => *key > low,
        }) && (match high {
            Bound::Unbounded => true,
            Bound::Included(high) => *key <= high,
            Bound::Excluded(high) => *key < high,
        })
    };
    let mut rows: Vec<_> = model
        .iter()
        .filter(|(key, _)| inside(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if reverse {
        rows.reverse();
    }
    rows
}

fn read(snapshot: &dyn Snapshot, (low, high): &Bounds, reverse: bool) -> Vec<(Bytes, Bytes)> {
    snapshot.range(low.clone(), high.clone(), reverse).map(Result::unwrap).collect()
}

fn run(subject: &mut dyn Subject, steps: &[Step]) {
    let mut current = Model::new();
    let (mut sealed, mut durable) = (Model::new(), Model::new());
    let mut snapshots: Vec<(Box<dyn Snapshot>, Model)> = Vec::new();
    let mut last = 0;
    for step in steps {
        let trees = subject.trees();
        match step {
            Step::Apply(changes) => {
                let sequence = trees.apply(&mut changes.iter().cloned()).unwrap();
                assert!(sequence > last, "numbers go up");
                last = sequence;
                changes.iter().for_each(|change| write(&mut current, change));
            }
            Step::Get(key) => {
                assert_eq!(trees.get(key).unwrap().as_ref(), current.get(key));
                for (snapshot, model) in &snapshots {
                    assert_eq!(snapshot.get(key).unwrap().as_ref(), model.get(key));
                }
            }
            Step::GetEach(keys) => {
                let expected: Vec<_> = keys.iter().map(|key| current.get(key).cloned()).collect();
                assert_eq!(read_each(trees, keys), expected);
            }
            Step::Range(bounds, reverse) => {
                let rows = read(&*trees.snapshot(), bounds, *reverse);
                assert_eq!(rows, expected(&current, bounds, *reverse));
                for (snapshot, model) in &snapshots {
                    let rows = read(&**snapshot, bounds, *reverse);
                    assert_eq!(rows, expected(model, bounds, *reverse));
                }
            }
            Step::Rotate => {
                trees.rotate().unwrap();
                sealed = current.clone();
            }
            Step::Flush => {
                trees.flush().unwrap();
                durable = sealed.clone();
            }
            Step::Compact => drop(trees.compact().unwrap()),
            Step::CompactSmall => drop(trees.compact_small().unwrap()),
            Step::Merge(first, count) => subject.merge(*first, *count),
            Step::DropPrefix(prefix) => {
                trees.drop_prefix(prefix).unwrap();
                current.retain(|key, _| !key.starts_with(prefix));
                (sealed, durable) = (current.clone(), current.clone());
            }
            Step::TakeSnapshot => snapshots.push((trees.snapshot(), current.clone())),
            Step::ReleaseSnapshot(index) if !snapshots.is_empty() => {
                snapshots.swap_remove(index % snapshots.len());
            }
            Step::ReleaseSnapshot(_) => {}
            Step::Reopen => {
                snapshots.clear();
                subject.crash();
                current = durable.clone();
                sealed = durable.clone();
                last = subject.trees().statistics().sequence;
            }
        }
    }
    let everything = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(
        read(&*subject.trees().snapshot(), &everything, false),
        expected(&current, &everything, false)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn lsm_trees_match_a_map_model(steps in vec(step(), 1..60), narrow in any::<bool>()) {
        let scratch = Scratch::new();
        let open = if narrow { open_narrow } else { open };
        let mut subject = OnDisk(Some(open(&scratch)), scratch, open);
        run(&mut subject, &steps);
    }

    #[test]
    fn memory_trees_match_a_map_model(steps in vec(step(), 1..80)) {
        run(&mut MemoryTrees::new(1024), &steps);
    }
}
