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
    seeds: 500,
    seeds_long: 20_000,
    threads: 1,
    history,
    must_happen: &[
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
    world.ends_well()
}

#[test]
fn whatever_happens_nothing_acknowledged_is_lost_and_nothing_deleted_comes_back() {
    SUITE.run();
}

#[test]
fn one_seed_is_one_history() {
    SUITE.assert_repeatable(&[3, 4, 5]);
}

#[test]
fn a_broken_rule_is_noticed() {
    let soon = [
        Mutant::BlindReplaces,
        Mutant::HintGoesFirst,
        Mutant::MergeOverwrites,
        Mutant::ReapsAlone,
        Mutant::ReapsWithoutGuests,
        Mutant::LetsGoAlone,
        Mutant::AsksReceivers,
    ];
    check(history, MUTANT_SEEDS).assert_noticed(&soon, &[Mutant::MintsAsBefore]);
}

/// Runs a history if it is of this kind; returns no counts otherwise.
fn only(seed: u64, kind: impl Fn(&World) -> bool) -> (u64, Counts) {
    match kind(&World::still(seed)) {
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
fn who_counts_as_owner_before_it_has_the_rows_is_noticed() {
    let soon = [Mutant::ReceivesNothing, Mutant::AsksReceivers];
    check(calm, MUTANT_SEEDS).assert_noticed(&soon, &[]);
}
