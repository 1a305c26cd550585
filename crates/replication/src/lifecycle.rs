//! Lifecycle of a group's driver: from taking updates over giving mastership back to its end.

use base::{Error, Result};

/// See the head of this file. A driver ends for one of two reasons: it retired, and everything that
/// it had taken is decided and applied; or it failed.
#[derive(Default)]
pub struct Lifecycle {
    /// Error that stopped the group, if one did.
    failed: Option<Error>,
    /// True if no new update is taken. Mastership is given up once everything taken is proposed.
    retiring: bool,
    /// True once the driver has retired.
    ended: bool,
}

impl Lifecycle {
    /// Begins. `failed`: the error with which the group's state could not be loaded.
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

    /// Fails; the first reason stays.
    pub(super) fn fail(&mut self, error: &Error) {
        self.failed.get_or_insert_with(|| error.clone());
    }

    /// Takes no new updates from now on.
    pub(super) fn retire(&mut self) {
        self.retiring = true;
    }

    /// Returns true if no new update is taken.
    pub(super) fn is_retiring(&self) -> bool {
        self.retiring
    }

    /// Ends a retiring driver that has nothing left to do. Returns true if it has ended.
    pub(super) fn end_if(&mut self, rests: bool) -> bool {
        self.ended = self.retiring && rests;
        self.ended
    }

    /// Returns true if the driver has retired.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }
}
