//! Effects of a step, which the host carries out. **The host must carry them out in the order in
//! which they are listed.**
//!
//! The `Save...` effects and [`Effect::Adopt`] become records of the log, appended in that order,
//! so that a crash always leaves a prefix of it. The replica waits for none of them: actions that
//! require a record on disk are requested in the step that handles [`super::Event::Saved`] or
//! [`super::Event::PromiseSaved`].

use super::event::ReadToken;
use super::message::Message;
use base::{Ballot, ConfigurationId, LogIndex, NodeId, Reason};

/// Effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Log a promise to take part in no lower ballot; always sync it; answer with `PromiseSaved`.
    SavePromise {
        /// Promised ballot.
        ballot: Ballot,
    },
    /// Log an entry of the log that is being adopted (a record of kind *accept*). It counts for
    /// nothing until the `Adopt` of the same ballot, so the entry that it will replace is kept
    /// beside it; needs no answer. The `Stage` of a higher ballot voids it, and so does a restart.
    Stage {
        /// Index of the entry.
        index: LogIndex,
        /// Ballot under which it will be accepted.
        ballot: Ballot,
    },
    /// Log that the log now counts as accepted under `ballot`: its entries up to `from`, then those
    /// staged up to `last`; anything else after `from` is void (a record of kind *truncate*).
    /// Always sync it; answer with `Saved`.
    Adopt {
        /// New ballot.
        ballot: Ballot,
        /// Last index that is kept; the staged entries follow. At most `last`.
        from: LogIndex,
        /// Last index of the adopted log.
        last: LogIndex,
    },
    /// Log an accepted entry (a record of kind *accept*): the proposed one, or the one that came
    /// with the message; answer with `Saved`.
    Save {
        /// Index of the entry.
        index: LogIndex,
        /// Ballot under which it is accepted.
        ballot: Ballot,
        /// Decided index at the time of the request; stored in the same record at no cost.
        decided: LogIndex,
    },
    /// Log the decided index (a record of kind *decided*), since no entry will soon carry it there.
    /// Needs no sync and no answer: losing it only costs a restart some work.
    SaveDecided {
        /// Last decided index.
        last: LogIndex,
    },
    /// Send a message, with the entries it names. It may be split into several that name the same
    /// range. If it can't be sent, answer with [`super::Event::Unsent`] if it named entries; else
    /// drop it.
    Send {
        /// Receiver.
        to: NodeId,
        /// Message to send.
        message: Message,
    },
    /// Get a snapshot from this node and install it, once all that was logged so far is synced;
    /// then answer with [`super::Event::Installed`], or with [`super::Event::SnapshotOutdated`].
    /// Repeated now and then while it is in progress.
    FetchSnapshot {
        /// Node that has a snapshot.
        from: NodeId,
    },
    /// Send messages to the members of another configuration, which is now in force. An earlier
    /// `Decided` covers its stop-sign.
    Configured {
        /// Id of the configuration.
        configuration: ConfigurationId,
        /// Index of the stop-sign with which it began.
        base: LogIndex,
    },
    /// End this replica: the group goes on without it, and it has not received everything that led
    /// there.
    Ended,
    /// Apply all entries up to here, in order, then answer their clients: they are decided.
    Decided {
        /// Last decided index.
        last: LogIndex,
    },
    /// Change of this replica's role. `Master` comes only after a `Decided` that covers everything
    /// earlier masters may have decided: updates may be evaluated as soon as that is applied.
    Role {
        /// New role.
        role: Role,
        /// Ballot to which it belongs.
        ballot: Ballot,
        /// Current master. `None`: unknown.
        master: Option<NodeId>,
    },
    /// Answer the read from any state that holds everything up to `index`.
    ReadAt {
        /// Read to answer.
        token: ReadToken,
        /// Index that the answer must reflect.
        index: LogIndex,
    },
    /// Refusal of a call: nothing was done.
    Refused {
        /// Call that was refused.
        call: RefusedCall,
        /// Reason of the refusal.
        reason: Refusal,
    },
    /// Report to an operator that entries after this index may have been acknowledged and lost,
    /// because too many logs were torn: the group goes on with the longest log that is left.
    PossibleLoss {
        /// Last index of that log.
        after: LogIndex,
    },
}

/// Role of a replica in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Does not lead.
    Follower,
    /// Tries to lead, or leads and still decides the entries it inherited.
    Candidate,
    /// Leads.
    Master,
}

impl Role {
    /// Returns it as one lower-case word, for status and logs.
    pub fn name(self) -> &'static str {
        match self {
            Role::Follower => "follower",
            Role::Candidate => "candidate",
            Role::Master => "master",
        }
    }
}

/// Call that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusedCall {
    /// Proposal of an entry.
    Propose,
    /// Index of a read.
    Read(ReadToken),
    /// Hand-over of mastership to this node.
    HandOver(NodeId),
}

/// Reason of a refusal; nothing was done in any of these cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No mastership: this replica is not master.
    NotMaster {
        /// Current master. `None`: unknown.
        master: Option<NodeId>,
    },
    /// As much is in flight as is allowed: wait for the next `Decided`.
    Full,
    /// The entry exceeds the size limit.
    TooLarge,
    /// The replica is giving up its mastership.
    Retiring,
    /// The replica is handing its mastership over; it stays master if that fails.
    HandingOver,
    /// A stop-sign is in flight: the next configuration continues from there.
    Reconfiguring,
    /// The configuration is not the direct successor of the current one.
    NotSuccessor,
    /// The target of the hand-over is not another voter of this group.
    NoSuchVoter,
    /// The target of the hand-over does not answer now.
    Unresponsive,
}

impl Refusal {
    /// Returns the reason for the caller's error.
    pub fn reason(self) -> Reason {
        match self {
            Refusal::NotMaster { .. } => Reason::NotMaster,
            Refusal::Full
            | Refusal::HandingOver
            | Refusal::Reconfiguring
            | Refusal::Unresponsive => Reason::Overloaded,
            Refusal::TooLarge => Reason::TooLarge,
            Refusal::Retiring => Reason::ShuttingDown,
            Refusal::NoSuchVoter | Refusal::NotSuccessor => Reason::NotSupported,
        }
    }
}
