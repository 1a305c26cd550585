//! The rules that safety hangs on, by name, so that a test can break one at a time and show that
//! the simulator notices (`tests/cluster/mutants.rs`).
//!
//! The papers stand in full in `docs/inside/consensus.md`; "ours" is what no paper has.
//!
//! Outside tests none can be broken: [`broken`] is a constant there, and nothing of it is left in
//! the compiled code.

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// A candidate asks others only once its own promise is on disk.
    /// Source: Paxos Made Simple, 2.5 (a promise is in stable storage before it is told).
    OwnPromiseOnDisk,
    /// A voter's promise is told only once it is on disk, and a log only as far as it is.
    /// Source: Paxos Made Simple, 2.5.
    PromisedLogOnDisk,
    /// Nothing is promised below what was promised.
    /// Source: Paxos Made Simple, 2.2 (P1a).
    PromisesRise,
    /// A master is listened to under the ballot promised last, and no other.
    /// Source: Sequence Paxos (*Accept*, *Decide* of the promised round alone).
    OnlyThePromised,
    /// A master is listened to once the promise to it is on disk.
    /// Source: Gray and Cheriton 1989, with Paxos Made Simple, 2.5.
    PromiseBeforeGrants,
    /// A value counts as accepted once it is on disk.
    /// Source: Paxos Made Simple, 2.5.
    AcceptedOnDisk,
    /// The master counts itself, too, once the value is on its disk.
    /// Source: Ongaro 2014, 10.2.1 (a leader may write beside its followers).
    MasterCountsItsDisk,
    /// More than half make a majority.
    /// Source: Paxos Made Simple, 2.2 (any two majorities meet).
    MoreThanHalf,
    /// In an even group, half is no majority.
    /// Source: Paxos Made Simple, 2.2.
    HalfIsTooFew,
    /// Where fewer than a majority save a value, more than a majority elect.
    /// Source: Flexible Paxos, 2016.
    QuorumsMeet,
    /// Learners decide nothing.
    /// Source: Ongaro 2014, 4.2.1 (members that have no vote).
    LearnersDontCount,
    /// Learners' promises elect nobody.
    /// Source: Ongaro 2014, 4.2.1.
    LearnersElectNobody,
    /// Answers to an attempt that is over say nothing any more.
    /// Source: Paxos Made Simple, 2.2 (a promise answers one number).
    AnswersToThisAttempt,
    /// The log to adopt is the one accepted under the highest ballot, not the longest.
    /// Source: Sequence Paxos (*Prepare*: the highest accepted round, then the length).
    HighestBallotFirst,
    /// Logs accepted under different ballots agree only in what is decided.
    /// Source: Sequence Paxos (*AcceptSync* begins at what is decided).
    AgreedIsDecided,
    /// A log is adopted as a whole: what it replaces stays until all of it is there.
    /// Source: ours: *AcceptSync* in pieces; the paper has it in one.
    AdoptedAsAWhole,
    /// What was staged under one ballot is void under the next.
    /// Source: ours, of the same pieces.
    StagedUnderOneBallot,
    /// What a master inherited is decided before it reads or writes.
    /// Source: Ongaro 2014, 3.6.2 and 6.4 (a leader first decides something of its own term).
    InheritedFirst,
    /// What is said to be decided is so in a log accepted under that ballot.
    /// Source: Sequence Paxos (*Decide* in the round that was accepted).
    DecidedInThisLog,
    /// Without a lease a read waits for a majority's word.
    /// Source: Ongaro 2014, 6.4 (read index).
    ReadAsksAMajority,
    /// That word must answer a question put after the read came.
    /// Source: Ongaro 2014, 6.4.
    ReadAsksAnew,
    /// Who granted a lease promises nobody else anything until it ended.
    /// Source: Gray and Cheriton 1989.
    GrantForbidsPromises,
    /// Who granted a lease does not stand itself until it ended.
    /// Source: Gray and Cheriton 1989.
    GrantForbidsStanding,
    /// A restarted voter behaves as if it had granted a lease just now.
    /// Source: Gray and Cheriton 1989 (after a crash, wait for the longest lease).
    RestartRemembersGrant,
    /// The master's clock may be slow: its lease ends `e` early.
    /// Source: Gray and Cheriton 1989 (clocks that drift at most by `e`).
    LeaseEndsEarly,
    /// A voter's clock may be fast: its grant ends `e` late.
    /// Source: Gray and Cheriton 1989.
    GrantEndsLate,
    /// A grant lasts from when the heartbeat was sent, not from when its answer came.
    /// Source: Gray and Cheriton 1989 (the holder's term begins before the granter's).
    GrantFromSent,
    /// A torn log may have held more: others must show that none of it was decided.
    /// Source: Alagappan et al. 2018.
    TornMayHaveAccepted,
    /// What makes a tear good was said of that very tear.
    /// Source: Liskov and Cowling 2012, 4.3 (a recovering replica's answers carry its nonce).
    LevelOfThisTear,
    /// A witness keeps what a voter that holds the data may lack.
    /// Source: ours, of witnesses: Paxos Made Simple, 2.2, of those that hold the data.
    KeptByAll,
    /// A follower tells what it staged, or a log longer than one flight never arrives.
    /// Source: ours, of *AcceptSync* in pieces: for progress.
    StagedIsTold,
}

/// Whether a test has broken this rule.
#[cfg(not(test))]
pub(super) const fn broken(_rule: Rule) -> bool {
    false
}

#[cfg(test)]
pub(super) use super::tests::broken;
