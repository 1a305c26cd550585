//! Events that a replica handles.

use super::configuration::Configuration;
use super::message::Message;
use base::{Ballot, LogIndex, Millis, NodeId};

/// Size of an entry, as far as consensus knows it: the node keeps the bytes, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntrySize {
    /// Size of its payload in the log, in bytes.
    pub bytes: u32,
    /// Number of client updates in it; 0 for an entry that only takes its place in the order.
    pub updates: u32,
}

/// Id of a read, chosen by the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadToken(pub u64);

/// Event for a replica. Times are monotonic and go on while the machine sleeps (`CLOCK_BOOTTIME`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// First event of an incarnation, once.
    Started {
        /// The time.
        now: Millis,
    },
    /// Passage of time; several times within a lease's length.
    Tick {
        /// The time.
        now: Millis,
    },
    /// A message arrived, with the entries it names.
    Received {
        /// Sender.
        from: NodeId,
        /// Message that arrived.
        message: Message,
        /// Stop-signs among the entries that came with it, in order.
        signs: Vec<(LogIndex, Configuration)>,
        /// The time.
        now: Millis,
    },
    /// The connection with another member ended: its process ended, or either side or the network
    /// cut it. Nothing sent on it arrives after this event. A hint: elections begin sooner by it,
    /// and safety never depends on it.
    LinkEnded {
        /// Other member.
        node: NodeId,
        /// The time.
        now: Millis,
    },
    /// Entries that an [`super::Effect::Send`] named were not sent: the lane was full or is broken.
    Unsent {
        /// Intended receiver.
        to: NodeId,
        /// Last index that was sent.
        after: LogIndex,
    },
    /// The lane to a member has space again for entries that were not sent.
    LaneSpace {
        /// Member.
        to: NodeId,
    },
    /// A witness reached the limit of the log that it may keep, or is below it again.
    WitnessFull {
        /// True if it is at the limit.
        is_full: bool,
    },
    /// Entries up to here can no longer be sent: the log was truncated.
    LogTruncated {
        /// Last such index.
        last: LogIndex,
    },
    /// A snapshot was installed, durably: the store holds all that is decided up to here.
    Installed {
        /// Last index that it holds.
        last: LogIndex,
        /// Configuration in force after that index, and the index at which it began.
        configuration: (LogIndex, Configuration),
    },
    /// A fetched snapshot holds nothing that this log does not: it was caught up meanwhile.
    SnapshotOutdated,
    /// A stop-sign was prepared for the index [`super::Replica::next`]: the entry after which other
    /// members agree.
    Reconfigure {
        /// Next configuration; its id is one above the current one's.
        configuration: Configuration,
        /// Size of the entry.
        size: EntrySize,
    },
    /// An entry was prepared for the index [`super::Replica::next`] and is to be proposed.
    Propose {
        /// Size of the entry.
        size: EntrySize,
    },
    /// A promise is on disk: synced, even if every bucket's policy is weaker.
    PromiseSaved {
        /// Promised ballot.
        ballot: Ballot,
    },
    /// Every [`super::Effect::Adopt`] and [`super::Effect::Save`] of this ballot up to this index
    /// is on disk (a [`super::Effect::Stage`] brings no answer): synced, unless the buckets of all
    /// its updates chose to be acknowledged before that.
    Saved {
        /// Ballot of the effects.
        ballot: Ballot,
        /// Highest index.
        last: LogIndex,
    },
    /// A consistent read asks which index it must reflect.
    Read {
        /// Id returned with the answer.
        token: ReadToken,
        /// The time.
        now: Millis,
    },
    /// An operator requests another master.
    HandOver {
        /// Node that is to become master.
        to: NodeId,
        /// The time.
        now: Millis,
    },
    /// Another voter is preferred as master: this one stands for no election (or does again). It
    /// votes and keeps its log as before.
    Yield {
        /// True if it leaves mastership to the other.
        prefers_other: bool,
    },
    /// Health of this node's disk: it has not answered for long although something was to be saved,
    /// or it answers again. While it hangs, this replica does not stand, and a master leaves its
    /// place to others that go on.
    Disk {
        /// True if the disk hangs.
        disk_hangs: bool,
    },
    /// The node is stopping: accept nothing new, finish what is in flight, then give mastership
    /// back.
    Retire,
}
