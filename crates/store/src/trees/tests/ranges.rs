//! Ranges over many rows in memory, with runs that are built and merged, compared with a map.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::Trees;
use super::{Scratch, apply, open, put, remove};

type Model = BTreeMap<Bytes, Bytes>;

/// Keys with a common prefix, which differ within and beyond eight bytes, and of different lengths.
fn key(rng: &mut StdRng) -> Bytes {
    let n: u32 = rng.random_range(0..30_000);
    let text = match n % 4 {
        0 => format!("row/{n}"),
        1 => format!("row/{:010}/long", n),
        2 => format!("row/{}\0", n / 7),
        _ => format!("row/{}", "x".repeat(n as usize % 40)),
    };
    Bytes::from(text)
}

fn bound(rng: &mut StdRng) -> Bound<Bytes> {
    match rng.random_range(0..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(rng)),
        _ => Bound::Excluded(key(rng)),
    }
}

fn compare(trees: &dyn Trees, model: &Model, rng: &mut StdRng) {
    let snapshot = trees.snapshot();
    for reverse in [false, true] {
        let (low, high) = (bound(rng), bound(rng));
        let rows = snapshot.range(low.clone(), high.clone(), reverse).take(2_000);
        let found: Vec<_> = rows.map(|row| row.unwrap()).collect();
        let expected = model.iter().filter(|(key, _)| {
            (low.clone(), Bound::Unbounded).contains_key(key)
                && (Bound::Unbounded, high.clone()).contains_key(key)
        });
        let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
        let expected: Vec<_> = match reverse {
            false => expected.take(2_000).collect(),
            true => expected.rev().take(2_000).collect(),
        };
        assert!(found == expected, "{low:?} to {high:?}, reverse {reverse}: {}", found.len());
    }
    let one = key(rng);
    assert_eq!(snapshot.get(&one).unwrap(), model.get(&one).cloned());
    assert_eq!(trees.get(&one).unwrap(), model.get(&one).cloned());
}

/// Shorthand: `RangeBounds` requires a sized pair.
trait ContainsKey {
    fn contains_key(&self, key: &Bytes) -> bool;
}

impl ContainsKey for (Bound<Bytes>, Bound<Bytes>) {
    fn contains_key(&self, key: &Bytes) -> bool {
        std::ops::RangeBounds::contains(self, key)
    }
}

#[test]
fn ranges_over_many_memtable_rows_match_a_map_model() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let mut rng = StdRng::seed_from_u64(7);
    let mut model = Model::new();
    let mut past: Vec<(Box<dyn super::super::Snapshot>, Model)> = Vec::new();
    for round in 0..160 {
        let mut batch = Vec::new();
        for _ in 0..rng.random_range(1..1_500) {
            let key = key(&mut rng);
            if rng.random_ratio(1, 4) {
                model.remove(&key);
                batch.push(remove(&key));
            } else {
                let value = Bytes::from(format!("{round}:{}", batch.len()));
                model.insert(key.clone(), value.clone());
                batch.push(put(&key, &value));
            }
        }
        apply(&trees, batch);
        match round % 40 {
            // Some ranges find many unsorted rows, others almost none.
            0..5 | 20..22 => compare(&trees, &model, &mut rng),
            25 => past.push((trees.snapshot(), model.clone())),
            35 if round > 80 => {
                trees.rotate().unwrap();
            }
            39 if round > 100 => {
                trees.flush().unwrap();
                compare(&trees, &model, &mut rng);
            }
            _ => {}
        }
    }
    compare(&trees, &model, &mut rng);
    for (snapshot, model) in past {
        let rows = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
        assert!(rows.map(|row| row.unwrap()).eq(model), "what a snapshot saw stays");
    }
}
