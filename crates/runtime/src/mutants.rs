//! Ways in which this code could be wrong, for tests that must notice them.

store::flaws! {
    /// A ticket is good once its index is applied, whoever's value stands there.
    TicketsWithoutTerms,
    /// A master answers reads whether or not its lease lasts.
    ReadWithoutLease,
    /// The same, and it is master until it hears of another: it has no lease at all.
    MasterWithoutLease,
    /// An update that changes nothing is answered whether or not the lease lasts.
    OutcomeWithoutLease,
    /// Reading the log back runs on across the end of a run.
    RunsWithoutEnd,
    /// A member gives a value to one whose log lost it whether or not it is decided.
    GivesUndecided,
    /// A log whose tail was torn counts as whole.
    TornCountsAsWhole,
    /// A promise is told before the log states that it is durable.
    Unstated,
    /// What is accepted is not synced where the bucket does not ask for it.
    AcceptedUnsynced,
    /// Updates of a bucket are evaluated where it was sealed.
    EvaluatesBehindSeals,
    /// Reads of a bucket are answered where it was sealed.
    ReadsBehindSeals,
    /// What changed while a bucket was copied is not copied again.
    CopiesOnce,
    /// An attempt at a move goes on where another has copied.
    CopiesOverOthers,
    /// A vnode that was stopped by force goes on minting as the actor it was.
    MintsAsBefore,
    /// That a vnode was stopped by force is forgotten with the next life that ends well.
    ForgetsTheFall,
    /// A write without a context replaces what its coordinator has.
    BlindReplaces,
    /// What a session was answered is forgotten: a retry applies again.
    RetriesApplyAgain,
    /// A hint goes before the node it names has answered.
    HintGoesFirst,
    /// An owner drops a tombstone without asking anyone.
    ReapsAlone,
    /// Only owners are asked whether a tombstone may go.
    ReapsWithoutGuests,
    /// What another replica has takes the place of what is here.
    MergeOverwrites,
    /// A former owner lets go of rows, whatever those have who own them now.
    LetsGoAlone,
    /// A node says that it has received a partition before it has.
    ReceivesNothing,
    /// Who is to have a partition is asked in place of who has it.
    AsksReceivers,
    /// A write that asks for owners counts those of now, and not those who will be.
    CountsOwnersOfNow,
    /// Who is to have a partition drops rows of it that it kept for others.
    GuestsForget,
    /// Rows that lie where nobody knows of them are dropped.
    DropsStrays,
    /// Who has let go of a partition does not look whether more of it came meanwhile.
    LooksOnce,
    /// Who was chosen by an older ring hears the epoch of the newest.
    SaysTheNewest,
    /// A hint goes though the key has other owners by now.
    HintGoesAnywhere,
    /// The log is truncated past records that their group has not processed.
    TruncatesUnprocessed,
    /// A master whose disk hangs stays master.
    HangsInOffice,
    /// An answer names the last index that was applied as a whole, whatever it shows.
    IndexOfThePast,
}

#[cfg(debug_assertions)]
thread_local! {
    /// The rule that is broken on this thread.
    static BROKEN: std::cell::Cell<Option<Flaw>> = const { std::cell::Cell::new(None) };
}

/// Breaks a rule on this thread, or none: for tests, whose programs keep debug assertions.
#[cfg(debug_assertions)]
pub fn break_on_thread(flaw: Option<Flaw>) {
    BROKEN.set(flaw);
}

/// Breaks the rule of this name in the whole process, if this is a build for tests (the feature
/// `mutants`), and says in words why not.
pub fn break_rule(name: &str) -> Result<(), String> {
    store::flaws::arm(name, NAMES)
}

/// True if a test has broken this rule; never in a program that serves.
#[inline(always)]
pub fn flawed(_flaw: Flaw) -> bool {
    #[cfg(debug_assertions)]
    if BROKEN.get() == Some(_flaw) {
        return true;
    }
    #[cfg(feature = "mutants")]
    return store::flaws::is_broken(NAMES[_flaw as usize]);
    #[cfg(not(feature = "mutants"))]
    false
}
