//! Model test: a memtable equals a map of all versions, by key and in order through its runs, for
//! any number of range reads in between.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;

use super::super::memtable::{CHUNK_ROWS, Memtable};
use super::super::sorted_run::RunWalk;
use super::super::view::{Bounds, Version, is_empty_range};
use super::*;

type Model = BTreeMap<Vec<u8>, BTreeMap<u64, Option<Bytes>>>;

/// A hash with few bits, so that different keys often collide.
fn hash(key: &[u8]) -> u32 {
    key.iter().fold(0, |sum, byte| sum + u32::from(*byte)) % 7
}

/// Keys that share long beginnings and end in zeros.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let lengths = prop_oneof![Just(0_usize), Just(5), Just(8), Just(40)];
    let ends = proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(255)], 1..5);
    (lengths, ends).prop_map(|(repeat, end)| [vec![7; repeat], end].concat())
}

fn bounds() -> impl Strategy<Value = (Bound<Bytes>, Bound<Bytes>)> {
    let bound = || {
        prop_oneof![
            1 => Just(Bound::Unbounded),
            2 => keys().prop_map(|key| Bound::Included(Bytes::from(key))),
            2 => keys().prop_map(|key| Bound::Excluded(Bytes::from(key))),
        ]
    };
    (bound(), bound())
}

fn newest(versions: &BTreeMap<u64, Option<Bytes>>, sequence: u64) -> Option<Version> {
    let (sequence, value) = versions.range(..=sequence).next_back()?;
    Some(Version { sequence: *sequence, value: value.clone() })
}

/// Returns the rows between bounds from all runs, each in order; of one key the newest run counts.
fn rows_in_order(
    table: &Memtable,
    bounds: &Bounds,
    sequence: u64,
    reverse: bool,
) -> Vec<(Bytes, Version)> {
    let mut rows = BTreeMap::new();
    for run in table.runs(bounds, sequence).into_iter().rev() {
        let found: Vec<_> = RunWalk::new(run, bounds, sequence, reverse).collect();
        let is_ordered = |pair: &[(Bytes, Version)]| (pair[0].0 < pair[1].0) != reverse;
        assert!(found.windows(2).all(is_ordered), "in order, each key once");
        rows.extend(found);
    }
    rows.into_iter().collect()
}

fn fill(table: &Memtable, model: &mut Model, sequence: u64, batch: Vec<(Vec<u8>, bool)>) {
    let change = |(at, (key, is_put)): (usize, (Vec<u8>, bool))| {
        let value = Bytes::from(format!("{sequence} {at}"));
        let versions = model.entry(key.clone()).or_default();
        versions.insert(sequence, is_put.then(|| value.clone()));
        if is_put { RowChange::Put(key.into(), value) } else { RowChange::Remove(key.into()) }
    };
    table.insert(sequence, &mut batch.into_iter().enumerate().map(change), hash);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn memtable_matches_a_versioned_map_model(
        batches in proptest::collection::vec(
            proptest::collection::vec((keys(), any::<bool>()), 1..500), 1..12),
        queries in proptest::collection::vec((bounds(), 0..13_u64, any::<bool>()), 12),
        absent in keys(),
    ) {
        let (table, mut model) = (Memtable::new(), Model::new());
        let mut rows = 0;
        for ((sequence, batch), (bounds, limit, reverse)) in (1..).zip(batches).zip(queries) {
            rows += batch.len();
            fill(&table, &mut model, sequence, batch);
            prop_assert_eq!(table.rows(), rows);
            for key in model.keys().chain([&absent]) {
                let expected = model.get(key).and_then(|versions| newest(versions, limit));
                prop_assert_eq!(table.get(key, hash(key), limit), expected);
            }
            if is_empty_range(&bounds) {
                continue;
            }
            let ends = (bounds.0.as_ref().map(|key| key.to_vec()), bounds.1.as_ref());
            let expected: Vec<_> = model
                .range((ends.0, ends.1.map(|key| key.to_vec())))
                .filter_map(|(key, versions)| {
                    Some((Bytes::copy_from_slice(key), newest(versions, limit)?))
                })
                .collect();
            prop_assert_eq!(rows_in_order(&table, &bounds, limit, reverse), expected);
        }
        let walk = RunWalk::new(table.newest_rows().into(), &EVERYTHING, u64::MAX, false);
        let expected = model.iter().filter_map(|(key, versions)| {
            Some((Bytes::copy_from_slice(key), newest(versions, u64::MAX)?))
        });
        prop_assert!(walk.eq(expected));
    }
}

const EVERYTHING: Bounds = (Bound::Unbounded, Bound::Unbounded);

#[test]
fn memtable_runs_stay_few_as_rows_grow() {
    let table = Memtable::new();
    for sequence in 1..=1_100 {
        let key = |n: usize| Bytes::from(format!("{:08}", n * 7_919 % 1_000_003));
        let rows = (0..CHUNK_ROWS).map(|n| key(n + sequence * CHUNK_ROWS));
        let put = rows.map(|key| RowChange::Put(key, Bytes::new()));
        table.insert(sequence as u64, &mut { put }, full_hash);
        let runs = table.runs(&EVERYTHING, u64::MAX);
        assert!(runs.len() <= 2 + 10, "{} runs after {sequence} chunks", runs.len());
        let rows: usize = runs.iter().map(|run| run.chunks().len()).sum();
        assert_eq!(rows, sequence, "every chunk is in one run");
    }
}

fn full_hash(key: &[u8]) -> u32 {
    super::super::hash(key, 1)
}
