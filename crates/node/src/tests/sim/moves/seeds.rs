//! Suite of histories of buckets that move.

use super::super::mutants::check;
use super::world::World;
use runtime::mutants::Mutant;
use sim::{Counts, Suite, run_seeds};

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
    required_events: &[
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
        "links ended",
    ],
};

fn history(seed: u64) -> (u64, Counts) {
    let world = World::new(seed);
    world.scheduler.run(SECONDS * 1_000_000);
    world.heal();
    world.finish_and_check()
}

#[test]
fn bucket_move_histories_end_linearizable_and_apply_once() {
    SUITE.run();
    // A seed that once failed: a master that had been cut off refused a session that its successor
    // had opened.
    run_seeds(1_577..1_578, 1, history);
}

#[test]
fn seed_determines_the_history() {
    SUITE.assert_repeatable(&[3, 4]);
}

#[test]
fn mutants_of_bucket_moves_are_detected() {
    let soon = [Mutant::EvaluateSealedBuckets, Mutant::SkipChangedRowCopy, Mutant::ResumeStaleMove];
    check(history, MUTANT_SEEDS).assert_detected(&soon, &[Mutant::ReadSealedBuckets]);
}
