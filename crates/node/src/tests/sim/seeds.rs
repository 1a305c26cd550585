//! Suites of histories of consistent groups.

use super::mutants::check;
use super::world::{Era, World};
use runtime::mutants::Mutant;
use sim::{Counts, Suite};

/// Length of the trouble in a history, in simulated seconds.
const SECONDS: u64 = 15;
/// Number of histories within which broken rules between threads must be noticed.
const STEPPED_SEEDS: u64 = 1_000;
/// Number of histories within which every broken rule must be noticed.
const MUTANT_SEEDS: u64 = 5_000;

const SUITE: Suite = Suite {
    name: "consistent groups",
    seeds: 500,
    seeds_long: 20_000,
    threads: 2,
    history,
    required_events: &[
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
        "link end",
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

/// Runs a history as drawn in an older era, for seeds that were found then.
fn history_of(seed: u64, era: Era) -> (u64, Counts) {
    lived(World::of(seed, era))
}

fn lived(mut world: World) -> (u64, Counts) {
    world.run(SECONDS * 1_000_000);
    world.heal();
    world.lives_through_a_hang();
    world.finish_and_check()
}

#[test]
fn consistent_histories_lose_no_write_and_read_nothing_stale() {
    SUITE.run();
}

/// Seeds that once failed in longer runs.
#[test]
fn histories_of_past_failures_hold() {
    // Entries staged behind a stop-sign, above the promised ballot: a collapse of the log dropped
    // the first of them, and the next process found a log that contradicted itself.
    history_of(1_754, Era::Reliable);
    // A master whose memory held entries longer than its log kept trying to send them after memory
    // had dropped them, too; the member was never told to take a snapshot.
    history_of(2_107, Era::Reliable);
    // Entries staged before the newest run: a checked subtraction went below 0.
    history_of(5_737, Era::Reliable);
    // After a snapshot, a new process took the log's older entries for those that the snapshot had
    // replaced: the master never sent the entries that the member lacked, and could have sent
    // outdated ones.
    history_of(9_204, Era::Whole);
    // Entries became known as decided while a log was being adopted that started before them.
    history_of(37_000, Era::Whole);
}

#[test]
fn seed_determines_the_history() {
    SUITE.assert_repeatable(&[3, 4]);
}

#[test]
fn mutants_of_consistent_groups_are_detected() {
    let soon = [
        Mutant::IgnoreTicketEpoch,
        Mutant::SkipAcceptSync,
        Mutant::SendUndecidedEntries,
        Mutant::TreatTornLogAsComplete,
    ];
    check(history, MUTANT_SEEDS).assert_detected(&soon, &[Mutant::ReadPastRunEnd]);
}

/// Checks rules that only matter where a node's threads run step by step, or disks hang.
#[test]
fn mutants_between_threads_are_detected() {
    let soon = [Mutant::TruncateUnprocessedRecords, Mutant::StayMasterWithHungDisk];
    check(history, STEPPED_SEEDS).assert_detected(&soon, &[]);
}
