//! Catch-up by snapshot: fetched when consensus requires it, installed between two turns, when
//! nothing else is applied.
//!
//! The store then holds entries that the log does not, so the log must be on disk up to here first:
//! a store with entries implies a log, and a log begins with a promise. A synced record behind
//! everything tells when that is so.

use super::group::{Group, Observer};
use super::seals::OWN;
use super::snapshot::{Fetched, StagedSnapshot};
use super::{layout, records};
use base::{GroupId, NodeId, Reason, Result};
use bytes::Bytes;
use logic::consensus::Event;
use runtime::log_writer::store_error;
use std::sync::Arc;
use store::{Snapshot, TreeRow};
use tokio::task::{JoinError, JoinSet};

/// The task that fetches a snapshot for a group: one at most.
#[derive(Default)]
pub(super) struct Fetches {
    pub tasks: JoinSet<Result<StagedSnapshot>>,
    from: NodeId,
}

impl Group {
    /// Fetches the snapshot that the last turn wanted, unless a fetch is under way. A fetch from a
    /// node that is gone is dropped in favour of another: that node may be away for long.
    pub(super) fn fetch_wanted(self: &Arc<Group>, fetches: &mut Fetches) {
        let wanted = self.state().snapshot.take_wanted();
        let (Some(from), Some(peers)) = (wanted, self.shared.peers.get()) else { return };
        if !fetches.tasks.is_empty() {
            if from != fetches.from && !peers.linked(fetches.from) {
                // An attempt holds the group's only intake until it is dropped.
                fetches.tasks.abort_all();
                // Requested again when that has ended.
                self.state().snapshot.wanted.get_or_insert(from);
            }
            return;
        }
        fetches.from = from;
        let (group, peers) = (Arc::clone(self), peers.clone());
        fetches.tasks.spawn(async move {
            match group.is_bare() {
                true => group.shared.snapshots.fetch_mark(&peers, group.id, from).await,
                false => group.shared.snapshots.fetch(&peers, group.id, from).await,
            }
        });
    }

    /// A fetch has ended.
    pub fn fetched(
        &self,
        ended: std::result::Result<Result<StagedSnapshot>, JoinError>,
    ) -> Result<()> {
        let group = self.id.0;
        match ended {
            Ok(Ok(staged)) => {
                let mut state = self.state();
                let firm = records::firm(self.id, state.replica.decided(), staged.upto());
                state.output.log(firm);
                state.snapshot.stage(staged);
                self.driver.wake();
                Ok(())
            }
            Ok(Err(error)) if matches!(error.reason, Reason::StoreFailed | Reason::Corrupt) => {
                Err(error)
            }
            Ok(Err(error)) => {
                tracing::info!(target: "consensus", group, %error, "no snapshot this time");
                Ok(())
            }
            Err(error) if error.is_cancelled() => Ok(()),
            Err(error) => {
                tracing::warn!(target: "consensus", group, %error, "a snapshot broke off");
                Ok(())
            }
        }
    }

    /// Installs a snapshot that is here.
    pub(super) fn install_snapshot(&self) -> Result<()> {
        let Some(staged) = self.state().snapshot.take_synced() else { return Ok(()) };
        let (group, trees) = (self.id.0, &self.shared.trees);
        if self.is_bare() && self.applied.index() < staged.upto() {
            self.let_go_all()?;
        }
        let before = self.observer.get().map(|_| trees.snapshot());
        // As in `apply_decided`: readers see the rows as soon as the store has switched.
        self.applied.shows(staged.upto());
        let fetched = match staged.install() {
            Ok(fetched) => fetched,
            Err(error) if matches!(error.reason, Reason::Changed | Reason::OutOfSpace) => {
                tracing::info!(target: "consensus", group, %error, "a snapshot is of no use");
                self.applied.shows_no_more();
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if let (Some(observer), Some(before)) = (self.observer.get(), before) {
            tell_changes(self.id, &**observer, &*before, &*trees.snapshot())?;
        }
        self.lose_track();
        let Fetched { upto, base, configuration, mark } = fetched;
        self.applied.set_time(mark.time);
        self.applied.raise_flushed(upto);
        let mut guard = self.state();
        let state = &mut *guard;
        // A former master may have proposed entries below it, whose place others may have taken.
        // Before `advance`: a waiter for one of them would take the other entry for its own.
        if upto > state.replica.decided() {
            state.end_term(&self.applied);
        }
        state.progress.install(mark, upto);
        state.entries.installed(upto);
        self.applied.advance(upto);
        // Own entries that are decided, and were not applied yet, would be seen above its rows.
        state.landed(upto);
        let configuration = (base, configuration);
        self.step(state, Event::Installed { upto, configuration }, &[]);
        // Whatever was accepted while it came stands before this.
        state.output.log(records::superseded(self.id, upto));
        Ok(())
    }
}

/// Reports to the observer which rows of bucket 0 have changed.
fn tell_changes(
    group: GroupId,
    observer: &dyn Observer,
    before: &dyn Snapshot,
    after: &dyn Snapshot,
) -> Result<()> {
    let mut prefix = Vec::new();
    layout::row_key(group, OWN, &[], &mut prefix);
    let (old, new) = (rows(before, &prefix)?, rows(after, &prefix)?);
    let find = |rows: &[TreeRow], key: &Bytes| {
        let place = rows.binary_search_by(|(at, _)| at.cmp(key)).ok();
        place.map(|place| rows[place].1.clone())
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
