//! Lifecycle of a group's driver: it accepts updates, retires as master, and ends.

use base::{Error, Result};

/// See the head of this file. A driver ends for one of two reasons: it retired, and all updates
/// that it had accepted are decided and applied; or it failed.
#[derive(Default)]
pub struct Lifecycle {
    /// Error that stopped the group, if one did.
    failed: Option<Error>,
    /// True if new updates are refused. Mastership is given up once all accepted updates are
    /// proposed.
    retiring: bool,
    /// True once the driver has retired.
    ended: bool,
}

impl Lifecycle {
    /// Creates the lifecycle of a new driver. `failed`: error with which the group's state could
    /// not be loaded.
    pub(super) fn new(failed: Option<Error>) -> Lifecycle {
        Lifecycle { failed, ..Lifecycle::default() }
    }

    /// Returns the error that stopped the group, if one did.
    pub fn failed(&self) -> Option<&Error> {
        self.failed.as_ref()
    }

    /// Refuses everything once the group has failed.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Stops the group with an error. The first error is kept.
    pub(super) fn fail(&mut self, error: &Error) {
        self.failed.get_or_insert_with(|| error.clone());
    }

    /// Refuses new updates from now on.
    pub(super) fn retire(&mut self) {
        self.retiring = true;
    }

    /// Returns true if new updates are refused.
    pub(super) fn is_retiring(&self) -> bool {
        self.retiring
    }

    /// Ends a retiring driver that has nothing left to do. Returns true if it has ended.
    pub(super) fn end_if_idle(&mut self, is_idle: bool) -> bool {
        self.ended = self.retiring && is_idle;
        self.ended
    }

    /// Returns true if the driver has retired.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }
}
