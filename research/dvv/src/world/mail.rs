//! Events of the world, and messages between its nodes.

use super::{Context, ReplicaState};
use crate::kinds::{ClockKind, DvvWriter, Write};
use std::cmp::Ordering;
use std::rc::Rc;

/// Something that happens at some time.
pub struct DvvEvent<K: ClockKind> {
    /// Time, nanoseconds.
    pub at: u64,
    /// Order among events of one time.
    pub number: u64,
    /// Action.
    pub what: DvvAction<K>,
}

impl<K: ClockKind> PartialEq for DvvEvent<K> {
    fn eq(&self, other: &DvvEvent<K>) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<K: ClockKind> Eq for DvvEvent<K> {}

impl<K: ClockKind> PartialOrd for DvvEvent<K> {
    fn partial_cmp(&self, other: &DvvEvent<K>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: ClockKind> Ord for DvvEvent<K> {
    fn cmp(&self, other: &DvvEvent<K>) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Action of a client or node.
pub enum DvvAction<K: ClockKind> {
    /// A client begins an operation.
    Begin {
        /// Client.
        client: usize,
    },
    /// A client has thought, and puts what it was thinking of.
    Put {
        /// Client.
        client: usize,
    },
    /// A client has its answer.
    Answered {
        /// Client.
        client: usize,
        /// Row that a get found; the outer none: a put was done.
        answer: Option<Option<Rc<ReplicaState<K>>>>,
    },
    /// Mail is there, and waits until the node has time.
    Arrived {
        /// Node.
        node: usize,
        /// Its mail.
        mail: Mail<K>,
    },
    /// The node has done what the mail costs.
    Done {
        /// Node.
        node: usize,
        /// Its mail.
        mail: Mail<K>,
    },
}

/// A client's write on its way.
pub struct Put<K: ClockKind> {
    /// Client.
    pub client: usize,
    /// Key.
    pub key: u32,
    /// Context that the client had seen.
    pub context: Rc<Context<K>>,
    /// The value.
    pub write: Write,
    /// Author and time.
    pub by: DvvWriter,
}

impl<K: ClockKind> Clone for Put<K> {
    fn clone(&self) -> Put<K> {
        Put { context: self.context.clone(), ..*self }
    }
}

/// Message to a node.
pub enum Mail<K: ClockKind> {
    /// A client's get.
    Get {
        /// Client.
        client: usize,
        /// Key.
        key: u32,
    },
    /// A client's put; passed on by a node that is no replica, if one is named.
    Put {
        /// The write.
        put: Put<K>,
        /// Node that passed it on.
        by_way_of: Option<usize>,
    },
    /// Give me your row.
    Fetch {
        /// Request it is a part of.
        serving: usize,
        /// Key.
        key: u32,
        /// Node that asks.
        from: usize,
    },
    /// Here is my row.
    Fetched {
        /// Request it is a part of.
        serving: usize,
        /// Node that answers.
        from: usize,
        /// Row there.
        state: Option<Rc<ReplicaState<K>>>,
    },
    /// Store a client's write: what clocks of clients need.
    Write {
        /// Request it is a part of.
        serving: usize,
        /// Node that asks.
        from: usize,
        /// The write.
        put: Put<K>,
    },
    /// Store this beside what you have; tell me, if I serve a write.
    Store {
        /// Request it is a part of, and the node that serves it.
        told: Option<(usize, usize)>,
        /// Key.
        key: u32,
        /// Row to store.
        state: Rc<ReplicaState<K>>,
    },
    /// It is stored.
    Stored {
        /// Request it is a part of.
        serving: usize,
    },
    /// A write that was passed on is done.
    Relayed {
        /// Client.
        client: usize,
    },
}

impl<K: ClockKind> Mail<K> {
    /// Bytes that it carries, if a value has so many.
    pub fn bytes(&self, value_bytes: usize) -> usize {
        match self {
            Mail::Fetched { state: Some(state), .. } | Mail::Store { state, .. } => {
                state.bytes(value_bytes)
            }
            Mail::Put { .. } | Mail::Write { .. } => value_bytes,
            _ => 0,
        }
    }
}

impl<K: ClockKind> ReplicaState<K> {
    /// Bytes of its values and clocks.
    pub fn bytes(&self, value_bytes: usize) -> usize {
        self.truth.alive.len() * value_bytes + K::term_bytes(&self.row)
    }
}
