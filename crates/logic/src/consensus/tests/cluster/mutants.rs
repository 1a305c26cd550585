//! Each rule broken once: a simulator that notices nothing would prove nothing (F-59).

use super::seeds::live;
use crate::consensus::rules::Rule;
use crate::consensus::tests::broken::while_broken;
use std::panic::catch_unwind;

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

/// The first history that shows that a rule is broken, and how.
fn noticed(rule: Rule, within: u64) -> Option<(u64, String)> {
    while_broken(rule, || {
        (0..within).find_map(|seed| {
            let panic = catch_unwind(|| live(seed)).err()?;
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
            Some((seed, said.unwrap_or_default()))
        })
    })
}

fn notice_all(rules: &[Rule], within: u64) {
    let mut missed = Vec::new();
    for rule in rules {
        match noticed(*rule, within) {
            Some((seed, how)) => println!("{rule:?}: seed {seed}: {how:.100}"),
            None => missed.push(rule),
        }
    }
    assert!(missed.is_empty(), "{missed:?} may be broken, and {within} histories don't notice");
}

#[test]
fn a_broken_rule_is_noticed_soon() {
    notice_all(&PLAIN, 1_000);
}

#[test]
fn a_broken_rule_is_noticed_in_the_end() {
    if std::env::var("CREDENZA_TEST_LONG").is_ok() {
        notice_all(&SUBTLE, 30_000);
    } else {
        // The two that showed first.
        notice_all(&[Rule::AnswersToThisAttempt, Rule::HighestBallotFirst], 1_000);
    }
}
