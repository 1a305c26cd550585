//! One message to a peer: its lane, its group, and its bytes.

use base::GroupId;
use base::limits::{
    PEER_BULK_BYTES_MAX, PEER_CALL_BYTES_MAX, PEER_CONTROL_BYTES_MAX, PEER_DATA_BYTES_MAX,
    PEER_HEAD_BYTES_MAX,
};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Queue in which a message waits. Order is kept within a lane, not between lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Heartbeats, votes, acknowledgements: small, and sent before everything else.
    Control,
    /// Log entries, in order.
    Data,
    /// Requests to another node, and their answers.
    Call,
    /// Snapshots: limited in bytes a second and by the receiver's credit.
    Bulk,
}

impl Lane {
    /// All lanes, in the order of their numbers.
    pub const ALL: [Lane; 4] = [Lane::Control, Lane::Data, Lane::Call, Lane::Bulk];

    /// Returns the lane's name, for status and metrics.
    pub fn name(self) -> &'static str {
        ["control", "data", "call", "bulk"][self as usize]
    }

    /// Returns the size of the largest message of the lane, including its head.
    pub fn bytes_max(self) -> usize {
        match self {
            Lane::Control => PEER_CONTROL_BYTES_MAX,
            Lane::Data => PEER_DATA_BYTES_MAX,
            Lane::Call => PEER_CALL_BYTES_MAX,
            Lane::Bulk => PEER_BULK_BYTES_MAX,
        }
    }
}

/// Outcome of an attempt to send a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// Queued in its lane: sent unless the connection breaks first.
    Sent,
    /// Its lane is full: nothing was queued.
    Full,
    /// There is no connection to that node: nothing was queued.
    NoLink,
}

/// First bytes of a message, kept apart from its body, so that an entry's bytes go to many peers
/// under different heads without a copy.
#[derive(Clone, Copy)]
pub struct MessageHead {
    length: u8,
    bytes: [u8; PEER_HEAD_BYTES_MAX],
}

impl MessageHead {
    /// The empty head.
    pub const EMPTY: MessageHead = MessageHead { length: 0, bytes: [0; PEER_HEAD_BYTES_MAX] };

    /// Builds a head of at most [`PEER_HEAD_BYTES_MAX`] bytes.
    pub fn new(bytes: &[u8]) -> MessageHead {
        assert!(bytes.len() <= PEER_HEAD_BYTES_MAX, "a head is small: put the rest in the body");
        let mut head = MessageHead::EMPTY;
        head.bytes[..bytes.len()].copy_from_slice(bytes);
        head.length = bytes.len() as u8;
        head
    }

    /// Returns the bytes of the head.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for MessageHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Head({} bytes)", self.length)
    }
}

/// First byte of the head of a request.
pub(super) const QUESTION: u8 = 1;

/// Message to one peer.
#[derive(Clone, Debug)]
pub struct Message {
    /// Lane in which it waits.
    pub lane: Lane,
    /// Group that sends it.
    pub group: GroupId,
    /// Head; precedes the body.
    pub head: MessageHead,
    /// Body; the receiver gets head and body as one.
    pub body: Bytes,
    /// Slot: a queued message replaces a waiting one of the same group and slot. `None`: it
    /// replaces none.
    pub slot: Option<u32>,
    /// Receipt: records whether the message has left, and allows the sender to take it back until
    /// then.
    pub receipt: Option<Receipt>,
}

impl Message {
    /// Builds a message without a head.
    pub fn new(lane: Lane, group: GroupId, body: Bytes) -> Message {
        Message { lane, group, head: MessageHead::EMPTY, body, slot: None, receipt: None }
    }

    /// Returns the message with this head.
    pub fn with_head(self, head: &[u8]) -> Message {
        Message { head: MessageHead::new(head), ..self }
    }

    /// Returns the message with a slot: it replaces a waiting message in `slot` (heartbeats) and
    /// goes to the end of the lane. In a full lane, messages with a slot are dropped first.
    pub fn with_slot(self, slot: u32) -> Message {
        Message { slot: Some(slot), ..self }
    }

    /// Returns true if it is a request, which an answer will follow.
    pub(super) fn is_question(&self) -> bool {
        self.lane == Lane::Call && self.head.bytes().first() == Some(&QUESTION)
    }

    /// Returns the bytes of head and body.
    pub fn size(&self) -> usize {
        self.head.bytes().len() + self.body.len()
    }
}

const WAITING: u8 = 0;
const LEFT: u8 = 1;
const TAKEN_BACK: u8 = 2;

/// Receipt of a message: records whether it left its queue, and so decides between "nothing
/// happened" and "it may have".
#[derive(Clone, Debug, Default)]
pub struct Receipt(Arc<AtomicU8>);

impl Receipt {
    /// Marks the message as leaving; the network calls it before the first byte. False: the message
    /// was taken back, and must not be sent.
    pub fn mark_leaving(&self) -> bool {
        let before = self.0.compare_exchange(WAITING, LEFT, Ordering::AcqRel, Ordering::Acquire);
        before.is_ok()
    }

    /// Takes the message back. False: it left already.
    pub fn revoke(&self) -> bool {
        let before =
            self.0.compare_exchange(WAITING, TAKEN_BACK, Ordering::AcqRel, Ordering::Acquire);
        !matches!(before, Err(LEFT))
    }
}
