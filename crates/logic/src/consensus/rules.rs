//! Safety rules by name, so that a test can break one at a time and show that the simulator notices
//! (`tests/cluster/mutants.rs`).
//!
//! `docs/inside/consensus.md` cites the papers in full; "ours" marks rules that no paper has.
//!
//! Outside tests none can be broken: [`broken`] is a constant there, and compiles to nothing
//! (`base::mutants`).

base::mutants! {
    /// Safety rule.
    pub(super) enum Rule {
        /// A candidate sends its `Prepare` only once its own promise is on disk.
        /// Source: Paxos Made Simple, 2.5 (a promise is in stable storage before it is sent).
        OwnPromiseOnDisk,
        /// A voter sends its promise only once it is on disk, and reports its log only as far as it
        /// is.
        /// Source: Paxos Made Simple, 2.5.
        PromisedLogOnDisk,
        /// A replica promises no ballot below one that it promised.
        /// Source: Paxos Made Simple, 2.2 (P1a).
        PromisesRise,
        /// A replica accepts a master's messages only under the last promised ballot.
        /// Source: Sequence Paxos (*Accept*, *Decide* of the promised round alone).
        OnlyPromisedBallot,
        /// A replica accepts a master's messages only once its promise to it is on disk.
        /// Source: Gray and Cheriton 1989, with Paxos Made Simple, 2.5.
        PromiseBeforeGrants,
        /// A value counts as accepted once it is on disk.
        /// Source: Paxos Made Simple, 2.5.
        AcceptedOnDisk,
        /// The master counts itself, too, only once the entry is on its disk.
        /// Source: Ongaro 2014, 10.2.1 (a leader may write beside its followers).
        MasterCountsItsDisk,
        /// More than half make a majority.
        /// Source: Paxos Made Simple, 2.2 (any two majorities meet).
        MoreThanHalf,
        /// In an even group, half is no majority.
        /// Source: Paxos Made Simple, 2.2.
        HalfIsNoMajority,
        /// If fewer than a majority save an entry, more than a majority elect.
        /// Source: Flexible Paxos, 2016.
        QuorumsMeet,
        /// Learners decide nothing.
        /// Source: Ongaro 2014, 4.2.1 (members that have no vote).
        LearnersDontCount,
        /// Learners' promises do not count in an election.
        /// Source: Ongaro 2014, 4.2.1.
        LearnersDontElect,
        /// Answers to an attempt that is over are ignored.
        /// Source: Paxos Made Simple, 2.2 (a promise answers one number).
        AnswersToCurrentAttempt,
        /// A candidate adopts the log accepted under the highest ballot, not the longest.
        /// Source: Sequence Paxos (*Prepare*: the highest accepted round, then the length).
        HighestBallotFirst,
        /// Logs accepted under different ballots agree only in decided entries.
        /// Source: Sequence Paxos (*AcceptSync* begins at what is decided).
        AgreedIsDecided,
        /// A log is adopted as a whole: the old one stays until the new one is complete.
        /// Source: ours: *AcceptSync* in pieces; the paper has it in one.
        AdoptedAsAWhole,
        /// Entries staged under one ballot are void under the next.
        /// Source: ours, of the same pieces.
        StagedUnderOneBallot,
        /// A master decides its inherited entries before it reads or writes.
        /// Source: Ongaro 2014, 3.6.2 and 6.4 (a leader first decides something of its own term).
        InheritedFirst,
        /// A decided index applies only to a log accepted under that ballot.
        /// Source: Sequence Paxos (*Decide* in the round that was accepted).
        DecidedInThisLog,
        /// Without a lease a read waits for the confirmation of a majority.
        /// Source: Ongaro 2014, 6.4 (read index).
        ReadConfirmedByMajority,
        /// That confirmation must answer a heartbeat sent after the read arrived.
        /// Source: Ongaro 2014, 6.4.
        ReadConfirmedAfterArrival,
        /// A voter that granted a lease promises no other candidate anything until its end.
        /// Source: Gray and Cheriton 1989.
        GrantForbidsPromises,
        /// A voter that granted a lease does not stand for election until its end.
        /// Source: Gray and Cheriton 1989.
        GrantForbidsStanding,
        /// The end of a connection shortens a voter's patience, never its promise.
        /// Source: ours, of Gray and Cheriton 1989 (a lease ends by its term or by its holder).
        PromiseOutlivesLink,
        /// A restarted voter behaves as if it had granted a lease just now.
        /// Source: Gray and Cheriton 1989 (after a crash, wait for the longest lease).
        RestartRemembersGrant,
        /// The master's clock may be slow: its lease ends `e` early.
        /// Source: Gray and Cheriton 1989 (clocks that drift at most by `e`).
        LeaseEndsEarly,
        /// A voter's clock may be fast: its grant ends `e` late.
        /// Source: Gray and Cheriton 1989.
        GrantEndsLate,
        /// A grant lasts from the time the heartbeat was sent, not from the arrival of its answer.
        /// Source: Gray and Cheriton 1989 (the holder's term begins before the granter's).
        GrantFromSent,
        /// A torn log may have held more: other members' logs must show that none of it was
        /// decided.
        /// Source: Alagappan et al. 2018.
        TornMayHaveAccepted,
        /// A tear is mended only by an answer to the same tear.
        /// Source: Liskov and Cowling 2012, 4.3 (a recovering replica's answers carry its nonce).
        LogEndOfThisTear,
        /// A witness keeps the entries that a voter with rows may lack.
        /// Source: ours, of witnesses: Paxos Made Simple, 2.2, of those that hold the data.
        KeptByAll,
        /// A follower reports staged entries; otherwise a log longer than one flight never arrives.
        /// Source: ours, of *AcceptSync* in pieces: for progress.
        StagedIsReported,
    }
}

/// Returns true if a test has broken this rule.
#[inline(always)]
pub(super) fn broken(rule: Rule) -> bool {
    rule.is_active()
}
