//! One message on its way to a peer: which lane, which group, and its bytes.

use base::GroupId;
use base::limits::{
    PEER_BULK_BYTES_MAX, PEER_CALL_BYTES_MAX, PEER_CONTROL_BYTES_MAX, PEER_DATA_BYTES_MAX,
    PEER_HEAD_BYTES_MAX,
};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Which queue a message waits in. Order is kept within a lane, not between lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Heartbeats, votes, acknowledgements: small, and before everything else.
    Control,
    /// Log values, in order.
    Data,
    /// Requests to another node, and their answers.
    Call,
    /// Snapshots: waits for room, bounded in bytes a second, and for the receiver to keep up.
    Bulk,
}

impl Lane {
    /// All of them, by their number.
    pub const ALL: [Lane; 4] = [Lane::Control, Lane::Data, Lane::Call, Lane::Bulk];

    /// The lane's name, for status and metrics.
    pub fn word(self) -> &'static str {
        ["control", "data", "call", "bulk"][self as usize]
    }

    /// The largest message of the lane, its head counted.
    pub fn bytes_max(self) -> usize {
        match self {
            Lane::Control => PEER_CONTROL_BYTES_MAX,
            Lane::Data => PEER_DATA_BYTES_MAX,
            Lane::Call => PEER_CALL_BYTES_MAX,
            Lane::Bulk => PEER_BULK_BYTES_MAX,
        }
    }
}

/// What became of a message that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// It waits in its lane, and is sent unless the connection breaks first.
    Sent,
    /// Its lane is full: nothing was queued.
    Full,
    /// There is no connection to that node: nothing was queued.
    NoLink,
}

/// The first bytes of a message, kept beside its body, so that a value's bytes go to many peers
/// under different heads and are never copied.
#[derive(Clone, Copy)]
pub struct MessageHead {
    length: u8,
    bytes: [u8; PEER_HEAD_BYTES_MAX],
}

impl MessageHead {
    /// No head.
    pub const EMPTY: MessageHead = MessageHead { length: 0, bytes: [0; PEER_HEAD_BYTES_MAX] };

    /// A head of at most [`PEER_HEAD_BYTES_MAX`] bytes.
    pub fn new(bytes: &[u8]) -> MessageHead {
        assert!(bytes.len() <= PEER_HEAD_BYTES_MAX, "a head is small: put the rest in the body");
        let mut head = MessageHead::EMPTY;
        head.bytes[..bytes.len()].copy_from_slice(bytes);
        head.length = bytes.len() as u8;
        head
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for MessageHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Head({} bytes)", self.length)
    }
}

/// A message for one peer.
#[derive(Clone, Debug)]
pub struct Message {
    /// Where it waits.
    pub lane: Lane,
    /// Which group speaks.
    pub group: GroupId,
    /// What comes first.
    pub head: MessageHead,
    /// What follows; the receiver gets both as one.
    pub body: Bytes,
    /// A waiting message of the same group with the same slot is worthless once this one is queued.
    pub slot: Option<u32>,
    /// Lets the sender find out whether it left, and take it back until then.
    pub receipt: Option<Receipt>,
}

impl Message {
    /// A message without a head.
    pub fn new(lane: Lane, group: GroupId, body: Bytes) -> Message {
        Message { lane, group, head: MessageHead::EMPTY, body, slot: None, receipt: None }
    }

    /// The same with a head.
    pub fn with_head(self, head: &[u8]) -> Message {
        Message { head: MessageHead::new(head), ..self }
    }

    /// The same, taking the place of what waits in `slot` (heartbeats). It goes to the end of the
    /// lane; and where a lane is full, a message with a slot is what is dropped.
    pub fn replacing(self, slot: u32) -> Message {
        Message { slot: Some(slot), ..self }
    }

    /// Bytes of head and body.
    pub fn size(&self) -> usize {
        self.head.bytes().len() + self.body.len()
    }
}

const WAITS: u8 = 0;
const LEFT: u8 = 1;
const TAKEN_BACK: u8 = 2;

/// Record of a message that left its queue, or did not; decides between "nothing happened" and "it
/// may have".
#[derive(Clone, Debug, Default)]
pub struct Receipt(Arc<AtomicU8>);

impl Receipt {
    /// A network calls it before the first byte leaves; `false`: the message was taken back, and
    /// must not leave.
    pub fn leave(&self) -> bool {
        let before = self.0.compare_exchange(WAITS, LEFT, Ordering::AcqRel, Ordering::Acquire);
        before.is_ok()
    }

    /// Takes the message back; `false`: it left already.
    pub fn take_back(&self) -> bool {
        let before =
            self.0.compare_exchange(WAITS, TAKEN_BACK, Ordering::AcqRel, Ordering::Acquire);
        !matches!(before, Err(LEFT))
    }
}
