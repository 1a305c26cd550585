//! Each rule broken once: a simulator that notices nothing would prove nothing (F-59).

use super::seeds::run_history;
use crate::consensus::rules::Rule;
use sim::{MutationCheck, is_long};

/// Rules whose absence shows in nearly every history.
const PLAIN: [Rule; 21] = [
    Rule::OwnPromiseOnDisk,
    Rule::PromisedLogOnDisk,
    Rule::PromisesRise,
    Rule::OnlyThePromised,
    Rule::PromiseBeforeGrants,
    Rule::AcceptedOnDisk,
    Rule::MasterCountsItsDisk,
    Rule::MoreThanHalf,
    Rule::HalfIsTooFew,
    Rule::QuorumsMeet,
    Rule::LearnersDontCount,
    Rule::LearnersElectNobody,
    Rule::AgreedIsDecided,
    Rule::StagedUnderOneBallot,
    Rule::InheritedFirst,
    Rule::DecidedInThisLog,
    Rule::ReadAsksAMajority,
    Rule::GrantForbidsStanding,
    Rule::RestartRemembersGrant,
    Rule::GrantFromSent,
    Rule::TornMayHaveAccepted,
];

/// Rules whose absence shows in one history of some thousands: the seed from which on they are
/// looked for, so that the others need not be played each time.
const LATER: [(Rule, u64); 2] = [(Rule::QuorumsMeet, 1_500), (Rule::GrantFromSent, 3_500)];

/// Rules whose absence needs bad luck to show.
///
/// One more, `StagedIsTold`, is held by the story `adopts_more_than_one_flight.txt`: few histories
/// have so long a log to adopt.
const SUBTLE: [Rule; 8] = [
    Rule::ReadAsksAnew,
    Rule::AnswersToThisAttempt,
    Rule::HighestBallotFirst,
    Rule::AdoptedAsAWhole,
    Rule::GrantForbidsPromises,
    Rule::LeaseEndsEarly,
    Rule::GrantEndsLate,
    Rule::KeptByAll,
];

/// What the judge says of a violation. Any other panic, an assertion of the replica's own included,
/// is no proof that the judge sees the rule broken.
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

/// Rules whose absence the judge can't see before something else breaks: by which other words it
/// shows.
///
/// A promise that falls contradicts the replica's own invariant in the step that saves it, before
/// anything is said that the judge could hold against the disk.
const OTHERWISE: [(Rule, &str); 1] = [(Rule::PromisesRise, "saved <= promised")];

const SEEDS: MutationCheck<Rule> = MutationCheck {
    history: run_history,
    within: 1_000,
    verdicts: &VERDICTS,
    otherwise: &OTHERWISE,
    first: &LATER,
};

/// The control of the control: a panic that is nobody's verdict is not taken for one.
#[test]
fn a_panic_of_the_replica_is_no_verdict() {
    for said in ["without faults, one leads", "assertion failed: self.saved <= self.last", ""] {
        assert!(PLAIN.iter().chain(&SUBTLE).all(|rule| !SEEDS.is_verdict(*rule, said)), "{said}");
    }
    assert!(SEEDS.is_verdict(Rule::MoreThanHalf, "ballot 3 of n2 is led twice"));
}

#[test]
fn a_broken_rule_is_noticed_soon() {
    SEEDS.assert_noticed(&PLAIN, &[]);
}

#[test]
fn a_broken_rule_is_noticed_in_the_end() {
    if is_long() {
        MutationCheck { within: 30_000, ..SEEDS }.assert_noticed(&SUBTLE, &[]);
    } else {
        // The two that showed first.
        SEEDS.assert_noticed(&[Rule::AnswersToThisAttempt, Rule::HighestBallotFirst], &[]);
    }
}
