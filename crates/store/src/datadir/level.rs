//! Feature level of a data directory: its mark in the file IDENTITY.

use super::identity::{Identity, damaged};
use super::{DataDir, OpenDirectory};
use crate::StoreError;
use base::FeatureLevel;

impl DataDir {
    /// Returns the identity as it is stored now.
    pub(super) fn identity(&self) -> Result<Identity, StoreError> {
        let identity = Identity::read(&self.disk()?, &self.path)?;
        identity.ok_or_else(|| damaged(&self.path, "it is missing, though the directory is in use"))
    }

    /// Marks the directory with a feature level, durably, before anything of that level is written
    /// into it. From then on programs that do not know the level refuse it. A lower level changes
    /// nothing.
    pub fn raise_level(&self, level: FeatureLevel) -> Result<(), StoreError> {
        let identity = self.identity()?;
        if level <= identity.level {
            return Ok(());
        }
        Identity { level, ..identity }.write(&self.disk()?, &self.path)
    }
}

impl OpenDirectory<'_> {
    /// Refuses a directory of a later feature level before anything in it changes, the lock
    /// included. Other errors of the identity are reported once the directory is locked.
    pub(super) fn refuse_later_level(&self) -> Result<(), StoreError> {
        match Identity::read(&self.disk()?, self.path) {
            Err(error @ StoreError::Level { .. }) => Err(error),
            _ => Ok(()),
        }
    }
}
