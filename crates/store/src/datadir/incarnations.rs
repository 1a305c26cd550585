//! Incarnations of this node that the cluster may have recorded, and the mark that the directory is
//! an old copy.
//!
//! Each incarnation has a number, which goes up, and a random token. The token distinguishes two
//! incarnations of one number, and a higher incarnation that does not continue the recorded one. An
//! incarnation is stored here before it sends anything to a peer. It is removed only when it can't
//! be the recorded one any longer. So a directory that lacks the recorded incarnation is not the
//! directory in which that incarnation ran.
//!
//! Promises: what `begin` returned is stored after any crash.
//! Never: drops an incarnation to make space for another; is copied into a checkpoint.

use super::atomic_file::{AtomicFile, parse_id};
use super::{DataDir, random_id};
use crate::StoreError;
use crate::disk::Disk;
use base::IncarnationId;
use base::limits::PEER_LIVES_MAX;
use std::io;
use std::path::Path;

pub(super) const FILE: AtomicFile = AtomicFile {
    name: "LIVES",
    temporary: "LIVES.new",
    header: "credenza lives 1",
    bytes_max: 8_192,
};
/// Reason for which the cluster refuses this directory.
pub(super) const OUTDATED: AtomicFile = AtomicFile {
    name: "OUTDATED",
    temporary: "OUTDATED.new",
    header: "credenza outdated 1",
    bytes_max: 65_536,
};

impl DataDir {
    /// Begins the incarnation of this number. Returns, once that is durable, every incarnation that
    /// the cluster may have on record, this one last. If the list already holds `PEER_LIVES_MAX`,
    /// or the disk is full, this one is not added and has no token: its number alone identifies it.
    pub fn begin_incarnation(&self, number: u64) -> Result<Vec<IncarnationId>, StoreError> {
        begin(&self.disk()?, &self.path, number)
    }

    /// Reads the incarnations that the cluster may have on record.
    pub fn incarnations(&self) -> Result<Vec<IncarnationId>, StoreError> {
        read(&self.disk()?, &self.path)
    }

    /// Replaces the list: no other incarnation can be on record, now or later.
    pub fn replace_incarnations(&self, incarnations: &[IncarnationId]) -> Result<(), StoreError> {
        write(&self.disk()?, &self.path, incarnations)
    }

    /// Records for every later start that the cluster refuses this directory because it is an old
    /// copy.
    pub fn mark_outdated(&self, reason: &str) -> Result<(), StoreError> {
        let reason = reason.replace('\n', " ");
        OUTDATED.replace(&self.disk()?, &self.path, &format!("{reason}\n"))
    }

    /// Reads the reason for which the cluster refused this directory. `None`: no earlier
    /// incarnation recorded a refusal.
    pub fn outdated_reason(&self) -> Result<Option<String>, StoreError> {
        let lines = OUTDATED.read(&self.disk()?, &self.path)?;
        Ok(lines.map(|lines| lines.join(" ")))
    }
}

/// See [`DataDir::begin_incarnation`].
pub(super) fn begin(
    disk: &dyn Disk,
    path: &Path,
    number: u64,
) -> Result<Vec<IncarnationId>, StoreError> {
    let stored = read(disk, path)?;
    if stored.len() >= PEER_LIVES_MAX {
        return Ok(stored);
    }
    let mut incarnations = stored.clone();
    incarnations.push(IncarnationId { number, token: random_id()? });
    match write(disk, path, &incarnations) {
        // The old list is returned, not read again: the new one may be visible, and a power failure
        // may revert that. No peer may receive a token that a later start does not find.
        Err(StoreError::Full) => Ok(stored),
        written => written.map(|()| incarnations),
    }
}

fn read(disk: &dyn Disk, path: &Path) -> Result<Vec<IncarnationId>, StoreError> {
    let lines = FILE.read(disk, path)?.unwrap_or_default();
    let incarnations = lines.iter().map(|line| parse(line)).collect::<Option<Vec<_>>>();
    let incarnations = incarnations.filter(|incarnations| incarnations.len() <= PEER_LIVES_MAX);
    incarnations.ok_or_else(|| FILE.damaged(path, "a line of it can't be read"))
}

fn write(disk: &dyn Disk, path: &Path, incarnations: &[IncarnationId]) -> Result<(), StoreError> {
    let line = |incarnation_id: &IncarnationId| {
        format!("life {:016x} {:016x}\n", incarnation_id.number, incarnation_id.token)
    };
    FILE.replace(disk, path, &incarnations.iter().map(line).collect::<String>())
}

/// Removes the mark that the cluster refuses this directory as an old copy.
pub(super) fn clear_outdated(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    match disk.remove(OUTDATED.name).and_then(|()| disk.sync_directory()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let description = format!("can't remove {}", path.join(OUTDATED.name).display());
            Err(StoreError::io(description, error))
        }
        _ => Ok(()),
    }
}

fn parse(line: &str) -> Option<IncarnationId> {
    let (number, token) = line.strip_prefix("life ")?.split_once(' ')?;
    let token = parse_id(token).filter(|token| *token != 0)?;
    Some(IncarnationId { number: parse_id(number)?, token })
}
