//! Inbox of a group: messages of other members, from bytes to what consensus understands.

use base::codec::{Malformed, Reader};
use base::limits::LOG_RECORD_BYTES_MAX;
use base::{LogIndex, NodeId};
use bytes::{Buf, Bytes};
use logic::consensus::Message;
use runtime::complaint::Complaint;

/// Maximum number of bytes of queued messages with entries.
const INBOX_BYTES_MAX: usize = 64 << 20;
/// Maximum number of queued messages. Heartbeats, votes and acknowledgements are repeated by their
/// senders.
const INBOX_MESSAGES_MAX: usize = 8_192;

/// Messages of other members that the driver has not looked at yet.
///
/// Messages come as fast as the network brings them, and a driver may stall: its disk is slow, or
/// it installs a snapshot. Messages that exceed the bound are dropped, which consensus tolerates.
/// Entries are dropped first, because the messages that keep the group's master are small.
pub struct Inbox {
    came: Vec<InboxMessage>,
    /// Bytes of the messages with entries.
    bytes: usize,
    bytes_max: usize,
    /// Warning about members whose messages break the protocol, and the last one of them.
    unsound: Complaint,
    unsound_from: Option<NodeId>,
}

/// A message of another member.
pub struct InboxMessage {
    /// Member that sent it.
    pub(super) from: NodeId,
    /// The message itself.
    pub(super) message: Message,
    /// Entries that it brings.
    pub(super) entries: IndexedEntries,
    /// Its size.
    pub(super) bytes: usize,
}

impl Inbox {
    /// Makes an empty one; a group with little memory takes fewer bytes.
    pub(super) fn new(undecided_bytes_max: usize) -> Inbox {
        let bytes_max = INBOX_BYTES_MAX.min(undecided_bytes_max);
        let unsound = Complaint::default();
        Inbox { came: Vec::new(), bytes: 0, bytes_max, unsound, unsound_from: None }
    }

    /// Takes a message unless that would be too many; one with entries is taken if it is alone.
    pub(super) fn push(&mut self, came: InboxMessage) -> bool {
        let brings = !came.entries.is_empty();
        let overflows = brings && self.bytes > 0 && self.bytes + came.bytes > self.bytes_max;
        if overflows || self.came.len() >= INBOX_MESSAGES_MAX {
            return false;
        }
        if brings {
            self.bytes += came.bytes;
        }
        self.came.push(came);
        true
    }

    /// Counts a message that violates the protocol. Returns the number of suppressed warnings, if
    /// one is due.
    pub(super) fn complain(&mut self, from: NodeId) -> Option<u64> {
        self.unsound_from = Some(from);
        self.unsound.due()
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
        (self.came.len(), self.bytes)
    }

    /// Takes all messages.
    pub(super) fn take(&mut self) -> Vec<InboxMessage> {
        self.bytes = 0;
        std::mem::take(&mut self.came)
    }
}

pub(super) type IndexedEntries = Vec<(LogIndex, Bytes)>;

/// Decodes a message, and the entries that it names.
pub(super) fn read(mut payload: Bytes) -> Result<(Message, IndexedEntries), Malformed> {
    let mut reader = Reader::new(&payload);
    let message = Message::read(&mut reader)?;
    let head_bytes = payload.len() - reader.rest().len();
    payload.advance(head_bytes);
    let Some((after, upto)) = message.body.values() else {
        return if payload.is_empty() { Ok((message, Vec::new())) } else { Err(Malformed("end")) };
    };
    let mut entries = Vec::new();
    let mut index = after;
    while index < upto {
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

    fn accept(upto: u64) -> Vec<u8> {
        let (after, upto) = (LogIndex(3), LogIndex(upto));
        let body = Body::Accept { after, upto, decided: LogIndex(2) };
        let ballot = Ballot { round: 7, node: NodeId(1) };
        let mut bytes = Vec::new();
        Message { configuration: ConfigurationId(0), ballot, body }.write(&mut bytes);
        bytes
    }

    fn came(entries: u64, bytes: usize) -> InboxMessage {
        let message = Message::read(&mut Reader::new(&accept(5))).expect("well formed");
        let entries = (0..entries).map(|index| (LogIndex(index), Bytes::new())).collect();
        InboxMessage { from: NodeId(1), message, entries, bytes }
    }

    #[test]
    fn an_inbox_drops_values_beyond_its_bytes_and_goes_on_taking_what_is_small() {
        let mut inbox = Inbox::new(100);
        assert!(inbox.push(came(1, 200)), "a large one is taken if it is alone");
        for _ in 0..3 {
            assert!(!inbox.push(came(1, 1)), "there is no room for values");
            assert!(inbox.push(came(0, 1_000)), "what brings none is taken");
        }
        assert_eq!(inbox.take().len(), 4);
        assert!((0..4).all(|_| inbox.push(came(2, 25))), "all is room again");
        assert!(!inbox.push(came(2, 1)));
        assert_eq!(inbox.take().len(), 4);
    }

    #[test]
    fn an_inbox_ends_at_its_number_of_messages() {
        let mut inbox = Inbox::new(100);
        for _ in 0..INBOX_MESSAGES_MAX {
            assert!(inbox.push(came(0, 64)));
        }
        assert!(!inbox.push(came(0, 64)) && !inbox.push(came(1, 64)));
        assert_eq!(inbox.take().len(), INBOX_MESSAGES_MAX);
        assert!(inbox.push(came(0, 64)));
    }

    #[test]
    fn a_message_brings_exactly_the_values_it_names() {
        let mut bytes = accept(5);
        bytes.put_string(b"one");
        bytes.put_string(b"");
        let (message, entries) = read(bytes.clone().into()).expect("well formed");
        assert!(message.body.values().is_some());
        let entries: Vec<_> = entries.iter().map(|(index, value)| (index.0, &value[..])).collect();
        assert_eq!(entries, [(4, &b"one"[..]), (5, &b""[..])]);
        bytes.push(0);
        assert_eq!(read(bytes.into()).expect_err("malformed"), Malformed("end"));
    }

    #[test]
    fn whatever_the_bytes_nothing_panics() {
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
