//! Suites of histories: choice of seeds, distribution over threads, and the report.
//!
//! Environment variables choose the seeds: `CREDENZA_SEED=N` repeats one history,
//! `CREDENZA_SEEDS=M` runs this many, from seed N on if both are set (to run a long suite in
//! parts). `CREDENZA_TEST_LONG` runs as many as the long tests. `CREDENZA_TRACE` prints every
//! event. `./check seed N` repeats one seed in all suites.

use crate::journal::Counts;
use crate::leaks;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::panic::catch_unwind;

/// Runs the history of a seed. Returns its digest and its counts.
pub type History = fn(u64) -> (u64, Counts);

/// Suite of histories of one simulator.
pub struct Suite {
    /// Name of the simulator.
    pub name: &'static str,
    /// Number of histories in an ordinary run of the tests.
    pub seeds: u64,
    /// Number of histories in the long tests.
    pub seeds_long: u64,
    /// Number of threads that run them.
    pub threads: u64,
    /// Function that runs one history.
    pub history: History,
    /// Events that must occur at least once in a whole run.
    pub required_events: &'static [&'static str],
}

impl Suite {
    /// Runs the suite's histories and prints their counts. If a history fails, it prints the
    /// command that repeats it. Returns the number of histories, and their total counts.
    pub fn run(&self) -> (u64, Counts) {
        let seeds = self.selected_seeds();
        let count = seeds.end - seeds.start;
        let (digest, all) = run_seeds(seeds, self.threads, self.history);
        println!("{count} histories, {}: digest {digest:016x}, {all:?}", self.name);
        if count >= self.seeds {
            for name in self.required_events {
                assert!(all.get(name).is_some_and(|occurrences| *occurrences > 0), "never: {name}");
            }
        }
        (count, all)
    }

    /// Returns the seeds of this run.
    fn selected_seeds(&self) -> Range<u64> {
        let variable =
            |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        match (variable("CREDENZA_SEED"), variable("CREDENZA_SEEDS")) {
            (Some(seed), count) => seed..seed + count.unwrap_or(1),
            (None, Some(count)) => 0..count,
            (None, None) => 0..if is_long() { self.seeds_long } else { self.seeds },
        }
    }

    /// Asserts that each of these seeds produces the same history twice.
    pub fn assert_repeatable(&self, seeds: &[u64]) {
        for seed in seeds {
            let [one, other] = [(); 2].map(|()| (self.history)(*seed));
            assert_eq!(one, other, "seed {seed} is two histories");
        }
    }
}

/// Returns true in the long tests.
pub fn is_long() -> bool {
    std::env::var_os("CREDENZA_TEST_LONG").is_some()
}

/// Runs histories. Returns the digest of all of them, which does not depend on the threads, and
/// their total counts.
pub fn run_seeds(seeds: Range<u64>, threads: u64, history: History) -> (u64, Counts) {
    let run_share = |first: u64| {
        let (mut all, mut counted) = (0_u64, Counts::new());
        for seed in seeds.clone().skip(first as usize).step_by(threads as usize) {
            let outcome = catch_unwind(|| run_one(seed, history));
            let (digest, counts) = outcome.unwrap_or_else(|_| {
                panic!("the history of seed {seed} fails: `./check seed {seed}` repeats it")
            });
            let mut hasher = DefaultHasher::new();
            (seed, digest, &counts).hash(&mut hasher);
            all = all.wrapping_add(hasher.finish());
            add(&mut counted, counts);
        }
        (all, counted)
    };
    let (mut digest, mut all) = (0_u64, Counts::new());
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads).map(|first| scope.spawn(move || run_share(first))).collect();
        for thread in threads {
            let (one, counts) = thread.join().expect("no seed failed");
            digest = digest.wrapping_add(one);
            add(&mut all, counts);
        }
    });
    (digest, all)
}

/// Runs one history, and asserts that it left nothing in memory.
fn run_one(seed: u64, history: History) -> (u64, Counts) {
    leaks::forget_watched();
    let outcome = history(seed);
    leaks::assert_none_left();
    outcome
}

fn add(all: &mut Counts, counts: Counts) {
    counts.into_iter().for_each(|(name, count)| *all.entry(name).or_default() += count);
}
