//! Mutants: rules that a test build can break, so that experiments prove that they notice it.

use base::mutants::{Mutation, arm};
use store::mutants::StoreMutant;

base::mutants! {
    /// Rule of runtime, replication, dynamo or node that tests break.
    pub enum Mutant {
        /// Treats a ticket as decided once its index is applied, even if it holds another master's
        /// entry.
        TicketsWithoutTerms,
        /// Lets a master answer reads without a valid lease.
        ReadWithoutLease,
        /// Lets a master answer reads without a lease until it hears of another master.
        MasterWithoutLease,
        /// Answers an update that changes nothing without a valid lease.
        OutcomeWithoutLease,
        /// Reads the log back across the end of a contiguous run of entries.
        RunsWithoutEnd,
        /// Lets a member send an entry that may be undecided to a member that lost it.
        GivesUndecided,
        /// Treats a log with a torn tail as whole.
        TornCountsAsWhole,
        /// Reports a promise before the log states that it is durable.
        Unstated,
        /// Leaves accepted entries unsynced where the bucket does not ask for a sync.
        AcceptedUnsynced,
        /// Evaluates updates of a bucket after it was sealed.
        EvaluatesBehindSeals,
        /// Answers reads of a bucket after it was sealed.
        ReadsBehindSeals,
        /// Skips copying again the rows that changed while a bucket was copied.
        CopiesOnce,
        /// Continues an attempt at a move after another attempt has copied.
        CopiesOverOthers,
        /// Lets a vnode mint as the same actor after a crash.
        MintsAsBefore,
        /// Forgets that a vnode crashed once the next incarnation shuts down cleanly.
        ForgetsTheFall,
        /// Lets a write without a context replace the coordinator's values.
        BlindReplaces,
        /// Forgets the outcomes of sessions, so that a retry applies again.
        RetriesApplyAgain,
        /// Deletes a hint before the node that it names has answered.
        HintGoesFirst,
        /// Lets an owner reap a tombstone without asking any other node.
        ReapsAlone,
        /// Asks only owners before a tombstone is reaped, not the nodes that keep copies for
        /// others.
        ReapsWithoutGuests,
        /// Replaces the local row by another replica's instead of merging both.
        MergeOverwrites,
        /// Lets a former owner delete rows without asking the current owners for theirs.
        LetsGoAlone,
        /// Reports a partition as received before its rows are.
        ReceivesNothing,
        /// Reads from the future owners of a partition instead of the current ones.
        AsksReceivers,
        /// Counts current owners only, not future ones, for a write that requires primaries.
        CountsOwnersOfNow,
        /// Lets a future owner of a partition drop rows of it that it kept as hints.
        GuestsForget,
        /// Deletes rows of partitions that the node does not own without asking the owners.
        DropsStrays,
        /// Does not look again for rows that arrive after a partition was cleared.
        LooksOnce,
        /// Sends the newest epoch with a request whose target was chosen by an older ring.
        SaysTheNewest,
        /// Deletes a hint although the key has other owners by now.
        HintGoesAnywhere,
        /// Truncates the log past records that their group has not processed.
        TruncatesUnprocessed,
        /// Lets a master stay master while its disk hangs.
        HangsInOffice,
        /// Lets a member that was removed while it was away count as a member for ever.
        RemovedKeepsPart,
        /// Lets a request look at any number of rows under its group's lock.
        EvaluatesWithoutBudget,
        /// Begins each sweep of expired rows where the first one began.
        SweepsFromTheStart,
        /// Returns the last fully applied index with every answer, whatever rows it shows.
        IndexOfThePast,
    }
}

/// Breaks the rule of this name in the whole process, if this is a test build (feature `mutants`).
/// Errors: a text that says why it can't.
pub fn break_rule(name: &str) -> Result<(), String> {
    arm(name, &[StoreMutant::NAMES, Mutant::NAMES])
}
