//! Watermarks of a group's log on this node, as its driver moves them.
//!
//! Invariant: applied entries are decided. Both only rise.

use super::layout::Mark;
use base::LogIndex;

/// See the head of this file.
pub struct LogProgress {
    /// Index up to which everything is decided, and applied as soon as the store takes it.
    pub decided: LogIndex,
    /// Mark that the last applied entry left.
    pub(super) mark: Mark,
}

impl LogProgress {
    /// Begins behind the last applied entry.
    pub(super) fn new(mark: Mark) -> LogProgress {
        LogProgress { decided: LogIndex(mark.applied), mark }
    }

    /// Notes that everything up to here is decided.
    pub(super) fn decide(&mut self, upto: LogIndex) {
        self.decided = self.decided.max(upto);
    }

    /// Notes that a snapshot replaced everything up to its mark.
    pub(super) fn install(&mut self, mark: Mark, upto: LogIndex) {
        self.mark = mark;
        self.decide(upto);
    }
}
