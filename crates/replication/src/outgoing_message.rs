//! Message of consensus on its way out, with the entries that it names.

use base::{LogIndex, NodeId};
use bytes::Bytes;
use logic::consensus::{Body, Message};

/// Message that is to be sent.
pub struct OutgoingMessage {
    /// Member it is for.
    pub(super) to: NodeId,
    /// The message itself.
    pub(super) message: Message,
    /// Entries that it names.
    pub(super) entries: MessageEntries,
    /// Index up to which the member has acknowledged what it was sent.
    pub(super) done: LogIndex,
}

/// Entries of a message.
pub(super) enum MessageEntries {
    /// The message names none.
    None,
    /// The entries are in memory.
    Here(Vec<Bytes>),
    /// The entries are read back from the log.
    InLog,
}

/// Copy of a message that is about a part of its entries.
pub(super) fn stretch(body: Body, after: LogIndex, upto: LogIndex) -> Body {
    match body {
        Body::Accept { decided, .. } => Body::Accept { after, upto, decided },
        Body::Learn { end, .. } => Body::Learn { after, upto, end },
        Body::Fetched { .. } => Body::Fetched { after, upto },
        other => other,
    }
}
