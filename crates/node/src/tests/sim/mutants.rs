//! Broken rules that judges of whole nodes must notice, and their words.

use runtime::mutants::Mutant;
use sim::{History, MutationCheck};

/// What the judges say of a violation.
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

/// Rules that show in other words: what they are for is that this does not happen.
///
/// A log truncated too early is told by the next process, which does not start; a master that stays
/// though its disk hangs by the writes that stop; a removed member that takes itself for one by the
/// end that does not come.
const OTHERWISE: [(Mutant, &str); 3] = [
    (Mutant::RemovedKeepsPart, "no progress: "),
    (Mutant::TruncatesUnprocessed, "the log lacks value"),
    (Mutant::HangsInOffice, ": a disk hangs"),
];

const FIRST: [(Mutant, u64); 2] =
    [(Mutant::AcceptedUnsynced, 900), (Mutant::TornCountsAsWhole, 600)];

/// A check of judges within so many histories.
pub(super) fn check(history: History, within: u64) -> MutationCheck<'static, Mutant> {
    let (verdicts, otherwise, first) = (&VERDICTS, &OTHERWISE, &FIRST);
    MutationCheck { history, within, verdicts, otherwise, first }
}

/// The control of the control: a panic that is nobody's verdict is not taken for one.
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
