//! Histories of available buckets, and what they must amount to.

use super::world::World;
use std::collections::BTreeMap;

/// Simulated seconds of trouble in one history.
const SECONDS: u64 = 12;
/// Histories in every run of the tests, and in the long ones.
const SEEDS: u64 = 500;
const SEEDS_LONG: u64 = 20_000;

/// Histories within which every broken rule must show.
const FLAWED_SEEDS: u64 = 2_000;

type Counts = BTreeMap<&'static str, u64>;

fn history(seed: u64) -> (u64, Counts) {
    let world = World::new(seed);
    world.stage.run(SECONDS * 1_000_000);
    world.heal();
    world.ends_well()
}

pub(super) fn long() -> bool {
    std::env::var_os("CREDENZA_TEST_LONG").is_some()
}

#[test]
fn whatever_happens_nothing_acknowledged_is_lost_and_nothing_deleted_comes_back() {
    let named = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let many = named("CREDENZA_SEEDS").unwrap_or(if long() { SEEDS_LONG } else { SEEDS });
    let seeds = match named("CREDENZA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..many,
    };
    let count = seeds.end - seeds.start;
    let mut all = Counts::new();
    for seed in seeds {
        let counts = std::panic::catch_unwind(|| history(seed).1);
        let counts = counts.unwrap_or_else(|_| panic!("seed {seed}"));
        counts.into_iter().for_each(|(name, many)| *all.entry(name).or_default() += many);
    }
    println!("{count} histories of {SECONDS} s: {all:?}");
    if count >= SEEDS {
        let wanted = [
            "write",
            "read",
            "remove",
            "write in doubt",
            "crash",
            "split",
            "isolated",
            "pause",
            "one way cut",
            "clock",
            "stop",
            "lost rows",
            "restored",
            "wiped",
            "all crash",
            "rows that are gone",
        ];
        for name in wanted {
            assert!(all.get(name).is_some_and(|many| *many > 0), "never: {name}");
        }
    }
}

#[test]
fn one_seed_is_one_history() {
    for seed in [3, 4, 5] {
        assert_eq!(history(seed), history(seed));
    }
}

#[test]
fn a_broken_rule_is_noticed() {
    use crate::flaws::{BROKEN, Flaw};
    // Some show soon, some are rare: those are looked for in the long tests.
    let soon = [
        Flaw::BlindReplaces,
        Flaw::HintGoesFirst,
        Flaw::MergeOverwrites,
        Flaw::ReapsAlone,
        Flaw::ReapsWithoutGuests,
    ];
    let rare = [Flaw::MintsAsBefore];
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
