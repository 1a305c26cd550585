//! Messages between the replicas of one group.
//!
//! A message holds no entry's bytes. Where it names a range of the log (`after` is exclusive,
//! `last` inclusive), the node adds the entries when it sends and extracts them when it receives.
//! Any message may be lost, duplicated, late or out of order; none may be altered, and none may
//! reach another group or cluster.

use super::lease::LeaseTerm;
use super::tear::Tear;
use base::{Ballot, ConfigurationId, LogIndex, Millis};

/// Message between two replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// Configuration of the sender.
    pub configuration: ConfigurationId,
    /// Ballot that the message is about; see each [`Body`].
    pub ballot: Ballot,
    /// Content of the message.
    pub body: Body,
}

/// Content of a message. Unless stated otherwise, the message's ballot is that of the attempt to
/// lead to which it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Body {
    /// Asks the voters for their standing, while the sender knows no master (Omni-Paxos' heartbeat
    /// request). The ballot is its promise.
    Probe {
        /// Number of the sender's round.
        round: u64,
    },
    /// Answers a `Probe`. The ballot is the sender's promise.
    Probed {
        /// Round of the probe.
        round: u64,
        /// Standing of the sender.
        reply: ProbeReply,
    },
    /// Asks a member to take part in no lower ballot, and for the log that it has accepted.
    Prepare {
        /// Lease that its master released, so that no voter need wait for its end; zero: none.
        released: Ballot,
    },
    /// Reports that the promise and this log are on disk.
    Promise {
        /// Accepted log.
        log: LogSummary,
    },
    /// Promises with a log whose tail was torn: it may have accepted more, under the same ballot.
    TornPromise {
        /// Rest of the accepted log.
        log: LogSummary,
        /// Tear of the log.
        tear: Tear,
    },
    /// Refuses a request: the sender has promised another ballot, or must wait for a lease's end.
    Refused {
        /// Ballot that the sender has promised.
        promised: Ballot,
    },
    /// Requests entries of the log that the sender, a candidate, is going to adopt.
    Fetch {
        /// Last index that the sender has.
        after: LogIndex,
    },
    /// Carries entries of the log that is going to be adopted.
    Fetched {
        /// Index before the first of them.
        after: LogIndex,
        /// Last of them.
        last: LogIndex,
    },
    /// Reports that the requested or next entries were truncated: only a snapshot helps.
    Behind,
    /// Orders a follower to keep its log up to `from`; the entries from there to `last` come in
    /// `Accept`s and count only when they are complete; all else after `from` is void (Sequence
    /// Paxos' *AcceptSync*).
    Adopt {
        /// Index up to which the logs agree.
        from: LogIndex,
        /// Last index of the log that the master adopted.
        last: LogIndex,
    },
    /// Orders a follower to accept these entries.
    Accept {
        /// Index before the first of them.
        after: LogIndex,
        /// Last of them.
        last: LogIndex,
        /// Last decided index.
        decided: LogIndex,
    },
    /// Reports that all entries up to here are accepted under the ballot, and on disk.
    Accepted {
        /// Last index.
        last: LogIndex,
    },
    /// Reports the entries received of the log that is being adopted. They do not count yet;
    /// without this message a long log would never arrive.
    Staged {
        /// Last index.
        last: LogIndex,
    },
    /// Asks which entries arrived, after long silence: those up to here were sent. It follows them
    /// in order, so an entry that is missing when it arrives was lost, and is not merely slow.
    Sent {
        /// Last index that was sent.
        last: LogIndex,
    },
    /// Reports that entries were missed.
    Gap {
        /// Last index that was received.
        last: LogIndex,
    },
    /// Reports the decided index.
    Decide {
        /// Last decided index.
        last: LogIndex,
    },
    /// Announces that the master is alive, and asks for its lease.
    Heartbeat {
        /// Number of the heartbeat.
        beat: u64,
        /// Time by the master's clock.
        sent: Millis,
        /// Requested lease. `None`: a master that may have lost its majority requests none.
        lease: Option<LeaseTerm>,
        /// Last decided index.
        decided: LogIndex,
        /// Index up to which all voters that keep the rows have everything on disk; 0 if the group
        /// has no witness.
        saved_by_all: LogIndex,
    },
    /// Answers a heartbeat; grants the lease if it was requested.
    Granted {
        /// Number of the heartbeat.
        beat: u64,
        /// Time of the heartbeat by the master's clock.
        sent: Millis,
        /// Granted lease: the requested one.
        lease: Option<LeaseTerm>,
        /// True if the sender is a witness at the limit of the log that it may keep.
        is_full: bool,
    },
    /// Reports the end of the master's log: with everything up to it, the follower's torn log lacks
    /// nothing of what it had accepted.
    LogEnd {
        /// Tear that this is about.
        tear: Tear,
        /// Last index of the master.
        last: LogIndex,
    },
    /// Hands mastership over: the master gave its lease back, and the receiver should lead now.
    HandOver,
    /// Reports that a later configuration is in force than the receiver's.
    Outdated,
    /// Reports that the sender has not reached the end of its configuration yet, which is over.
    Straggling {
        /// Index up to which it knows what was decided.
        decided: LogIndex,
    },
    /// Carries decided entries of a configuration that is over.
    Learn {
        /// Index before the first of them.
        after: LogIndex,
        /// Last of them.
        last: LogIndex,
        /// Last index of the configuration. The entries count only once all up to here have
        /// arrived.
        end: LogIndex,
    },
    /// Reports that the group goes on without the receiver.
    Ended,
}

/// Standing of a voter, exchanged while a master is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeReply {
    /// True if a lease, or the quiet time after a start, forbids it to promise anything; or if it
    /// is master, and hears a majority.
    pub must_abstain: bool,
    /// True if it may lead, seeks a master too, and heard a majority in its last round; or if it is
    /// a candidate.
    pub is_candidate: bool,
    /// Log that it has accepted.
    pub log: LogSummary,
}

/// Summary of the log that a voter has accepted. The greater one is to be adopted: accepted under
/// the higher ballot, then the longer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogSummary {
    /// Ballot under which it counts as accepted.
    pub ballot: Ballot,
    /// Last index.
    pub last: LogIndex,
    /// Index up to which the voter knows it to be decided.
    pub decided: LogIndex,
}

impl Body {
    /// Returns the range of entries that the node must add: after the first index, up to the
    /// second. `None`: it names none.
    pub fn entry_range(&self) -> Option<(LogIndex, LogIndex)> {
        match *self {
            Body::Fetched { after, last }
            | Body::Learn { after, last, .. }
            | Body::Accept { after, last, .. } => Some((after, last)),
            _ => None,
        }
    }

    /// Returns true if its order among others of its kind is worth keeping. All other messages may
    /// overtake, and must never wait behind entries.
    pub fn is_ordered(&self) -> bool {
        self.entry_range().is_some() || matches!(self, Body::Adopt { .. } | Body::Sent { .. })
    }
}
