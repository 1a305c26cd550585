//! Mutation checks of whole nodes: the judges' verdicts.

use runtime::mutants::Mutant;
use sim::{History, MutationCheck};

/// Phrases of the judges' verdicts.
const VERDICTS: [&str; 17] = [
    "costs too much: ",
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
const OTHERWISE: [(Mutant, &str); 3] = [
    (Mutant::RemovedKeepsPart, "no progress: "),
    (Mutant::TruncatesUnprocessed, "the log lacks value"),
    (Mutant::HangsInOffice, ": a disk hangs"),
];

const FIRST: [(Mutant, u64); 2] =
    [(Mutant::AcceptedUnsynced, 900), (Mutant::TornCountsAsWhole, 600)];

/// Returns a mutation check with this number of histories.
pub(super) fn check(history: History, within: u64) -> MutationCheck<'static, Mutant> {
    let (verdicts, otherwise, first) = (&VERDICTS, &OTHERWISE, &FIRST);
    MutationCheck { history, within, verdicts, otherwise, first }
}

/// Control of the mutation checks: a panic that is no verdict is not taken for one.
#[test]
fn a_panic_of_the_product_is_no_verdict() {
    let panics: History = |_| panic!("assertion failed: applied <= decided");
    let finds: History = |_| panic!("lost: k = v");
    let mutant = Mutant::GivesUndecided;
    let is_verdict = |history| {
        let check = check(history, 1);
        check.is_verdict(mutant, &check.failure(mutant, 0).expect("it fails"))
    };
    assert!(!is_verdict(panics) && is_verdict(finds));
}
