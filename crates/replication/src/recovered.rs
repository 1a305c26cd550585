//! State of a group as recovered from the disk at the node's start.

use super::entries::LogPositions;
use base::{GroupId, LogIndex};
use bytes::Bytes;
use logic::consensus::Replica;
use replica_state::layout::Mark;
use std::collections::BTreeMap;

/// Recovered state of a group.
pub struct RecoveredGroup {
    /// Number of the group.
    pub id: GroupId,
    /// State of the protocol, as promised and accepted.
    pub replica: Replica,
    /// Mark of the last entry that is applied in the store.
    pub mark: Mark,
    /// Accepted entries behind the mark, not known to be decided.
    pub tail: BTreeMap<LogIndex, Bytes>,
    /// Positions of entries in the log.
    pub positions: LogPositions,
    /// True if this node keeps no rows of the group.
    pub is_witness_replica: bool,
}
