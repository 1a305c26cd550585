//! Outgoing message of consensus, with the entries that it names.

use base::{LogIndex, NodeId};
use bytes::Bytes;
use logic::consensus::{Body, Message};

/// Message that is to be sent.
pub struct OutgoingMessage {
    /// Member that receives it.
    pub(super) to: NodeId,
    /// The message itself.
    pub(super) message: Message,
    /// Entries that it names.
    pub(super) entries: MessageEntries,
    /// Index up to which the member has acknowledged entries.
    pub(super) acknowledged: LogIndex,
}

/// Entries of a message.
pub(super) enum MessageEntries {
    /// The message names none.
    None,
    /// The entries are in memory.
    InMemory(Vec<Bytes>),
    /// The entries are read back from the log.
    InLog,
}

/// Returns a copy of a message body that names the entries behind `after` up to `last`.
pub(super) fn with_range(body: Body, after: LogIndex, last: LogIndex) -> Body {
    match body {
        Body::Accept { decided, .. } => Body::Accept { after, last, decided },
        Body::Learn { end, .. } => Body::Learn { after, last, end },
        Body::Fetched { .. } => Body::Fetched { after, last },
        other => other,
    }
}
