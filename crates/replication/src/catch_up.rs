//! Catch-up by snapshot: fetched when consensus requires it, then installed. Both run beside the
//! driver, which begins them between two turns and handles their ends (`installation.rs`).
//!
//! The store then holds entries that the log does not, so the log must be on disk up to here first:
//! a store with entries implies a log, and a log begins with a promise. A synced record behind all
//! others shows that it is.

use super::group::Group;
use super::installation::{InstallOutcome, Installation};
use super::records;
use base::error::shutting_down;
use base::{NodeId, Reason, Result};
use logic::consensus::Event;
use replica_state::snapshot::{InstalledSnapshot, StagedSnapshot};
use runtime::Watch;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use transport::Boxed;

/// Watch over an installation. It waits for the disk alone, which counts as hanging by then.
const INSTALL_WATCH: Watch = Watch::Round(Duration::from_secs(60));

/// Task that fetches a snapshot for a group, at most one.
#[derive(Default)]
pub(super) struct Fetches {
    pub tasks: JoinSet<Result<StagedSnapshot>>,
    from: NodeId,
}

/// Installation that runs beside the driver, at most one.
#[derive(Default)]
pub(super) struct RunningInstall {
    /// `None`: none runs. The inner `None`: the program is ending.
    ended: Option<Boxed<'static, Option<Result<InstallOutcome>>>>,
}

impl RunningInstall {
    /// Returns true if an installation runs.
    pub(super) fn is_running(&self) -> bool {
        self.ended.is_some()
    }

    /// Resolves when the installation has ended; never, if none runs. A caller that gives up
    /// waiting may call it again.
    pub(super) async fn wait_for_end(&mut self) -> Result<InstallOutcome> {
        let Some(ended) = &mut self.ended else { return pending().await };
        let outcome = ended.await;
        self.ended = None;
        outcome.unwrap_or_else(|| Err(shutting_down()))
    }
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

    /// Begins to install a staged snapshot on a thread that may block, once the log is synced up to
    /// here.
    pub(super) fn run_install(self: &Arc<Group>, running: &mut RunningInstall) {
        let Some(installation) = self.begin_install() else { return };
        let tasks = self.shared.tasks.clone();
        let work = async move { tasks.run_blocking(move || installation.run()).await };
        let name = format!("snapshot install of group {}", self.id);
        running.ended = Some(Box::pin(self.shared.tasks.track(&name, INSTALL_WATCH, work)));
    }

    /// Begins to install a staged snapshot, once the log is synced up to here. `None`: no snapshot
    /// may be installed now. The caller executes the installation and reports its outcome, both
    /// between two turns of the driver.
    pub fn begin_install(self: &Arc<Group>) -> Option<Installation> {
        let mut state = self.state();
        state.lifecycle.check().ok()?;
        let staged = state.snapshot.begin_install()?;
        drop(state);
        Some(Installation::new(self, staged))
    }

    /// Handles the end of an installation: entries behind the snapshot are applied again.
    pub fn on_install_ended(&self, outcome: InstallOutcome) {
        match outcome {
            InstallOutcome::Installed(installed) => self.on_installed(installed),
            InstallOutcome::Unusable(error) => {
                let group = self.id.0;
                tracing::info!(
                    target: "consensus", group, %error, "a received snapshot is not usable"
                );
                self.applied.reset_visible();
                let mut state = self.state();
                state.snapshot.end_install();
                if error.reason == Reason::Changed {
                    self.step(&mut state, Event::SnapshotOutdated, &[]);
                }
            }
        }
        self.driver.wake();
    }

    fn on_installed(&self, installed: InstalledSnapshot) {
        // Before entries are applied again: a copy is complete only behind its seal, which is one.
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
        // Entries that were accepted during the fetch or the installation precede this record in
        // the log.
        state.output.log(records::after_install(self.id, index));
        state.snapshot.end_install();
    }
}
