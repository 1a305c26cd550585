//! Suite of histories of buckets that move.

use super::super::mutants::check;
use super::world::World;
use runtime::mutants::Mutant;
use sim::{Counts, Suite};

/// Length of the trouble in a history, in simulated seconds.
const SECONDS: u64 = 12;
/// Number of histories within which every broken rule must be noticed.
const MUTANT_SEEDS: u64 = 2_000;

const SUITE: Suite = Suite {
    name: "buckets that move",
    seeds: 150,
    seeds_long: 20_000,
    threads: 2,
    history,
    must_happen: &[
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
    ],
};

fn history(seed: u64) -> (u64, Counts) {
    let world = World::new(seed);
    world.scheduler.run(SECONDS * 1_000_000);
    world.heal();
    world.ends_well()
}

#[test]
fn whatever_happens_every_move_ends_and_nothing_is_lost_stale_or_done_twice() {
    SUITE.run();
}

#[test]
fn one_seed_is_one_history() {
    SUITE.assert_repeatable(&[3, 4]);
}

#[test]
fn a_broken_rule_is_noticed() {
    let soon = [Mutant::EvaluatesBehindSeals, Mutant::CopiesOnce, Mutant::CopiesOverOthers];
    check(history, MUTANT_SEEDS).assert_noticed(&soon, &[Mutant::ReadsBehindSeals]);
}
