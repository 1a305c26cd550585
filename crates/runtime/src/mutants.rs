//! Mutants: rules that a test build can break, to prove that experiments detect it.

use base::mutants::{MutantList, activate};
use store::mutants::StoreMutant;

base::mutants! {
    /// Rule of runtime, replication, dynamo or node that tests break.
    pub enum Mutant {
        /// Treats a ticket as decided once its index is applied, even if it holds another master's
        /// entry.
        IgnoreTicketEpoch,
        /// Lets a master answer reads without a valid lease.
        ReadWithoutLease,
        /// Lets a master answer reads without a lease until it learns of another master.
        KeepMastershipWithoutLease,
        /// Answers an update that changes nothing without a valid lease.
        AnswerNoOpWithoutLease,
        /// Reads the log back across the end of a contiguous run of entries.
        ReadPastRunEnd,
        /// Lets a member send an entry that may be undecided to a member that lost it.
        SendUndecidedEntries,
        /// Treats a log with a torn tail as complete.
        TreatTornLogAsComplete,
        /// Reports a promise before the log states that it is durable.
        ReportPromiseEarly,
        /// Leaves accepted entries unsynced where the bucket does not require a sync.
        SkipAcceptSync,
        /// Evaluates updates of a bucket after it was sealed.
        EvaluateSealedBuckets,
        /// Answers reads of a bucket after it was sealed.
        ReadSealedBuckets,
        /// Skips copying again the rows that changed while a bucket was copied.
        SkipChangedRowCopy,
        /// Continues an attempt at a move after another attempt has copied.
        ResumeStaleMove,
        /// Lets a vnode mint as the same actor after a crash.
        ReuseActorAfterCrash,
        /// Forgets that a vnode crashed once the next incarnation shuts down cleanly.
        ForgetUncleanShutdown,
        /// Lets a write without a context replace the coordinator's values.
        OverwriteWithoutContext,
        /// Logs the index entries of a row in a batch before that of the row.
        LogEntriesApart,
        /// Leaves the index entries of a row that its change takes away.
        KeepStaleEntries,
        /// Builds an index from rows as they were, not as they are once their entries are added.
        BuildFromSnapshotAlone,
        /// Counts positions of feeds from the first life again after a crash.
        ReuseFeedLife,
        /// Leaves out the feed entries of rows that are merged from other replicas.
        MergeWithoutFeedEntry,
        /// Notes the end of a comparison, not its beginning, as this node's position of a bridge.
        NoteBridgeAtEnd,
        /// Shows entries of indexes on which replicas differ, without reading their keys.
        ShowUnverifiedEntries,
        /// Forgets the outcomes of sessions, so that a retry applies again.
        ForgetSessionOutcomes,
        /// Deletes a hint before the node that it names has answered.
        DeleteHintBeforeAck,
        /// Lets an owner reap a tombstone without asking any other node.
        ReapWithoutQuery,
        /// Queries only owners before a tombstone is reaped, not the nodes that keep hinted copies.
        ReapWithoutFallbacks,
        /// Replaces the local row by another replica's instead of merging both.
        OverwriteInsteadOfMerge,
        /// Lets a former owner delete rows without asking the current owners for theirs.
        DeleteLeftoversUnchecked,
        /// Reports a partition as received before its rows are.
        ReportUnreceivedPartition,
        /// Reads from the future owners of a partition instead of the current ones.
        ReadFromFutureOwners,
        /// Counts current owners only, not future ones, for a write that requires primaries.
        CountCurrentOwnersOnly,
        /// Lets a future owner of a partition drop rows of it that it kept as hints.
        DropHintsAsFutureOwner,
        /// Deletes rows of partitions that the node does not own without asking the owners.
        DropUnownedRowsUnchecked,
        /// Searches only once, and misses rows that arrive after a partition was cleared.
        SearchLeftoversOnce,
        /// Sends the newest epoch with a request whose target was chosen by an older ring.
        SendNewestRingEpoch,
        /// Deletes a hint although the key has other owners by now.
        DeleteHintDespiteOtherOwners,
        /// Truncates the log past records that their group has not processed.
        TruncateUnprocessedRecords,
        /// Applies decided entries while a snapshot is being installed.
        ApplyDuringInstall,
        /// Lets a master stay master while its disk hangs.
        StayMasterWithHungDisk,
        /// Lets a member that was removed while it was away count as a member for ever.
        KeepRemovedMember,
        /// Lets a request scan any number of rows under its group's lock.
        EvaluateWithoutBudget,
        /// Begins each sweep of expired rows where the first one began.
        RestartExpirySweep,
        /// Returns the last fully applied index with every answer, whatever rows it shows.
        ReturnStaleIndex,
        /// Leaves the count of a bucket as it is when a sweep removes an expired row.
        SweepUncounted,
        /// Keeps what a failed update, or a failed step of a sequence, has counted.
        KeepUndoneCounts,
        /// Completes a count with the rows of a snapshot, without the changes since.
        CountWithoutChanges,
        /// Leaves the index entries of a row in place when the row changes or goes.
        KeepOldIndexEntries,
        /// Lets two keys have the same term of a unique index.
        SkipUniqueCheck,
        /// Builds an index from rows that are applied, and misses those that are not.
        BuildFromAppliedRows,
        /// Adds an entry to the feed of a bucket for every row that another group sends.
        AddArrivingRows,
        /// Gives all feed entries of an entry of the log the same position.
        ReuseFeedPositions,
        /// Builds a feed of all rows, also of those that have an entry.
        BuildFeedOfAllRows,
        /// Removes deletes from a feed without noting that readers may miss them.
        ForgetFeedFloor,
        /// Decides about rights only where a forwarded request is opened, not where requests enter.
        SkipFrontEndRights,
    }
}

/// Breaks the rule of this name in the whole process, if this is a test build (feature `mutants`).
/// Errors: a text with the reason.
pub fn break_rule(name: &str) -> Result<(), String> {
    activate(name, &[StoreMutant::NAMES, Mutant::NAMES])
}
