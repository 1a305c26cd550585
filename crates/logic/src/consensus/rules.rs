//! The rules that safety hangs on, by name, so that a test can break one at a time and show that
//! the simulator notices (`tests/cluster/mutants.rs`).
//!
//! Outside tests none can be broken: [`broken`] is a constant there, and nothing of it is left in
//! the compiled code.

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// A candidate asks others only once its own promise is on disk.
    OwnPromiseOnDisk,
    /// A voter's promise is told only once it is on disk, and a log only as far as it is.
    PromisedLogOnDisk,
    /// Nothing is promised below what was promised.
    PromisesRise,
    /// A master is listened to under the ballot promised last, and no other.
    OnlyThePromised,
    /// A master is listened to once the promise to it is on disk.
    PromiseBeforeGrants,
    /// A value counts as accepted once it is on disk.
    AcceptedOnDisk,
    /// The master counts itself, too, once the value is on its disk.
    MasterCountsItsDisk,
    /// More than half make a majority.
    MoreThanHalf,
    /// In an even group, half is no majority.
    HalfIsTooFew,
    /// Where fewer than a majority save a value, more than a majority elect.
    QuorumsMeet,
    /// Learners decide nothing.
    LearnersDontCount,
    /// Learners' promises elect nobody.
    LearnersElectNobody,
    /// Answers to an attempt that is over say nothing any more.
    AnswersToThisAttempt,
    /// The log to adopt is the one accepted under the highest ballot, not the longest.
    HighestBallotFirst,
    /// Logs accepted under different ballots agree only in what is decided.
    AgreedIsDecided,
    /// A log is adopted as a whole: what it replaces stays until all of it is there.
    AdoptedAsAWhole,
    /// What was staged under one ballot is void under the next.
    StagedUnderOneBallot,
    /// What a master inherited is decided before it reads or writes.
    InheritedFirst,
    /// What is said to be decided is so in a log accepted under that ballot.
    DecidedInThisLog,
    /// Without a lease a read waits for a majority's word.
    ReadAsksAMajority,
    /// That word must answer a question put after the read came.
    ReadAsksAnew,
    /// Who granted a lease promises nobody else anything until it ended.
    GrantForbidsPromises,
    /// Who granted a lease does not stand itself until it ended.
    GrantForbidsStanding,
    /// A restarted voter behaves as if it had granted a lease just now.
    RestartRemembersGrant,
    /// The master's clock may be slow: its lease ends `e` early.
    LeaseEndsEarly,
    /// A voter's clock may be fast: its grant ends `e` late.
    GrantEndsLate,
    /// A grant lasts from when the heartbeat was sent, not from when its answer came.
    GrantFromSent,
    /// Whoever may have forgotten takes no part.
    DamagedStaysSilent,
    /// A witness keeps what a voter that holds the data may lack.
    KeptByAll,
    /// A follower tells what it staged, or a log longer than one flight never arrives.
    StagedIsTold,
}

/// Whether a test has broken this rule.
#[cfg(not(test))]
pub(super) const fn broken(_rule: Rule) -> bool {
    false
}

#[cfg(test)]
pub(super) use super::tests::broken;
