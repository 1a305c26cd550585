//! Mutation checks of the protocol: each rule is broken once, and the judge must notice (F-59).

use super::seeds::run_history;
use crate::consensus::rules::Rule;
use sim::{MutationCheck, is_long};

/// Rules whose absence shows in nearly every history.
const PLAIN: [Rule; 22] = [
    Rule::OwnPromiseOnDisk,
    Rule::PromisedLogOnDisk,
    Rule::PromisesRise,
    Rule::OnlyPromisedBallot,
    Rule::PromiseBeforeGrants,
    Rule::AcceptedOnDisk,
    Rule::MasterCountsItsDisk,
    Rule::MoreThanHalf,
    Rule::HalfIsNoMajority,
    Rule::QuorumsMeet,
    Rule::LearnersDontCount,
    Rule::LearnersDontElect,
    Rule::AgreedIsDecided,
    Rule::StagedUnderOneBallot,
    Rule::InheritedFirst,
    Rule::DecidedInThisLog,
    Rule::ReadConfirmedByMajority,
    Rule::GrantForbidsStanding,
    Rule::PromiseOutlivesLink,
    Rule::RestartRemembersGrant,
    Rule::GrantFromSent,
    Rule::TornMayHaveAccepted,
];

/// Rules whose absence shows in one history of some thousands, with the first seed to try, so that
/// earlier ones need not be run each time.
const FIRST_SEEDS: [(Rule, u64); 3] =
    [(Rule::QuorumsMeet, 1_500), (Rule::GrantFromSent, 3_500), (Rule::GrantEndsLate, 22_000)];

/// Rules whose absence shows only in rare interleavings.
///
/// Two others are checked elsewhere: `StagedIsReported` by `adopts_more_than_one_flight.txt`, a
/// story, since few histories have a log long enough to adopt in several flights, and `KeptByAll`
/// by the model checker, since 30,000 histories do not reach a witness that drops too much.
const SUBTLE: [Rule; 7] = [
    Rule::ReadConfirmedAfterArrival,
    Rule::AnswersToCurrentAttempt,
    Rule::HighestBallotFirst,
    Rule::AdoptedAsAWhole,
    Rule::GrantForbidsPromises,
    Rule::LeaseEndsEarly,
    Rule::GrantEndsLate,
];

/// Phrases of the judge's verdicts. Any other panic, such as an assertion of the replica, does not
/// prove that the judge notices the broken rule.
const VERDICTS: [&str; 9] = [
    "is led twice",
    "one leads by a ballot of one's own",
    ", decided was ",
    "read ahead of what is decided",
    "is void by now",
    "two values at index",
    " disks",
    "one configuration after the other",
    " is said, on disk are ",
];

/// Rules whose absence breaks something else before the judge can see it, with the phrase of that
/// failure.
///
/// A lowered promise contradicts the replica's own invariant in the step that saves it, before any
/// message is sent that the judge could compare with the disk.
const OTHER_FAILURES: [(Rule, &str); 1] = [(Rule::PromisesRise, "saved <= promised")];

const CHECK: MutationCheck<Rule> = MutationCheck {
    history: run_history,
    seeds_max: 1_000,
    verdicts: &VERDICTS,
    other_failures: &OTHER_FAILURES,
    first_seeds: &FIRST_SEEDS,
};

/// Control of the mutation checks: a panic that is no verdict does not count as one.
#[test]
fn unrelated_panic_does_not_count_as_mutant_detection() {
    for said in ["without faults, one leads", "assertion failed: self.saved <= self.last", ""] {
        assert!(PLAIN.iter().chain(&SUBTLE).all(|rule| !CHECK.is_verdict(*rule, said)), "{said}");
    }
    assert!(CHECK.is_verdict(Rule::MoreThanHalf, "ballot 3 of n2 is led twice"));
}

#[test]
fn plain_mutants_are_detected_within_1000_seeds() {
    CHECK.assert_detected(&PLAIN, &[]);
}

#[test]
fn subtle_mutants_are_detected() {
    if is_long() {
        MutationCheck { seeds_max: 30_000, ..CHECK }.assert_detected(&SUBTLE, &[]);
    } else {
        // The two whose absence showed first.
        CHECK.assert_detected(&[Rule::AnswersToCurrentAttempt, Rule::HighestBallotFirst], &[]);
    }
}
