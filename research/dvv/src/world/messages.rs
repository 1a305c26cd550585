//! Events of the simulation, and messages between its nodes.

use super::{Context, ReplicaState};
use crate::kinds::{ClockKind, DvvWriter, Write};
use std::cmp::Ordering;
use std::rc::Rc;

/// An event: an action with its time.
pub struct DvvEvent<K: ClockKind> {
    /// Time, simulated nanoseconds.
    pub at: u64,
    /// Order among events of one time.
    pub number: u64,
    /// Action.
    pub action: DvvAction<K>,
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
    /// The end of a client's think time: it puts the key it has read.
    Put {
        /// Client.
        client: usize,
    },
    /// Arrival of an answer at a client.
    Answered {
        /// Client.
        client: usize,
        /// Row that a get found. Outer `None`: a put was done.
        answer: Option<Option<Rc<ReplicaState<K>>>>,
    },
    /// Arrival of a message, which waits until the node is idle.
    Arrived {
        /// Node.
        node: usize,
        /// The message.
        message: DvvMessage<K>,
    },
    /// The end of the time that a node is busy with a message.
    Done {
        /// Node.
        node: usize,
        /// The message.
        message: DvvMessage<K>,
    },
}

/// A client's write in transit.
pub struct Put<K: ClockKind> {
    /// Client.
    pub client: usize,
    /// Key.
    pub key: u32,
    /// Context that the client sends.
    pub context: Rc<Context<K>>,
    /// The value.
    pub write: Write,
    /// Author and time.
    pub writer: DvvWriter,
}

impl<K: ClockKind> Clone for Put<K> {
    fn clone(&self) -> Put<K> {
        Put { context: self.context.clone(), ..*self }
    }
}

/// Message to a node.
pub enum DvvMessage<K: ClockKind> {
    /// A client's get.
    Get {
        /// Client.
        client: usize,
        /// Key.
        key: u32,
    },
    /// A client's put, possibly forwarded by a node that is no replica.
    Put {
        /// The write.
        put: Put<K>,
        /// Node that forwarded it. `None`: the client sent it here.
        forwarded_by: Option<usize>,
    },
    /// A request for a replica's row.
    Fetch {
        /// Index of the request in progress it belongs to.
        request: usize,
        /// Key.
        key: u32,
        /// Node that requests it.
        from: usize,
    },
    /// A replica's row.
    Fetched {
        /// Index of the request in progress it belongs to.
        request: usize,
        /// Node that answers.
        from: usize,
        /// Row there. `None`: absent.
        state: Option<Rc<ReplicaState<K>>>,
    },
    /// A request to apply a client's write, for clocks of clients.
    Write {
        /// Index of the request in progress it belongs to.
        request: usize,
        /// Node that requests it.
        from: usize,
        /// The write.
        put: Put<K>,
    },
    /// A request to merge a row into the replica's own, with an acknowledgement if a write waits
    /// for it.
    Store {
        /// Request in progress that waits for the acknowledgement, and its node. `None`: no
        /// acknowledgement.
        ack_to: Option<(usize, usize)>,
        /// Key.
        key: u32,
        /// Row to store.
        state: Rc<ReplicaState<K>>,
    },
    /// Acknowledgement of a `Store` or `Write`.
    Stored {
        /// Index of the request in progress it belongs to.
        request: usize,
    },
    /// Acknowledgement of a forwarded put.
    ForwardAck {
        /// Client.
        client: usize,
    },
}

impl<K: ClockKind> DvvMessage<K> {
    /// Returns the bytes that it carries, with values of `value_bytes` each.
    pub fn bytes(&self, value_bytes: usize) -> usize {
        match self {
            DvvMessage::Fetched { state: Some(state), .. } | DvvMessage::Store { state, .. } => {
                state.bytes(value_bytes)
            }
            DvvMessage::Put { .. } | DvvMessage::Write { .. } => value_bytes,
            _ => 0,
        }
    }
}

impl<K: ClockKind> ReplicaState<K> {
    /// Returns the bytes of its values and clocks.
    pub fn bytes(&self, value_bytes: usize) -> usize {
        self.truth.alive.len() * value_bytes + K::term_bytes(&self.row)
    }
}
