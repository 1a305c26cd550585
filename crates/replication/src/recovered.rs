//! State of a group, as it was found on the disk when the node started.

use super::entries::LogPositions;
use super::layout::Mark;
use base::{GroupId, LogIndex};
use bytes::Bytes;
use logic::consensus::Replica;
use std::collections::BTreeMap;

/// State of a group that a node begins with.
pub struct RecoveredGroup {
    /// Number of the group.
    pub id: GroupId,
    /// The protocol's state as it was promised and accepted.
    pub replica: Replica,
    /// Mark of the last entry that is applied in the store.
    pub mark: Mark,
    /// Accepted entries behind the mark, not known to be decided.
    pub tail: BTreeMap<LogIndex, Bytes>,
    /// Places of entries in the log.
    pub runs: LogPositions,
    /// True if this node keeps no rows of it.
    pub bare: bool,
}
