//! Messages between the replicas of one group.
//!
//! A message holds no value's bytes: where it names a stretch of the log (`after` is exclusive,
//! `upto` inclusive), the node adds the values when it sends and hands them on when it receives.
//! Any message may be lost, come twice, late or out of order; none may be altered, and none may
//! reach another group or cluster.

use super::tear::Tear;
use base::{Ballot, ConfigurationId, LogIndex, Millis};

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// The sender's configuration.
    pub configuration: ConfigurationId,
    /// The ballot it is about; see each [`Body`].
    pub ballot: Ballot,
    /// What it says.
    pub body: Body,
}

/// What a message says. Where nothing else stands, its ballot is that of the attempt to lead it
/// belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Body {
    /// A voter without a master asks who is there (Omni-Paxos' heartbeat request). The ballot is
    /// its promise.
    Probe {
        /// The asker's count of its rounds.
        round: u64,
    },
    /// The answer. The ballot is the answerer's promise.
    Probed {
        /// The round that asked.
        round: u64,
        /// How the answerer stands.
        standing: ProbeReply,
    },
    /// Take part in no lower ballot, and say what you have accepted.
    Prepare {
        /// A lease that its master gave back, so that nobody need wait for its end; zero: none.
        released: Ballot,
    },
    /// The promise is on disk, and so is this log.
    Promise {
        /// What was accepted.
        log: Accepted,
    },
    /// The same of a log whose tail was torn: it may have accepted more, under the same ballot.
    TornPromise {
        /// What is left of what was accepted.
        log: Accepted,
        /// Where it was torn.
        tear: Tear,
    },
    /// Nothing was done: the answerer has promised another ballot, or must wait for a lease's end.
    Refused {
        /// What the answerer has promised.
        promised: Ballot,
    },
    /// A master to be wants values from the log that it is going to adopt.
    Fetch {
        /// It has everything up to here.
        after: LogIndex,
    },
    /// Values of the log that is going to be adopted.
    Fetched {
        /// They begin behind this index.
        after: LogIndex,
        /// And end here.
        upto: LogIndex,
    },
    /// The values asked for, or next to be sent, are collapsed: only a snapshot helps.
    Behind,
    /// Keep your log up to `from`; what follows, up to `upto`, comes in `Accept`s and counts only
    /// when it is complete; all else behind `from` is void (Sequence Paxos' *AcceptSync*).
    Adopt {
        /// Up to here the logs agree.
        from: LogIndex,
        /// The end of what the master adopted.
        upto: LogIndex,
    },
    /// Accept these values.
    Accept {
        /// They begin behind this index.
        after: LogIndex,
        /// And end here.
        upto: LogIndex,
        /// Up to here all is decided.
        decided: LogIndex,
    },
    /// Everything up to here is accepted under the ballot, and on disk.
    Accepted {
        /// The last index.
        upto: LogIndex,
    },
    /// Values of the log that is being adopted are here up to this index. They count for nothing
    /// yet; without this word a long log would never arrive.
    Staged {
        /// The last index.
        upto: LogIndex,
    },
    /// Values up to here were sent, and nothing was heard for long: say which are here. It comes
    /// behind them, so what is missing when it comes was lost, and not only slow.
    Sent {
        /// The last index that was sent.
        upto: LogIndex,
    },
    /// Values were missed.
    Gap {
        /// The last that was received.
        last: LogIndex,
    },
    /// Up to here all is decided.
    Decide {
        /// The last decided index.
        upto: LogIndex,
    },
    /// The master lives, and wants its lease renewed.
    Heartbeat {
        /// The master's count of its heartbeats.
        beat: u64,
        /// The master's clock.
        sent: Millis,
        /// Whether a lease is wanted: not by a master that may have lost its majority.
        asks: bool,
        /// Up to here all is decided.
        decided: LogIndex,
        /// Up to here all voters that hold the data have everything on disk; 0 where no witness
        /// wants to know.
        kept: LogIndex,
    },
    /// The heartbeat was heard; if it asked, its lease is granted.
    Granted {
        /// Which heartbeat.
        beat: u64,
        /// The master's clock, as the heartbeat had it.
        sent: Millis,
        /// Whether it asked.
        asked: bool,
        /// Whether this is a witness that keeps as much as it may.
        full: bool,
    },
    /// With everything up to here, the log that was torn lacks nothing of what it had accepted: the
    /// master's own goes no further.
    Level {
        /// Which tear that is about.
        tear: Tear,
        /// The master's last index.
        upto: LogIndex,
    },
    /// The master gave its lease back: lead now.
    HandOver,
    /// A later configuration is in force than the one you speak in.
    Outdated,
    /// This replica has not come to the end of its configuration yet, which is over.
    Straggling {
        /// Up to here it knows what was decided.
        decided: LogIndex,
    },
    /// Decided values of a configuration that is over.
    Learn {
        /// They begin behind this index.
        after: LogIndex,
        /// And end here.
        upto: LogIndex,
        /// Where the configuration ends. They count only once all up to here have come.
        end: LogIndex,
    },
    /// The group goes on without you.
    Ended,
}

/// What a voter says of itself while a master is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeReply {
    /// A lease, or the quiet time after a start, forbids it to promise anything; or it is master,
    /// and hears a majority.
    pub bound: bool,
    /// It may lead, seeks a master too, and heard a majority in its last round; or it stands.
    pub candidate: bool,
    /// What it has accepted.
    pub log: Accepted,
}

/// The log a voter has accepted. The higher is the one to adopt: accepted under the higher ballot,
/// then the longer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Accepted {
    /// The ballot it counts as accepted under.
    pub ballot: Ballot,
    /// Its last index.
    pub last: LogIndex,
    /// Up to here the voter knows that it is decided.
    pub decided: LogIndex,
}

impl Body {
    /// Whether it names values that the node must add, and which: behind the first index, up to the
    /// second.
    pub fn values(&self) -> Option<(LogIndex, LogIndex)> {
        match *self {
            Body::Fetched { after, upto }
            | Body::Learn { after, upto, .. }
            | Body::Accept { after, upto, .. } => Some((after, upto)),
            _ => None,
        }
    }

    /// Whether its order among the others of its kind is worth keeping. All else may overtake, and
    /// must never wait behind values.
    pub fn ordered(&self) -> bool {
        self.values().is_some() || matches!(self, Body::Adopt { .. } | Body::Sent { .. })
    }
}
