//! Ranges over many rows in memory, where runs are made and merged, against a plain map.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::Trees;
use super::{Scratch, apply, open, put, remove};

type Twin = BTreeMap<Bytes, Bytes>;

/// Keys that share a beginning, differ within and beyond eight bytes, and end early.
fn key(dice: &mut StdRng) -> Bytes {
    let n: u32 = dice.random_range(0..30_000);
    let text = match n % 4 {
        0 => format!("row/{n}"),
        1 => format!("row/{:010}/long", n),
        2 => format!("row/{}\0", n / 7),
        _ => format!("row/{}", "x".repeat(n as usize % 40)),
    };
    Bytes::from(text)
}

fn bound(dice: &mut StdRng) -> Bound<Bytes> {
    match dice.random_range(0..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(dice)),
        _ => Bound::Excluded(key(dice)),
    }
}

fn compare(trees: &dyn Trees, twin: &Twin, dice: &mut StdRng) {
    let snapshot = trees.snapshot();
    for reverse in [false, true] {
        let (low, high) = (bound(dice), bound(dice));
        let rows = snapshot.range(low.clone(), high.clone(), reverse).take(2_000);
        let found: Vec<_> = rows.map(|row| row.unwrap()).collect();
        let wanted = twin.iter().filter(|(key, _)| {
            (low.clone(), Bound::Unbounded).contains_key(key)
                && (Bound::Unbounded, high.clone()).contains_key(key)
        });
        let wanted = wanted.map(|(key, value)| (key.clone(), value.clone()));
        let wanted: Vec<_> = match reverse {
            false => wanted.take(2_000).collect(),
            true => wanted.rev().take(2_000).collect(),
        };
        assert!(found == wanted, "{low:?} to {high:?}, reverse {reverse}: {}", found.len());
    }
    let one = key(dice);
    assert_eq!(snapshot.get(&one).unwrap(), twin.get(&one).cloned());
    assert_eq!(trees.get(&one).unwrap(), twin.get(&one).cloned());
}

/// `RangeBounds` asks for a sized pair; this says it shorter.
trait ContainsKey {
    fn contains_key(&self, key: &Bytes) -> bool;
}

impl ContainsKey for (Bound<Bytes>, Bound<Bytes>) {
    fn contains_key(&self, key: &Bytes) -> bool {
        std::ops::RangeBounds::contains(self, key)
    }
}

#[test]
fn ranges_over_many_rows_in_memory_are_those_of_a_map() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let mut dice = StdRng::seed_from_u64(7);
    let mut twin = Twin::new();
    let mut past: Vec<(Box<dyn super::super::Snapshot>, Twin)> = Vec::new();
    for round in 0..160 {
        let mut batch = Vec::new();
        for _ in 0..dice.random_range(1..1_500) {
            let key = key(&mut dice);
            if dice.random_ratio(1, 4) {
                twin.remove(&key);
                batch.push(remove(&key));
            } else {
                let value = Bytes::from(format!("{round}:{}", batch.len()));
                twin.insert(key.clone(), value.clone());
                batch.push(put(&key, &value));
            }
        }
        apply(&trees, batch);
        match round % 40 {
            // Some ranges find much that is not in order yet, others next to nothing.
            0..5 | 20..22 => compare(&trees, &twin, &mut dice),
            25 => past.push((trees.snapshot(), twin.clone())),
            35 if round > 80 => {
                trees.rotate().unwrap();
            }
            39 if round > 100 => {
                trees.flush().unwrap();
                compare(&trees, &twin, &mut dice);
            }
            _ => {}
        }
    }
    compare(&trees, &twin, &mut dice);
    for (snapshot, twin) in past {
        let rows = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
        assert!(rows.map(|row| row.unwrap()).eq(twin), "what a snapshot saw stays");
    }
}
