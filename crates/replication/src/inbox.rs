//! Inbox of a group: messages of other members, from bytes to the messages of consensus.

use base::codec::{Malformed, Reader};
use base::limits::LOG_RECORD_BYTES_MAX;
use base::{LogIndex, NodeId};
use bytes::{Buf, Bytes};
use logic::consensus::Message;
use runtime::warning_limiter::WarningLimiter;

/// Maximum number of bytes of queued messages with entries.
const INBOX_BYTES_MAX: usize = 64 << 20;
/// Maximum number of queued messages. Heartbeats, votes and acknowledgements are repeated by their
/// senders.
const INBOX_MESSAGES_MAX: usize = 8_192;

/// Messages of other members that the driver has not processed yet.
///
/// Messages arrive as fast as the network delivers them, and a driver may stall, because it reads
/// a slow disk. Messages that exceed the bound are dropped, which consensus tolerates. Entries are
/// dropped first, because the messages that keep the group's master are small.
pub struct Inbox {
    messages: Vec<InboxMessage>,
    /// Members whose connections ended after the last of their messages here.
    unlinked: Vec<NodeId>,
    /// Bytes of the messages with entries.
    bytes: usize,
    bytes_max: usize,
    /// Rate limit of warnings about members whose messages violate the protocol.
    unsound: WarningLimiter,
    /// Sender of the last such message.
    unsound_from: Option<NodeId>,
}

/// A message of another member.
pub struct InboxMessage {
    /// Sender of the message.
    pub(super) from: NodeId,
    /// The message itself.
    pub(super) message: Message,
    /// Entries that it carries.
    pub(super) entries: IndexedEntries,
    /// Size of the message in bytes.
    pub(super) bytes: usize,
}

impl Inbox {
    /// Creates an empty inbox. A group with little memory accepts fewer bytes.
    pub(super) fn new(undecided_bytes_max: usize) -> Inbox {
        let bytes_max = INBOX_BYTES_MAX.min(undecided_bytes_max);
        let unsound = WarningLimiter::default();
        let (messages, unlinked) = (Vec::new(), Vec::new());
        Inbox { messages, unlinked, bytes: 0, bytes_max, unsound, unsound_from: None }
    }

    /// Adds a message unless the inbox is full. Returns false if it is. One message with entries
    /// always fits, however large.
    pub(super) fn push(&mut self, message: InboxMessage) -> bool {
        // It came over a new connection.
        self.unlinked.retain(|node| *node != message.from);
        let has_entries = !message.entries.is_empty();
        let overflows =
            has_entries && self.bytes > 0 && self.bytes + message.bytes > self.bytes_max;
        if overflows || self.messages.len() >= INBOX_MESSAGES_MAX {
            return false;
        }
        if has_entries {
            self.bytes += message.bytes;
        }
        self.messages.push(message);
        true
    }

    /// Notes that the connection with a member ended, after all messages from it that wait here.
    pub(super) fn end_link(&mut self, node: NodeId) {
        if !self.unlinked.contains(&node) {
            self.unlinked.push(node);
        }
    }

    /// Counts a message that violates the protocol. Returns the number of suppressed warnings, if
    /// one is due.
    pub(super) fn on_unsound_message(&mut self, from: NodeId) -> Option<u64> {
        self.unsound_from = Some(from);
        self.unsound.try_acquire()
    }

    /// Returns a member whose messages broke the protocol within the last minute.
    pub(super) fn unsound_member(&self) -> Option<NodeId> {
        self.unsound_from.filter(|_| self.unsound.is_recent())
    }

    /// Returns the most bytes of messages with entries.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Returns how many messages wait, and the bytes of those with entries.
    pub fn size(&self) -> (usize, usize) {
        (self.messages.len(), self.bytes)
    }

    /// Removes and returns all messages, and the members whose connections ended after them.
    pub(super) fn take(&mut self) -> (Vec<InboxMessage>, Vec<NodeId>) {
        self.bytes = 0;
        (std::mem::take(&mut self.messages), std::mem::take(&mut self.unlinked))
    }
}

pub(super) type IndexedEntries = Vec<(LogIndex, Bytes)>;

