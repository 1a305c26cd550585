//! Installation of a snapshot beside the group's driver, in steps: a thread that may block takes
//! all of them, and a simulation one after the other.
//!
//! The store's switch is one durable step, but not a short one: it waits for several syncs, for
//! flushes and merges that write the list of tables, and for readers of the row cache. At a witness
//! it also flushes all memory, which other nodes do while they receive the rows. And all rows of
//! bucket 0 are read, to find those that have changed. In a turn of the driver, this would stop the
//! group's votes, acknowledgements and answers to heartbeats for as long as the disk takes.
//!
//! So the driver goes on meanwhile: it receives, saves, acknowledges, votes and sends. But from
//! [`Group::begin_install`] to [`Group::on_install_ended`] the group's rows belong to the
//! installation, and the applied index stays. Until then the driver
//! - applies no entry: behind the switch it would take the applied mark back (`driver.rs`). The
//!   capture of changes and the markers of comparisons are parts of applying;
//! - does not become master: the rows from which a master loads its state must be those of the
//!   applied index (`driver.rs`);
//! - drops no entry that a witness keeps (`driver.rs`);
//! - begins no other installation, and no fetch (`PendingSnapshot`);
//! - does not end, neither at a stop nor when its group is dropped: the rows of a dropped group are
//!   removed after its driver has ended (`driver.rs`).
//!
//! Flushes need no exclusion: they find no row of the group in memory, since none is written. The
//! truncation of the log goes on, too, up to the first entry that is not applied, and up to the
//! record that precedes the installation (`Group::log_needed_from`).
//!
//! Records that the driver logs during the installation stand behind the record that precedes it
//! (`catch_up.rs`), as do those that were logged while that record was being synced. So recovery
//! finds no log that it would not find if the switch took no time.
//!
//! Never: changes the state of consensus, but for the entries that a witness drops.

use super::group::{Group, Observer};
use super::seals::BOOKKEEPING_BUCKET;
use base::{Error, GroupId, Reason, Result};
use bytes::Bytes;
use replica_state::layout;
use replica_state::snapshot::{InstalledSnapshot, StagedSnapshot};
use runtime::log_writer::store_error;
use std::sync::Arc;
use store::{Snapshot, TreeRow};

/// See the head of this file.
pub struct Installation {
    group: Arc<Group>,
    phase: InstallPhase,
}

enum InstallPhase {
    /// A witness drops the entries that it keeps.
    DropEntries(StagedSnapshot),
    /// The store exchanges the rows.
    Switch(StagedSnapshot),
    /// The feeds in force are read anew, and the observer learns which rows have changed. `None`:
    /// there is no observer.
    Report(InstalledSnapshot, Option<Box<dyn Snapshot>>),
}

/// Progress of an installation after a step.
pub enum InstallStep {
    /// The step is done, and the next one may follow at once.
    Progressed(Installation),
    /// The installation is over, and the driver handles its outcome.
    Ended(InstallOutcome),
}

/// Outcome of an installation.
pub enum InstallOutcome {
    /// The store holds the snapshot, durably.
    Installed(InstalledSnapshot),
    /// The rows are as before, for this reason: `Changed` or `OutOfSpace`.
    Unusable(Error),
}

impl Installation {
    /// Creates the installation of a snapshot. Nothing happens before its first step.
    pub(super) fn new(group: &Arc<Group>, staged: StagedSnapshot) -> Installation {
        let phase = match group.is_witness_replica() {
            true => InstallPhase::DropEntries(staged),
            false => InstallPhase::Switch(staged),
        };
        Installation { group: Arc::clone(group), phase }
    }

    /// Executes all steps. Blocks for as long as the disk takes. After an error the group must not
    /// go on: its rows may be the old or the new ones.
    pub fn run(self) -> Result<InstallOutcome> {
        let mut installation = self;
        loop {
            match installation.step()? {
                InstallStep::Progressed(next) => installation = next,
                InstallStep::Ended(outcome) => return Ok(outcome),
            }
        }
    }

    /// Executes the next step. Errors: see [`Installation::run`].
    pub fn step(self) -> Result<InstallStep> {
        match self.phase {
            InstallPhase::DropEntries(staged) => drop_entries(self.group, staged),
            InstallPhase::Switch(staged) => switch(self.group, staged),
            InstallPhase::Report(installed, before) => {
                // Before entries are applied again, which derive feed entries by this state.
                self.group.feeds.reload(self.group.id, &*self.group.shared.trees)?;
                if let (Some(observer), Some(before)) = (self.group.observer.get(), before) {
                    let after = self.group.shared.trees.snapshot();
                    report_changes(self.group.id, &**observer, &*before, &*after)?;
                }
                Ok(InstallStep::Ended(InstallOutcome::Installed(installed)))
            }
        }
    }
}

/// Drops some of a witness's entries, unless the snapshot is not newer than they are.
fn drop_entries(group: Arc<Group>, staged: StagedSnapshot) -> Result<InstallStep> {
    // Before the switch: a later start expects that the kept entries reach up to the applied mark.
    // In batches, since each holds the store's writer, for which all groups wait.
    let is_newer = group.applied.index() < staged.last_index();
    let phase = match is_newer && group.drop_replaced_entries()? {
        true => InstallPhase::DropEntries(staged),
        false => InstallPhase::Switch(staged),
    };
    Ok(InstallStep::Progressed(Installation { group, phase }))
}

/// Lets the store exchange the rows.
fn switch(group: Arc<Group>, staged: StagedSnapshot) -> Result<InstallStep> {
    let before = group.observer.get().map(|_| group.shared.trees.snapshot());
    // As in `apply_decided`: readers see the rows as soon as the store has switched.
    group.applied.raise_visible(staged.last_index());
    match staged.install() {
        Ok(installed) => {
            let phase = InstallPhase::Report(installed, before);
            Ok(InstallStep::Progressed(Installation { group, phase }))
        }
        // Of all errors, these alone leave the rows as they were.
        Err(error) if matches!(error.reason, Reason::Changed | Reason::OutOfSpace) => {
            Ok(InstallStep::Ended(InstallOutcome::Unusable(error)))
        }
        Err(error) => Err(error),
    }
}

/// Reports to the observer which rows of bucket 0 have changed.
fn report_changes(
    group: GroupId,
    observer: &dyn Observer,
    before: &dyn Snapshot,
    after: &dyn Snapshot,
) -> Result<()> {
    let mut prefix = Vec::new();
    layout::row_key(group, BOOKKEEPING_BUCKET, &[], &mut prefix);
    let (old, new) = (rows(before, &prefix)?, rows(after, &prefix)?);
    let find = |rows: &[TreeRow], key: &Bytes| {
        let position = rows.binary_search_by(|(at, _)| at.cmp(key)).ok();
        position.map(|position| rows[position].1.clone())
    };
    for (key, _) in old.iter().filter(|(key, _)| find(&new, key).is_none()) {
        observer.changed(&key[prefix.len()..], None);
    }
    for (key, row) in new.iter().filter(|(key, row)| find(&old, key).as_ref() != Some(row)) {
        observer.changed(&key[prefix.len()..], Some(row));
    }
    Ok(())
}

fn rows(snapshot: &dyn Snapshot, prefix: &[u8]) -> Result<Vec<TreeRow>> {
    let all = store::Chunk::read(snapshot, prefix, None, usize::MAX);
    all.map(|chunk| chunk.rows).map_err(store_error)
}
