//! State of a group, as it was found on the disk when the node started.

use super::layout::Mark;
use super::values::Runs;
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
    /// Mark of the last value that is applied in the store.
    pub mark: Mark,
    /// Accepted values behind the mark, not known to be decided.
    pub tail: BTreeMap<LogIndex, Bytes>,
    /// Places of values in the log.
    pub runs: Runs,
    /// This node keeps no rows of it.
    pub bare: bool,
}
