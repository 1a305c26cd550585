//! Mastership of a group on this node, as its driver keeps it under the group's lock: this node's
//! way in and out. `leadership.rs` makes the steps.

use base::{Error, LogIndex, NodeId, Reason};
use logic::consensus::Refusal;

/// See the head of this file.
#[derive(Default)]
pub struct Mastership {
    /// Index up to which it has to apply everything before it becomes master; none: it does not
    /// lead, or has become master.
    pub(super) waits_for: Option<LogIndex>,
    /// True if it is master.
    pub(super) held: bool,
    /// Index behind which torn logs may have held entries; it went on without them.
    pub(super) may_lack: Option<LogIndex>,
    /// Reason why the last hand-over was refused.
    pub(super) refused: Option<Refusal>,
}

impl Mastership {
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
