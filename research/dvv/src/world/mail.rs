//! What happens, and what nodes tell each other.

use super::{Context, ReplicaState};
use crate::kinds::{ClockKind, DvvWriter, Write};
use std::cmp::Ordering;
use std::rc::Rc;

/// Something that happens at some time.
pub struct DvvEvent<K: ClockKind> {
    /// When, nanoseconds.
    pub at: u64,
    /// Which of those at one time comes first.
    pub number: u64,
    /// What.
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

/// What happens.
pub enum DvvAction<K: ClockKind> {
    /// A client begins an operation.
    Begin {
        /// Which.
        client: usize,
    },
    /// A client has thought, and puts what it was thinking of.
    Put {
        /// Which.
        client: usize,
    },
    /// A client has its answer.
    Answered {
        /// Which.
        client: usize,
        /// What a get gave; none: a put was done.
        answer: Option<Option<Rc<ReplicaState<K>>>>,
    },
    /// Mail is there, and waits until the node has time.
    Arrived {
        /// Where.
        node: usize,
        /// What it says.
        mail: Mail<K>,
    },
    /// The node has done what the mail costs.
    Done {
        /// Where.
        node: usize,
        /// What it says.
        mail: Mail<K>,
    },
}

/// A client's write on its way.
pub struct Put<K: ClockKind> {
    /// Whose.
    pub client: usize,
    /// Of what.
    pub key: u32,
    /// What the client had seen.
    pub context: Rc<Context<K>>,
    /// The value.
    pub write: Write,
    /// Who writes, and when.
    pub by: DvvWriter,
}

impl<K: ClockKind> Clone for Put<K> {
    fn clone(&self) -> Put<K> {
        Put { context: self.context.clone(), ..*self }
    }
}

/// What nodes are told.
pub enum Mail<K: ClockKind> {
    /// A client's get.
    Get {
        /// Whose.
        client: usize,
        /// Of what.
        key: u32,
    },
    /// A client's put; passed on by a node that is no replica, if one is named.
    Put {
        /// The write.
        put: Put<K>,
        /// Who passed it on.
        by_way_of: Option<usize>,
    },
    /// Give me your row.
    Fetch {
        /// For what.
        serving: usize,
        /// Of what.
        key: u32,
        /// Who asks.
        from: usize,
    },
    /// Here is my row.
    Fetched {
        /// For what.
        serving: usize,
        /// Whose.
        from: usize,
        /// What it holds.
        state: Option<Rc<ReplicaState<K>>>,
    },
    /// Store a client's write: what clocks of clients need.
    Write {
        /// For what.
        serving: usize,
        /// Who asks.
        from: usize,
        /// The write.
        put: Put<K>,
    },
    /// Store this beside what you have; tell me, if I serve a write.
    Store {
        /// For what, and who asks.
        told: Option<(usize, usize)>,
        /// Of what.
        key: u32,
        /// What to store.
        state: Rc<ReplicaState<K>>,
    },
    /// It is stored.
    Stored {
        /// For what.
        serving: usize,
    },
    /// A write that was passed on is done.
    Relayed {
        /// Whose.
        client: usize,
    },
}

impl<K: ClockKind> Mail<K> {
    /// How many bytes it carries, if a value has so many.
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
