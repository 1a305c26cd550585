//! Leadership of a group, as this node knows it.

use base::{Error, LogIndex, NodeId, Reason};
use logic::consensus::{Refusal, Role};

/// Leadership of a group, as far as this node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// `Master` once this node has applied all that was decided before it.
    pub role: Option<Role>,
    /// The master; none: it is not known.
    pub master: Option<NodeId>,
    /// Time of the last change of master, in this node's milliseconds; 0: none since it started.
    pub since_ms: u64,
    /// The group goes on without this node: a member of a later configuration said so. What this
    /// node's own configuration says is of a time that is over, until it has learnt the rest.
    pub dismissed: bool,
}

/// This node's way into office.
#[derive(Default)]
pub struct Office {
    /// It leads, and takes office once it has applied everything up to here.
    pub(super) waits_for: Option<LogIndex>,
    /// It is in office.
    pub(super) held: bool,
    /// Torn logs may have held values behind this index; it went on without them.
    pub(super) may_lack: Option<LogIndex>,
    /// Why the last hand-over was refused.
    pub(super) refused: Option<Refusal>,
}

impl Office {
    /// Returns true if it may be taken, where this much is applied.
    pub(super) fn is_due(&self, applied: LogIndex) -> bool {
        self.waits_for.is_some_and(|index| applied >= index)
    }
}

/// Another node must answer: this one, as far as is known.
pub fn not_master(master: Option<NodeId>) -> Error {
    let master = master.map_or_else(|| "None".into(), |node| node.to_string());
    Error::new(Reason::NotMaster, master)
}
