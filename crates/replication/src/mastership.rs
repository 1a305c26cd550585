//! Mastership of a group on this node, as its driver keeps it under the group's lock.
//! `leadership.rs` makes the steps into and out of it.

use base::{Error, LogIndex, NodeId, Reason};
use logic::consensus::Refusal;

/// See the head of this file.
#[derive(Default)]
pub struct Mastership {
    /// Index up to which this node must apply entries before it becomes master. `None`: it does not
    /// lead, or is master.
    pub(super) required_index: Option<LogIndex>,
    /// True if this node is master.
    pub(super) is_held: bool,
    /// Index behind which torn logs may have held acknowledged entries that this node leads
    /// without.
    pub(super) possible_loss_after: Option<LogIndex>,
    /// Refusal of the last hand-over.
    pub(super) refusal: Option<Refusal>,
}

impl Mastership {
    /// Returns true if this node may become master, with entries up to `applied` applied.
    pub(super) fn is_due(&self, applied: LogIndex) -> bool {
        self.required_index.is_some_and(|index| applied >= index)
    }
}

/// Returns the error of a request that only the master can answer. It names the master, if known.
pub fn not_master_error(master: Option<NodeId>) -> Error {
    let master = master.map_or_else(|| "None".into(), |node| node.to_string());
    Error::new(Reason::NotMaster, master)
}
