//! Histories, and what they must amount to.

use super::mutants::check;
use super::world::{Era, World};
use runtime::mutants::Mutant;
use sim::{Counts, Suite};

/// Simulated seconds of trouble in one history.
const SECONDS: u64 = 15;
/// Histories within which the broken rules between threads must show.
const STEPPED_SEEDS: u64 = 1_000;
/// Histories within which every broken rule must show.
const MUTANT_SEEDS: u64 = 5_000;

const SUITE: Suite = Suite {
    name: "consistent groups",
    seeds: 1_000,
    seeds_long: 20_000,
    threads: 2,
    history,
    must_happen: &[
        "wrote",
        "read",
        "in doubt",
        "crash",
        "split",
        "members",
        "hand over",
        "snapshot",
        "damage",
        "damaged end",
        "mended",
        "given",
        "several groups",
        "kill",
        "deaf",
        "mute",
        "cut",
        "one way split",
        "old message",
        "disk error",
        "then evicted",
        "then without power",
        "failed to start",
        "sync failed",
        "write failed",
        "read failed",
        "names failed",
        "disk full",
        "maintenance",
        "fall",
        "hang",
        "hung at the end",
        "spared",
    ],
};

fn history(seed: u64) -> (u64, Counts) {
    lived(World::new(seed))
}

/// A history drawn as they were in another era, for the seeds that were found then.
fn history_of(seed: u64, era: Era) -> (u64, Counts) {
    lived(World::of(seed, era))
}

fn lived(mut world: World) -> (u64, Counts) {
    world.run(SECONDS * 1_000_000);
    world.heal();
    world.lives_through_a_hang();
    world.ends_well()
}

#[test]
fn whatever_happens_no_acknowledged_write_is_lost_and_no_read_is_stale() {
    SUITE.run();
}

/// Longer runs found these; what they showed is mended.
#[test]
fn histories_that_once_failed_hold() {
    // Staged behind a stop-sign, above what was promised: a collapse of the log dropped the first
    // of it, and the next process found a log that contradicted itself.
    history_of(1_754, Era::Reliable);
    // A master whose memory had values longer than its log went on trying to send them when memory,
    // too, had let go of them; the member was never told to take a snapshot.
    history_of(2_107, Era::Reliable);
    // Staged values before the newest run: a difference below nothing, where it is checked.
    history_of(5_737, Era::Reliable);
    // A process after a snapshot took what the log held before it for what the snapshot stood for:
    // the master never sent what the member lacked, and could have sent what had been replaced.
    history_of(9_204, Era::Whole);
    // What was decided came to be known while a log was being adopted that began before it.
    history_of(37_000, Era::Whole);
}

#[test]
fn one_seed_is_one_history() {
    SUITE.assert_repeatable(&[3, 4]);
}

#[test]
fn a_broken_rule_is_noticed() {
    let soon = [
        Mutant::TicketsWithoutTerms,
        Mutant::AcceptedUnsynced,
        Mutant::GivesUndecided,
        Mutant::TornCountsAsWhole,
    ];
    let rare = [Mutant::ReadWithoutLease, Mutant::OutcomeWithoutLease, Mutant::RunsWithoutEnd];
    check(history, MUTANT_SEEDS).assert_noticed(&soon, &rare);
}

/// Those that only show where the threads of a node are taken step by step, or disks hang.
#[test]
fn a_broken_rule_between_threads_is_noticed() {
    let soon = [Mutant::TruncatesUnprocessed, Mutant::HangsInOffice];
    check(history, STEPPED_SEEDS).assert_noticed(&soon, &[]);
}
