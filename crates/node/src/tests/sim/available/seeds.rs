//! Suites of histories with available buckets.

use super::super::mutants::check;
use super::world::World;
use runtime::mutants::Mutant;
use sim::{Counts, Suite};

/// Length of the trouble in a history, in simulated seconds.
const SECONDS: u64 = 12;
/// Number of histories within which every broken rule must be noticed.
const MUTANT_SEEDS: u64 = 2_000;

const SUITE: Suite = Suite {
    name: "available buckets",
    seeds: 450,
    seeds_long: 20_000,
    threads: 1,
    history,
    required_events: &[
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
        "ring join",
        "ring leave",
        "ring replace",
        "ring rejoin",
        "ring double",
        "ring halve",
        "ring change called off",
        "read that must meet",
        "read among stragglers",
        "crash into the past",
    ],
};

fn history(seed: u64) -> (u64, Counts) {
    let world = World::new(seed);
    world.scheduler.run(SECONDS * 1_000_000);
    world.heal();
    world.finish_and_check()
}

#[test]
fn available_histories_lose_no_write_and_revive_no_delete() {
    SUITE.run();
}

#[test]
fn seed_determines_the_history() {
    SUITE.assert_repeatable(&[3, 4, 5]);
}

#[test]
fn mutants_of_available_buckets_are_detected() {
    let soon = [
        Mutant::OverwriteWithoutContext,
        Mutant::DeleteHintBeforeAck,
        Mutant::OverwriteInsteadOfMerge,
        Mutant::ReapWithoutQuery,
        Mutant::ReapWithoutFallbacks,
        Mutant::ReadFromFutureOwners,
    ];
    let rare = [Mutant::ReuseActorAfterCrash, Mutant::DeleteLeftoversUnchecked];
    check(history, MUTANT_SEEDS).assert_detected(&soon, &rare);
}

/// Runs a history if it is of this kind; returns no counts otherwise.
fn only(seed: u64, kind: impl Fn(&World) -> bool) -> (u64, Counts) {
    match kind(&World::idle(seed)) {
        true => history(seed),
        false => (0, Counts::new()),
    }
}

/// Runs a history if its only trouble is changes of the ring: every read must see the acknowledged
/// writes.
fn calm(seed: u64) -> (u64, Counts) {
    only(seed, |world| world.calm)
}

#[test]
fn mutant_owner_without_rows_is_detected() {
    let soon = [Mutant::ReportUnreceivedPartition, Mutant::ReadFromFutureOwners];
    check(calm, MUTANT_SEEDS).assert_detected(&soon, &[]);
}
