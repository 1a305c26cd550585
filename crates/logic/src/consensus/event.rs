//! Events that a replica handles.

use super::configuration::Configuration;
use super::message::Message;
use base::{Ballot, LogIndex, Millis, NodeId};

/// What the core knows of a value: the node keeps the bytes, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueHandle {
    /// Size of its payload in the log, in bytes.
    pub bytes: u32,
    /// How many client updates it holds; 0 for a value that only takes its place in the order.
    pub updates: u32,
}

/// Names a read of the node's, chosen by the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadToken(pub u64);

/// One thing that happened. Times are monotonic and go on while the machine sleeps
/// (`CLOCK_BOOTTIME`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The first event of a life, once.
    Started {
        /// The time.
        now: Millis,
    },
    /// Time has passed; several times within a lease's length.
    Tick {
        /// The time.
        now: Millis,
    },
    /// A message arrived, with the values it names.
    Received {
        /// Who sent it.
        from: NodeId,
        /// What it says.
        message: Message,
        /// The stop-signs among the values that came with it, in order.
        signs: Vec<(LogIndex, Configuration)>,
        /// The time.
        now: Millis,
    },
    /// Values that an [`super::Effect::Send`] named were not sent: the way was full or is broken.
    Unsent {
        /// To whom.
        to: NodeId,
        /// What was sent ends here.
        after: LogIndex,
    },
    /// What was not sent to a member may be sent now.
    Room {
        /// To whom.
        to: NodeId,
    },
    /// A witness keeps as much as it may, or no longer so.
    Full {
        /// Whether it does.
        full: bool,
    },
    /// Values up to here can no longer be sent: the log collapsed them.
    Collapsed {
        /// The last such index.
        upto: LogIndex,
    },
    /// A snapshot was installed, durably: the store holds all that is decided up to here.
    Installed {
        /// The last index it holds.
        upto: LogIndex,
        /// The configuration in force behind that index, and where it began.
        configuration: (LogIndex, Configuration),
    },
    /// A stop-sign was laid out for [`super::Replica::next`]: the value after which other members
    /// agree.
    Reconfigure {
        /// The next configuration; its id is one above the present one's.
        configuration: Configuration,
        /// What is known of the value.
        value: ValueHandle,
    },
    /// A value was laid out for [`super::Replica::next`] and wants its place.
    Propose {
        /// What is known of it.
        value: ValueHandle,
    },
    /// A promise is on disk: synced, whatever the policy of any bucket.
    PromiseSaved {
        /// The promised ballot.
        ballot: Ballot,
    },
    /// Every [`super::Effect::Adopt`] and [`super::Effect::Save`] of this ballot up to this index
    /// is on disk (a [`super::Effect::Stage`] brings no answer): synced, unless all the values'
    /// buckets chose to be acknowledged before that.
    Saved {
        /// The ballot the effects carried.
        ballot: Ballot,
        /// The highest index.
        upto: LogIndex,
    },
    /// A consistent read wants to know which index it must see.
    Read {
        /// Comes back in the answer.
        token: ReadToken,
        /// The time.
        now: Millis,
    },
    /// An operator wants another master.
    HandOver {
        /// Whom.
        to: NodeId,
        /// The time.
        now: Millis,
    },
    /// Another voter is to be master whenever anyone is: this one stands for no election (or does
    /// again). It votes and keeps its log as ever.
    Yield {
        /// Whether it leaves mastership to the other.
        yields: bool,
    },
    /// This node's disk has answered nothing for long, though something was to be saved; or it
    /// answers again. Until then this replica does not stand, and a master leaves its place to
    /// others that go on.
    Disk {
        /// Whether it hangs.
        hangs: bool,
    },
    /// The node is stopping: take nothing new, finish what is in flight, then give mastership back.
    Retire,
}
