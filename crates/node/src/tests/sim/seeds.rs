//! Histories, and what they must amount to.

use super::world::World;
use std::collections::BTreeMap;

/// Simulated seconds of trouble in one history.
const SECONDS: u64 = 15;
/// Histories in every run of the tests, and in the long ones.
const SEEDS: u64 = 1_000;
const SEEDS_LONG: u64 = 20_000;
/// Threads that live through them.
const THREADS: usize = 2;

/// Histories within which every broken rule must show.
const FLAWED_SEEDS: u64 = 5_000;

type Counts = BTreeMap<&'static str, u64>;

fn add(all: &mut Counts, counts: Counts) {
    counts.into_iter().for_each(|(name, many)| *all.entry(name).or_default() += many);
}

fn history(seed: u64) -> (u64, Counts) {
    let mut world = World::new(seed);
    world.run(SECONDS * 1_000_000);
    world.heal();
    world.ends_well()
}

fn long() -> bool {
    std::env::var_os("CREDENZA_TEST_LONG").is_some()
}

#[test]
fn whatever_happens_no_acknowledged_write_is_lost_and_no_read_is_stale() {
    let named = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let many = named("CREDENZA_SEEDS").unwrap_or(if long() { SEEDS_LONG } else { SEEDS });
    let seeds = match named("CREDENZA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..many,
    };
    let count = seeds.end - seeds.start;
    let share = |which: usize| {
        let mut all = Counts::new();
        for seed in seeds.clone().skip(which).step_by(THREADS) {
            let counts = std::panic::catch_unwind(|| history(seed).1);
            let counts = counts.unwrap_or_else(|_| panic!("seed {seed}"));
            add(&mut all, counts);
        }
        all
    };
    let mut all = Counts::new();
    std::thread::scope(|threads| {
        let threads: Vec<_> =
            (0..THREADS).map(|which| threads.spawn(move || share(which))).collect();
        for counts in threads.into_iter().map(|thread| thread.join().expect("no seed failed")) {
            add(&mut all, counts);
        }
    });
    println!("{count} histories of {SECONDS} s: {all:?}");
    if count >= SEEDS {
        for name in [
            "wrote",
            "read",
            "in doubt",
            "crash",
            "split",
            "members",
            "hand over",
            "snapshot",
            "several groups",
        ] {
            assert!(all.get(name).is_some_and(|many| *many > 0), "never: {name}");
        }
    }
}

#[test]
fn one_seed_is_one_history() {
    for seed in [3, 4] {
        assert_eq!(history(seed), history(seed));
    }
}

#[test]
fn a_broken_rule_is_noticed() {
    use crate::flaws::{BROKEN, Flaw};
    // Some show soon, some are rare: those are looked for in the long tests.
    let soon = [Flaw::TicketsWithoutTerms, Flaw::AcceptedUnsynced];
    let rare = [Flaw::ReadWithoutLease, Flaw::OutcomeWithoutLease, Flaw::RunsWithoutEnd];
    let flaws = soon.into_iter().chain(rare.into_iter().filter(|_| long()));
    let mut unnoticed = Vec::new();
    for flaw in flaws {
        BROKEN.set(Some(flaw));
        let noticed = |seed: &u64| std::panic::catch_unwind(|| history(*seed)).is_err();
        let seed = (0..FLAWED_SEEDS).find(noticed);
        BROKEN.set(None);
        println!("{flaw:?}: seed {seed:?}");
        unnoticed.extend(Some(flaw).filter(|_| seed.is_none()));
    }
    assert!(unnoticed.is_empty(), "unnoticed: {unnoticed:?}");
}