/// Decodes a message, and the entries that it names.
pub(super) fn read(mut payload: Bytes) -> Result<(Message, IndexedEntries), Malformed> {
    let mut reader = Reader::new(&payload);
    let message = Message::read(&mut reader)?;
    let head_bytes = payload.len() - reader.rest().len();
    payload.advance(head_bytes);
    let Some((after, last)) = message.body.entry_range() else {
        return if payload.is_empty() { Ok((message, Vec::new())) } else { Err(Malformed("end")) };
    };
    let mut entries = Vec::new();
    let mut index = after;
    while index < last {
        let length = Reader::new(&payload).u32("value length")? as usize;
        payload.advance(4);
        if length > LOG_RECORD_BYTES_MAX || length > payload.len() {
            return Err(Malformed("value length"));
        }
        index = index.next();
        entries.push((index, payload.split_to(length)));
    }
    if payload.is_empty() { Ok((message, entries)) } else { Err(Malformed("end")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::codec::Writer;
    use base::{Ballot, ConfigurationId};
    use logic::consensus::Body;

    fn accept(last: u64) -> Vec<u8> {
        let (after, last) = (LogIndex(3), LogIndex(last));
        let body = Body::Accept { after, last, decided: LogIndex(2) };
        let ballot = Ballot { round: 7, node: NodeId(1) };
        let mut bytes = Vec::new();
        Message { configuration: ConfigurationId(0), ballot, body }.write(&mut bytes);
        bytes
    }

    fn incoming(entries: u64, bytes: usize) -> InboxMessage {
        let message = Message::read(&mut Reader::new(&accept(5))).expect("well formed");
        let entries = (0..entries).map(|index| (LogIndex(index), Bytes::new())).collect();
        InboxMessage { from: NodeId(1), message, entries, bytes }
    }

    #[test]
    fn inbox_beyond_its_bytes_drops_entries_and_accepts_the_rest() {
        let mut inbox = Inbox::new(100);
        assert!(inbox.push(incoming(1, 200)), "a large one is taken if it is alone");
        for _ in 0..3 {
            assert!(!inbox.push(incoming(1, 1)), "there is no room for values");
            assert!(inbox.push(incoming(0, 1_000)), "what brings none is taken");
        }
        assert_eq!(inbox.take().0.len(), 4);
        assert!((0..4).all(|_| inbox.push(incoming(2, 25))), "all is room again");
        assert!(!inbox.push(incoming(2, 1)));
        assert_eq!(inbox.take().0.len(), 4);
    }

    #[test]
    fn inbox_rejects_messages_beyond_its_message_limit() {
        let mut inbox = Inbox::new(100);
        for _ in 0..INBOX_MESSAGES_MAX {
            assert!(inbox.push(incoming(0, 64)));
        }
        assert!(!inbox.push(incoming(0, 64)) && !inbox.push(incoming(1, 64)));
        assert_eq!(inbox.take().0.len(), INBOX_MESSAGES_MAX);
        assert!(inbox.push(incoming(0, 64)));
    }

    #[test]
    fn link_end_follows_the_messages_of_its_connection_alone() {
        let mut inbox = Inbox::new(100);
        assert!(inbox.push(incoming(0, 64)));
        for node in [1, 2, 1].map(NodeId) {
            inbox.end_link(node);
        }
        let (messages, unlinked) = inbox.take();
        assert_eq!((messages.len(), unlinked), (1, vec![NodeId(1), NodeId(2)]));
        inbox.end_link(NodeId(1));
        inbox.end_link(NodeId(2));
        assert!(inbox.push(incoming(0, 64)), "node 1 is connected again");
        let (messages, unlinked) = inbox.take();
        assert_eq!((messages.len(), unlinked), (1, vec![NodeId(2)]));
        assert_eq!(inbox.take().1, vec![]);
    }

    #[test]
    fn accept_message_carries_exactly_the_entries_it_names() {
        let mut bytes = accept(5);
        bytes.put_string(b"one");
        bytes.put_string(b"");
        let (message, entries) = read(bytes.clone().into()).expect("well formed");
        assert!(message.body.entry_range().is_some());
        let entries: Vec<_> = entries.iter().map(|(index, value)| (index.0, &value[..])).collect();
        assert_eq!(entries, [(4, &b"one"[..]), (5, &b""[..])]);
        bytes.push(0);
        assert_eq!(read(bytes.into()).expect_err("malformed"), Malformed("end"));
    }

    #[test]
    fn truncated_or_oversized_message_is_malformed_without_panic() {
        let mut bytes = accept(5);
        bytes.put_string(b"one");
        bytes.put_string(b"two");
        for cut in 0..bytes.len() {
            assert!(read(bytes[..cut].to_vec().into()).is_err(), "{cut}");
        }
        let mut long = accept(4);
        long.put_u32(u32::MAX);
        assert_eq!(read(long.into()).expect_err("malformed"), Malformed("value length"));
        let endless = accept(u64::MAX);
        assert!(read(endless.into()).is_err());
    }
}
