//! Effects of a step, which the host carries out. **The effects are to be carried out in the order
//! in which they stand.**
//!
//! The `Save...` effects and [`Effect::Adopt`] become records of the log, appended in that order,
//! so that what a crash leaves is always a beginning of it. None of them is waited for: what may
//! only happen once a record is on disk is asked for in the step that brings
//! [`super::Event::Saved`] or [`super::Event::PromiseSaved`].

use super::event::ReadToken;
use super::message::Message;
use base::{Ballot, ConfigurationId, LogIndex, NodeId, Reason};

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Log a promise to take part in no lower ballot; sync it always; answer with `PromiseSaved`.
    SavePromise {
        /// The promised ballot.
        ballot: Ballot,
    },
    /// Log a value of the log that is being adopted (a record of kind *accept*). It counts for
    /// nothing until the `Adopt` of the same ballot, so what it will replace is kept beside it; no
    /// answer is wanted. A higher ballot's `Stage` makes it void, and so does a restart.
    Stage {
        /// Its place.
        index: LogIndex,
        /// The ballot it will be accepted under.
        ballot: Ballot,
    },
    /// Log that from here on the log counts as accepted under `ballot`: what it holds up to `from`,
    /// then what was staged up to `upto`; anything else behind `from` is void (a record of kind
    /// *truncate*). Sync it always; answer with `Saved`.
    Adopt {
        /// The new ballot.
        ballot: Ballot,
        /// The last index that is kept; the staged ones follow. At most `upto`.
        from: LogIndex,
        /// The last index of the adopted log.
        upto: LogIndex,
    },
    /// Log an accepted value (a record of kind *accept*): the one proposed, or the one that came
    /// with the message; answer with `Saved`.
    Save {
        /// Its place.
        index: LogIndex,
        /// The ballot it is accepted under.
        ballot: Ballot,
        /// What was decided when this was asked for; rides in the record for free.
        decided: LogIndex,
    },
    /// Log what is decided (a record of kind *decided*), since no value will soon carry it there.
    /// Needs no sync and no answer: forgetting it costs a restart a little work, nothing else.
    SaveDecided {
        /// The last decided index.
        upto: LogIndex,
    },
    /// Send a message, with the values it names. It may be cut into several that name the same
    /// stretch; what can't be sent is told with [`super::Event::Unsent`] if it named values, and is
    /// forgotten otherwise.
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        message: Message,
    },
    /// Get a snapshot from this node and install it, once all that was logged so far is synced,
    /// then say [`super::Event::Installed`]. Asked for again now and then while it is under way.
    FetchSnapshot {
        /// Who has one.
        from: NodeId,
    },
    /// Another configuration is in force: messages go to its members. Its stop-sign stands in a
    /// `Decided` before.
    Configured {
        /// Its id.
        configuration: ConfigurationId,
        /// The index of the stop-sign it began with.
        base: LogIndex,
    },
    /// This group goes on without this replica, which has not heard of everything that led there.
    Ended,
    /// All values up to here are decided: apply them, in order, then answer their clients.
    Decided {
        /// The last decided index.
        upto: LogIndex,
    },
    /// This replica's part in the group changed. `Master` comes only after everything earlier
    /// masters may have decided stands in a `Decided` before it: updates may be evaluated as soon
    /// as that is applied.
    Role {
        /// The new part.
        role: Role,
        /// The ballot it belongs to.
        ballot: Ballot,
        /// Who is master, if that is known.
        master: Option<NodeId>,
    },
    /// The read may be answered from any state that holds everything up to `index`.
    ReadAt {
        /// Which read.
        token: ReadToken,
        /// What it must see.
        index: LogIndex,
    },
    /// Nothing was done, and why.
    Refused {
        /// What was asked for.
        asked: RefusedCall,
        /// Why not.
        reason: Refusal,
    },
    /// So many logs were torn that values behind this index may have been acknowledged and be lost:
    /// the group goes on with the longest log that is left. An operator is to be told.
    MayLack {
        /// The last index of that log.
        behind: LogIndex,
    },
}

/// A replica's part in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Does not lead.
    Follower,
    /// Tries to lead, or leads and still settles what it inherited.
    Candidate,
    /// Leads.
    Master,
}

impl Role {
    /// As one lower-case word, for status and logs.
    pub fn word(self) -> &'static str {
        match self {
            Role::Follower => "follower",
            Role::Candidate => "candidate",
            Role::Master => "master",
        }
    }
}

/// What was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusedCall {
    /// A value was to be proposed.
    Propose,
    /// A read wanted its index.
    Read(ReadToken),
    /// Mastership was to go to this node.
    HandOver(NodeId),
}

/// Why something was refused; nothing happened in any of these cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// This replica is not master.
    NotMaster {
        /// Who is, if that is known.
        master: Option<NodeId>,
    },
    /// As much is in flight as may be: wait for the next `Decided`.
    Full,
    /// The value is larger than a value may be.
    TooLarge,
    /// The replica is giving up its mastership.
    Retiring,
    /// The replica hands its mastership over; it may keep it, if that fails.
    HandingOver,
    /// A stop-sign is in flight: the next configuration goes on from there.
    Reconfiguring,
    /// The configuration is not the one after the present one.
    NotNext,
    /// Mastership can't go there: that node is no other voter of this group.
    NoSuchVoter,
    /// Mastership can't go there now: that node does not answer.
    Unheard,
}

impl Refusal {
    /// The same in the words of the house.
    pub fn reason(self) -> Reason {
        match self {
            Refusal::NotMaster { .. } => Reason::NotMaster,
            Refusal::Full | Refusal::HandingOver | Refusal::Reconfiguring | Refusal::Unheard => {
                Reason::Overloaded
            }
            Refusal::TooLarge => Reason::TooLarge,
            Refusal::Retiring => Reason::ShuttingDown,
            Refusal::NoSuchVoter | Refusal::NotNext => Reason::NotSupported,
        }
    }
}
