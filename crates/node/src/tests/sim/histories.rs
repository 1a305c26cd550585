//! Many histories, whichever side of the node they are of: which seeds, what they counted together,
//! and whether they see a broken rule.

use super::remains;
use crate::flaws::{BROKEN, Flaw};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::catch_unwind;

/// How often each thing happened.
pub(super) type Counts = BTreeMap<&'static str, u64>;

/// Lives through the history of a seed: what it came to, and what happened.
pub(super) type History = fn(u64) -> (u64, Counts);

fn add(all: &mut Counts, counts: Counts) {
    counts.into_iter().for_each(|(name, many)| *all.entry(name).or_default() += many);
}

/// Whether these are the long tests.
pub(super) fn long() -> bool {
    std::env::var_os("CREDENZA_TEST_LONG").is_some()
}

/// The seeds of this run: `CREDENZA_SEED` alone, or `CREDENZA_SEEDS` of them (from that one on,
/// where both are there: a long run in parts), or so many as in every run, or in the long ones.
pub(super) fn seeds(every: u64, in_long: u64) -> Range<u64> {
    let named = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (named("CREDENZA_SEED"), named("CREDENZA_SEEDS")) {
        (Some(seed), many) => seed..seed + many.unwrap_or(1),
        (None, many) => 0..many.unwrap_or(if long() { in_long } else { every }),
    }
}

/// Lives through one, of which nothing is left then.
fn live(seed: u64, history: History) -> Counts {
    remains::forget();
    let (_, counts) = history(seed);
    remains::nothing();
    counts
}

/// Lives through all of them; of one that fails the command that repeats it is said.
pub(super) fn live_through(seeds: &Range<u64>, threads: usize, history: History) -> Counts {
    let share = |which: usize| {
        let mut all = Counts::new();
        for seed in seeds.clone().skip(which).step_by(threads) {
            let counts = catch_unwind(|| live(seed, history));
            add(&mut all, counts.unwrap_or_else(|_| failed(seed)));
        }
        all
    };
    let mut all = Counts::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|which| scope.spawn(move || share(which))).collect();
        for counts in threads.into_iter().map(|thread| thread.join().expect("no seed failed")) {
            add(&mut all, counts);
        }
    });
    all
}

fn failed(seed: u64) -> ! {
    panic!("the history of seed {seed} fails: `./check seed {seed}` repeats it")
}

/// Each of these must have happened somewhere.
pub(super) fn all_happened(all: &Counts, wanted: &[&str]) {
    for name in wanted {
        assert!(all.get(name).is_some_and(|many| *many > 0), "never: {name}");
    }
}

/// Each of these broken rules must show within so many histories; the rare ones are looked for in
/// the long tests.
pub(super) fn all_are_noticed(soon: &[Flaw], rare: &[Flaw], within: u64, history: History) {
    let rare = if long() { rare } else { &[] };
    let mut unnoticed = Vec::new();
    for flaw in soon.iter().chain(rare) {
        BROKEN.set(Some(*flaw));
        let noticed = |seed: &u64| {
            remains::forget();
            catch_unwind(|| history(*seed)).is_err()
        };
        let seed = (0..within).find(noticed);
        BROKEN.set(None);
        println!("{flaw:?}: seed {seed:?}");
        if seed.is_none() {
            unnoticed.push(*flaw);
        }
    }
    assert!(unnoticed.is_empty(), "unnoticed: {unnoticed:?}");
}
