//! Histories of available buckets, and what they must amount to.

use super::super::histories::{Counts, all_are_noticed, all_happened, live_through, seeds};
use super::world::World;
use runtime::mutants::Flaw;

/// Simulated seconds of trouble in one history.
const SECONDS: u64 = 12;
/// Histories in every run of the tests, and in the long ones.
const SEEDS: u64 = 500;
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
fn whatever_happens_nothing_acknowledged_is_lost_and_nothing_deleted_comes_back() {
    let seeds = seeds(SEEDS, SEEDS_LONG);
    let count = seeds.end - seeds.start;
    let all = live_through(&seeds, 1, history);
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
        ];
        all_happened(&all, &wanted);
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
    let soon = [
        Flaw::BlindReplaces,
        Flaw::HintGoesFirst,
        Flaw::MergeOverwrites,
        Flaw::ReapsAlone,
        Flaw::ReapsWithoutGuests,
        Flaw::LetsGoAlone,
        Flaw::AsksReceivers,
    ];
    let rare = [Flaw::MintsAsBefore];
    all_are_noticed(&soon, &rare, FLAWED_SEEDS, history);
}

/// The same, if it is a history of this kind.
fn only(seed: u64, kind: impl Fn(&World) -> bool) -> (u64, Counts) {
    match kind(&World::still(seed)) {
        true => history(seed),
        false => (0, Counts::new()),
    }
}

/// Nothing goes wrong but the ring's changes, so that every read must meet what was acknowledged.
fn calm(seed: u64) -> (u64, Counts) {
    only(seed, |world| world.calm)
}

#[test]
fn who_counts_as_owner_before_it_has_the_rows_is_noticed() {
    let soon = [Flaw::ReceivesNothing, Flaw::AsksReceivers];
    all_are_noticed(&soon, &[], FLAWED_SEEDS, calm);
}
