//! Range reads under an everyday load, which writes, expires and deletes rows with the same keys:
//! rows walked for each row returned, over several minutes.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::{LsmTrees, Trees};
use super::growth::{bounds, cost, key, to_disk};
use super::{Scratch, apply, open_large, put, remove};

const KEYS: u32 = 100_000;
/// Operations in each second: the load "mixed" of the benchmark's suite `growth`.
const PUTS: u32 = 160;
const EXPIRING_PUTS: u32 = 320;
const DELETES: u32 = 160;
const OTHERS: u32 = 400;
const RANGES: u32 = 20;
const ROWS_PER_RANGE: usize = 100;
const SECONDS_TO_LIVE_MAX: u64 = 30;

/// A store under the load, and the expiry times of its rows.
struct EverydayLoad<'a> {
    trees: &'a LsmTrees,
    rng: StdRng,
    second: u64,
    /// Keys by the second in which they expire, unless they were written or deleted since.
    due: BTreeMap<u64, Vec<u32>>,
    expires: HashMap<u32, u64>,
}

impl EverydayLoad<'_> {
    fn second(&mut self) {
        self.second += 1;
        let mut batch = Vec::new();
        for number in self.due.remove(&self.second).unwrap_or_default() {
            if self.expires.remove(&number).is_some_and(|due| due == self.second) {
                batch.push(remove(key(number)));
            }
        }
        for operation in 0..PUTS + EXPIRING_PUTS + DELETES {
            let number = self.rng.random_range(0..KEYS);
            self.expires.remove(&number);
            if operation >= PUTS + EXPIRING_PUTS {
                batch.push(remove(key(number)));
                continue;
            }
            batch.push(put(key(number), [7; 100]));
            if operation >= PUTS {
                let due = self.second + self.rng.random_range(1..=SECONDS_TO_LIVE_MAX);
                self.due.entry(due).or_default().push(number);
                self.expires.insert(number, due);
            }
        }
        batch.extend((0..OTHERS).map(|number| put(format!("other/{number}"), [7; 100])));
        apply(self.trees, batch);
        let (_, high) = bounds();
        for _ in 0..RANGES {
            let from = Bound::Included(key(self.rng.random_range(0..KEYS)));
            let snapshot = self.trees.snapshot();
            let rows = snapshot.range(from, high.clone(), false).take(ROWS_PER_RANGE);
            assert!(rows.map(|row| row.unwrap().0).is_sorted_by(|one, two| one < two));
        }
        if self.trees.pressure().is_rotation_due() {
            to_disk(self.trees);
        }
        while self.trees.compact().unwrap() {}
    }
}

/// The first minute fills the store; the others read and change it.
#[test]
fn range_reads_in_mixed_load_walk_at_most_two_rows_per_row_returned() {
    let scratch = Scratch::new();
    let trees = open_large(&scratch);
    let rng = StdRng::seed_from_u64(5);
    let (due, expires) = Default::default();
    let mut load = EverydayLoad { trees: &trees, rng, second: 0, due, expires };
    for minute in 1..=5 {
        let (walked, returned, ()) = cost(&trees, || (0..60).for_each(|_| load.second()));
        assert!(walked <= 2 * returned, "minute {minute}: {walked} rows walked for {returned}");
    }
}
