//! Mutation checks of whole nodes: the judges' verdicts.

use runtime::mutants::Mutant;
use sim::{History, MutationCheck};

/// Phrases of the judges' verdicts.
const VERDICTS: [&str; 23] = [
    "a count is wrong: ",
    "an index is wrong: ",
    "a query is wrong: ",
    "a feed is wrong: ",
    "costs too much: ",
    "applied during an installation: ",
    "two values at index",
    "values are applied in order",
    "given for value",
    "lost: ",
    "stale: ",
    "missed: ",
    "phantom: ",
    "resurrected: ",
    "lost or stale: ",
    " was never written",
    " was read before it was written",
    " was read, and its write was refused",
    "refused, and written: ",
    " had to stand at once",
    "an attempt was lost, or applied twice",
    "nodes differ at index",
    ", which replaced it",
];

/// Rules that are noticed by another phrase than a verdict, since they exist to prevent this
/// failure.
///
/// A log that was truncated too early is noticed by the next process, which does not start. A
/// master that stays in office with a hanging disk is noticed by the missing writes. A removed
/// member that takes itself for a member is noticed because the history does not end.
const OTHER_FAILURES: [(Mutant, &str); 3] = [
    (Mutant::KeepRemovedMember, "no progress: "),
    (Mutant::TruncateUnprocessedRecords, "the log lacks entry"),
    (Mutant::StayMasterWithHungDisk, ": a disk hangs"),
];

const FIRST_SEEDS: [(Mutant, u64); 4] = [
    (Mutant::SkipAcceptSync, 2_100),
    (Mutant::TreatTornLogAsComplete, 3_800),
    (Mutant::DeleteLeftoversUnchecked, 4_400),
    (Mutant::ReadPastRunEnd, 4_800),
];

/// Returns a mutation check with this number of histories.
pub(super) fn check(history: History, seeds_max: u64) -> MutationCheck<'static, Mutant> {
    let (verdicts, other_failures, first_seeds) = (&VERDICTS, &OTHER_FAILURES, &FIRST_SEEDS);
    MutationCheck { history, seeds_max, verdicts, other_failures, first_seeds }
}

/// Control of the mutation checks: a panic that is no verdict is not taken for one.
#[test]
fn product_panic_does_not_count_as_mutant_verdict() {
    let panics: History = |_| panic!("assertion failed: applied <= decided");
    let finds: History = |_| panic!("lost: k = v");
    let mutant = Mutant::SendUndecidedEntries;
    let is_verdict = |history| {
        let check = check(history, 1);
        check.is_verdict(mutant, &check.failure(mutant, 0).expect("it fails"))
    };
    assert!(!is_verdict(panics) && is_verdict(finds));
}
