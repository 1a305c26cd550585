//! Watermarks of a group's log on this node, as its driver moves them.
//!
//! Invariant: applied entries are decided. Both only rise.

use base::LogIndex;
use replica_state::layout::Mark;

/// See the head of this file.
pub struct LogProgress {
    /// Index up to which all entries are decided. They are applied as soon as the store accepts
    /// them.
    pub decided: LogIndex,
    /// Mark of the last applied entry.
    pub(super) mark: Mark,
}

impl LogProgress {
    /// Creates the watermarks behind the last applied entry.
    pub(super) fn new(mark: Mark) -> LogProgress {
        LogProgress { decided: LogIndex(mark.applied), mark }
    }

    /// Notes that all entries up to `index` are decided.
    pub(super) fn decide(&mut self, index: LogIndex) {
        self.decided = self.decided.max(index);
    }

    /// Notes that a snapshot replaced all entries up to `index`.
    pub(super) fn install(&mut self, mark: Mark, index: LogIndex) {
        self.mark = mark;
        self.decide(index);
    }
}
