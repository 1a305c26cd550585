//! Histories of buckets that move, and what they must amount to.

use super::super::histories::{Counts, all_are_noticed, all_happened, live_through, seeds};
use super::world::World;
use runtime::mutants::Flaw;

/// Simulated seconds of trouble in one history.
const SECONDS: u64 = 12;
/// Histories in every run of the tests, and in the long ones.
const SEEDS: u64 = 150;
const SEEDS_LONG: u64 = 20_000;

/// Histories within which every broken rule must show.
const FLAWED_SEEDS: u64 = 2_000;

fn history(seed: u64) -> (u64, Counts) {
    let world = World::new(seed);
    world.stage.run(SECONDS * 1_000_000);
    world.heal();
    world.ends_well()
}

#[test]
fn whatever_happens_every_move_ends_and_nothing_is_lost_stale_or_done_twice() {
    let seeds = seeds(SEEDS, SEEDS_LONG);
    let count = seeds.end - seeds.start;
    let all = live_through(&seeds, 2, history);
    println!("{count} histories of {SECONDS} s: {all:?}");
    if count >= SEEDS {
        let wanted = [
            "wrote",
            "read",
            "counted",
            "in doubt",
            "moved",
            "called back",
            "mover crashed",
            "split",
            "isolated",
            "pause",
            "one way cut",
            "hand over",
            "all crash",
        ];
        all_happened(&all, &wanted);
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
    let soon = [Flaw::EvaluatesBehindSeals, Flaw::CopiesOnce, Flaw::CopiesOverOthers];
    all_are_noticed(&soon, &[Flaw::ReadsBehindSeals], FLAWED_SEEDS, history);
}
