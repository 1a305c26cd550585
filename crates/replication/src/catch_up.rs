//! Catch-up by snapshot: fetched when consensus requires it, installed between two turns, when
//! nothing else is applied.
//!
//! The store then holds entries that the log does not, so the log must be on disk up to here first:
//! a store with entries implies a log, and a log begins with a promise. A synced record behind all
//! others shows that it is.

use super::group::{Group, Observer};
use super::records;
use super::seals::BOOKKEEPING_BUCKET;
use base::{GroupId, NodeId, Reason, Result};
use bytes::Bytes;
use logic::consensus::Event;
use replica_state::layout;
use replica_state::snapshot::{InstalledSnapshot, StagedSnapshot};
use runtime::log_writer::store_error;
use std::sync::Arc;
use store::{Snapshot, TreeRow};
use tokio::task::{JoinError, JoinSet};

/// Task that fetches a snapshot for a group, at most one.
#[derive(Default)]
pub(super) struct Fetches {
    pub tasks: JoinSet<Result<StagedSnapshot>>,
    from: NodeId,
}

impl Group {
    /// Fetches the snapshot that the last turn requested, unless a fetch is in progress. A fetch
    /// from a node that is no longer connected is dropped in favour of another source: the node may
    /// be down for long.
    pub(super) fn fetch_snapshot(self: &Arc<Group>, fetches: &mut Fetches) {
        let source = self.state().snapshot.take_fetch_source();
        let (Some(from), Some(peers)) = (source, self.shared.peers.get()) else { return };
        if !fetches.tasks.is_empty() {
            if from != fetches.from && !peers.is_linked(fetches.from) {
                // A fetch holds the group's only part queue until it is dropped.
                fetches.tasks.abort_all();
                // Requested again when that fetch has ended.
                self.state().snapshot.fetch_source.get_or_insert(from);
            }
            return;
        }
        fetches.from = from;
        let (group, peers) = (Arc::clone(self), peers.clone());
        fetches.tasks.spawn(async move {
            match group.is_witness_replica() {
                true => group.shared.snapshots.fetch_mark(&peers, group.id, from).await,
                false => group.shared.snapshots.fetch(&peers, group.id, from).await,
            }
        });
    }

    /// Handles the end of a fetch: stages the snapshot, or fails if this node's store did.
    pub fn on_fetch_ended(
        &self,
        result: std::result::Result<Result<StagedSnapshot>, JoinError>,
    ) -> Result<()> {
        let group = self.id.0;
        match result {
            Ok(Ok(staged)) => {
                let mut state = self.state();
                let record =
                    records::before_install(self.id, state.replica.decided(), staged.last_index());
                state.output.log(record);
                state.snapshot.stage(staged);
                self.driver.wake();
                Ok(())
            }
            Ok(Err(error)) if matches!(error.reason, Reason::StoreFailed | Reason::Corrupt) => {
                Err(error)
            }
            Ok(Err(error)) => {
                tracing::info!(
                    target: "consensus", group, %error, "a snapshot could not be received"
                );
                if error.reason == Reason::Changed {
                    self.step(&mut self.state(), Event::SnapshotOutdated, &[]);
                    self.driver.wake();
                }
                Ok(())
            }
            Err(error) if error.is_cancelled() => Ok(()),
            Err(error) => {
                tracing::warn!(target: "consensus", group, %error, "a snapshot was interrupted");
                Ok(())
            }
        }
    }

    /// Installs a staged snapshot, once the log is synced up to here.
    pub(super) fn install_snapshot(&self) -> Result<()> {
        let Some(staged) = self.state().snapshot.take_synced() else { return Ok(()) };
        let (group, trees) = (self.id.0, &self.shared.trees);
        if self.is_witness_replica() && self.applied.index() < staged.last_index() {
            self.drop_all_entries()?;
        }
        let before = self.observer.get().map(|_| trees.snapshot());
        // As in `apply_decided`: readers see the rows as soon as the store has switched.
        self.applied.raise_visible(staged.last_index());
        let installed = match staged.install() {
            Ok(installed) => installed,
            Err(error) if matches!(error.reason, Reason::Changed | Reason::OutOfSpace) => {
                tracing::info!(
                    target: "consensus", group, %error, "a received snapshot is not usable"
                );
                self.applied.reset_visible();
                if error.reason == Reason::Changed {
                    self.step(&mut self.state(), Event::SnapshotOutdated, &[]);
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if let (Some(observer), Some(before)) = (self.observer.get(), before) {
            report_changes(self.id, &**observer, &*before, &*trees.snapshot())?;
        }
        self.mark_capture_incomplete();
        let InstalledSnapshot { index, base, configuration, mark } = installed;
        self.applied.set_time(mark.time);
        self.applied.raise_flushed(index);
        let mut guard = self.state();
        let state = &mut *guard;
        let is_ahead = index > state.replica.decided();
        // As a former master, this node may have proposed entries below the snapshot's index, where
        // other entries may stand now. Before `advance`: a waiter for one of them would mistake the
        // other entry for its own.
        if is_ahead {
            state.end_epoch(&self.applied);
        }
        state.progress.install(mark, index);
        state.entries.install_snapshot(index, is_ahead);
        self.applied.advance(index);
        // Own entries that are decided and not applied yet would cover its rows in the overlay.
        state.release_applied(index);
        let configuration = (base, configuration);
        self.step(state, Event::Installed { last: index, configuration }, &[]);
        // Entries that were accepted during the fetch precede this record in the log.
        state.output.log(records::after_install(self.id, index));
        Ok(())
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
