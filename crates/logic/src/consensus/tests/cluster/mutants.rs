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

fn is_verdict(rule: Rule, said: &str) -> bool {
    let named = OTHERWISE.iter().filter(|(other, _)| *other == rule).map(|(_, words)| *words);
    VERDICTS.into_iter().chain(named).any(|words| said.contains(words))
}

/// The first history whose judge sees that a rule is broken, and what it says; else what was said
/// instead.
fn noticed(rule: Rule, within: u64) -> Result<(u64, String), Vec<String>> {
    let mut otherwise = Vec::new();
    let first = LATER.iter().find(|(other, _)| *other == rule).map_or(0, |(_, seed)| *seed);
    let seen = while_broken(rule, || {
        (first..first + within).find_map(|seed| {
            let panic = catch_unwind(|| live(seed)).err()?;
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
            let said = said.unwrap_or_default();
            if is_verdict(rule, &said) {
                return Some((seed, said));
            }
            otherwise.push(said);
            None
        })
    });
    otherwise.truncate(3);
    seen.ok_or(otherwise)
}

fn notice_all(rules: &[Rule], within: u64) {
    let mut missed = Vec::new();
    for rule in rules {
        match noticed(*rule, within) {
            Ok((seed, how)) => println!("{rule:?}: seed {seed}: {how:.100}"),
            Err(said) => missed.push(format!("{rule:?}, but for {said:.100?}")),
        }
    }
    let missed = missed.join("\n");
    assert!(missed.is_empty(), "the judge of {within} histories does not see broken:\n{missed}");
}

/// The control of the control: a panic that is nobody's verdict is not taken for one.
#[test]
fn a_panic_of_the_replica_is_no_verdict() {
    for said in ["left in peace, one leads", "assertion failed: self.saved <= self.last", ""] {
        assert!(PLAIN.iter().chain(&SUBTLE).all(|rule| !is_verdict(*rule, said)), "{said}");
    }
    assert!(is_verdict(Rule::MoreThanHalf, "ballot 3 of n2 is led twice"));
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
