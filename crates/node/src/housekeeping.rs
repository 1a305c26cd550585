//! Background maintenance: makes the store durable, truncates the log, compacts, frees the space of
//! dropped buckets, watches the disk, and copies forward in the log what must not be lost with its
//! start.
//!
//! It has a thread of its own, so that nothing here ever blocks an answer. `flush.rs` describes how
//! the store is made durable and the log truncated.

use crate::disk_health::DiskHealth;
use crate::flush::StoreFlusher;
use crate::groups::Groups;
use crate::lifecycle::Lifecycle;
use crate::reclaimed::Reclaimed;
use crate::settings::NodeSettings;
use base::{BucketId, GroupId, Kind, LogIndex, Result};
use dynamo::vnode_store::VnodeStore;
use metadata::Directory;
use replication::layout;
use runtime::disk_space::Figures;
use runtime::log_writer::store_error;
use runtime::{FileTasks, MaintenanceSignal, world};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_IDLE: Duration = Duration::from_millis(1_000);
/// Minimum time between two statements of the log's state, in milliseconds. Damage before the last
/// one can be repaired in place.
const STATE_PAUSE_MS: u64 = 1_000;
/// Maximum number of groups that log their state again at a time; with more, they take turns.
const STATEMENTS_MAX: usize = 64;
/// The log is collapsed when it is this part of its limit, so that replay stays short.
const COLLAPSE_PART: u64 = 4;
/// The directory of several members forgets a dropped bucket after this.
const FORGET_MS: u64 = 30_000;

/// Progress of logging again the state that exists only in the log.
#[derive(Default)]
pub(crate) struct Statements {
    /// Index of the next group.
    next: usize,
    /// Number of groups that have not done so since something was written.
    left: usize,
}

/// State of the two maintenance threads.
pub(crate) struct Housekeeper {
    pub settings: Arc<NodeSettings>,
    pub flusher: Arc<StoreFlusher>,
    pub groups: Arc<Groups>,
    pub vnode_store: Arc<VnodeStore>,
    pub directory: Arc<Directory>,
    pub disk: Arc<DiskHealth>,
    /// Signal that there is work.
    pub signal: Arc<MaintenanceSignal>,
    /// Raised when the thread that merges is to look about.
    pub merging: MaintenanceSignal,
    pub file_tasks: Arc<FileTasks>,
    pub lifecycle: Arc<Lifecycle>,
}

impl Housekeeper {
    /// Lets the threads begin nothing more, and wakes them to see that.
    pub(crate) fn close(&self) {
        self.file_tasks.close();
        self.signal.raise();
        self.merging.raise();
    }

    /// Runs the maintenance thread.
    pub(crate) fn run_maintenance(&self) {
        let (mut reclaimed, mut looked_at) = (BTreeMap::new(), None);
        let (mut stated_ms, mut statements) = (0, Statements::default());
        self.tell_reserve();
        loop {
            let now = world::milliseconds();
            if now.saturating_sub(stated_ms) >= STATE_PAUSE_MS {
                stated_ms = now;
                self.state_again(&mut statements);
            }
            let Ok(working) = self.file_tasks.begin() else { return };
            let round = self.round(&mut reclaimed, &mut looked_at);
            drop(working);
            match round {
                Ok(true) => self.signal.wait(PAUSE),
                Ok(false) => self.signal.wait(PAUSE_IDLE),
                Err(error) if error.kind() == Kind::Corrupt => {
                    self.lifecycle.fail(error);
                    return;
                }
                Err(error) => {
                    tracing::warn!(target: "store", %error, "put off");
                    std::thread::sleep(PAUSE); // whoever rings can't help
                }
            }
        }
    }

    /// Makes every group, and the vnodes, log again the state that exists only in the log, as soon
    /// as any of them wrote. A later start that finds a hole in the log must know the state of
    /// each.
    pub(crate) fn state_again(&self, statements: &mut Statements) {
        let groups = self.groups.all();
        let mut wrote = self.vnode_store.has_written();
        for group in &groups {
            wrote |= group.has_written();
        }
        if wrote {
            statements.left = groups.len();
        }
        let now = statements.left.min(STATEMENTS_MAX);
        if now == 0 {
            return;
        }
        for place in 0..now {
            groups[(statements.next + place) % groups.len()].state_again();
        }
        self.vnode_store.state_again();
        statements.left -= now;
        statements.next = (statements.next + now) % groups.len();
    }

    /// Runs the thread that merges tables. It is separate, because a merge may take longer than the
    /// store has memory for the writes meanwhile.
    pub(crate) fn keep_merging(&self) {
        loop {
            let Ok(working) = self.file_tasks.begin() else { return };
            let merged = self.flusher.trees.compact().map_err(store_error);
            drop(working);
            match merged {
                Ok(true) => {}
                Ok(false) => self.merging.wait(PAUSE),
                Err(error) if error.kind() == Kind::Corrupt => {
                    self.lifecycle.fail(error);
                    return;
                }
                Err(error) => {
                    tracing::warn!(target: "store", %error, "merging put off");
                    self.merging.wait(PAUSE_IDLE);
                }
            }
        }
    }

    /// Runs one round. Returns true if there was work. `looked_at`: the directory's applied index
    /// when it was last asked for dropped buckets; that query costs a range read.
    fn round(
        &self,
        reclaimed: &mut BTreeMap<BucketId, Reclaimed>,
        looked_at: &mut Option<LogIndex>,
    ) -> Result<bool> {
        self.watch_disk();
        let pressure = self.flusher.trees.pressure();
        let flush = pressure.rotate_is_due()
            || pressure.sealed_tables > 0
            || self.flusher.unflushed_log() >= self.settings.log_bytes_max / COLLAPSE_PART;
        if flush {
            self.flusher.flush_and_collapse()?;
        }
        let mut busy = flush;
        let applied =
            self.groups.get(GroupId::DIRECTORY).map(|directory| directory.applied.index());
        if applied == *looked_at {
            return Ok(busy);
        }
        let mut put_off = false;
        let dropped = self.directory.dropped()?;
        let now = world::milliseconds();
        for (bucket, group) in &dropped {
            reclaimed.entry(*bucket).or_insert(Reclaimed::seen_at(now, *group));
        }
        for (bucket, seen) in reclaimed.iter_mut().filter(|(_, seen)| !seen.done) {
            if self.reclaim(*bucket, seen, now)? {
                seen.done = true;
                busy = true;
            }
            put_off |= !seen.done;
        }
        let known = |bucket: &BucketId| dropped.iter().any(|(dropped, _)| dropped == bucket);
        // One that the directory forgot already is kept until its space is free here, too.
        reclaimed.retain(|bucket, seen| !seen.done || known(bucket));
        for (bucket, _) in dropped {
            let seen = reclaimed.get(&bucket).filter(|seen| seen.done).map(|seen| seen.seen);
            let Some(seen) = seen else { continue };
            put_off |= !self.forget(bucket, now.saturating_sub(seen))?;
        }
        // What was put off waits for time to pass, which no new entry tells of.
        if !put_off {
            *looked_at = applied;
        }
        Ok(busy)
    }

    /// Makes the directory forget a bucket whose space is freed, once the other members had time
    /// for it, too. Returns false if that is to be tried again.
    fn forget(&self, bucket: BucketId, since: u64) -> Result<bool> {
        let directory = &self.directory.group;
        if !directory.leadership.is_master() {
            return Ok(false);
        }
        if !directory.is_alone() && since < FORGET_MS {
            return Ok(false);
        }
        self.directory.forget_dropped(bucket).map(|()| true)
    }

    /// Frees a dropped bucket's space. Returns false if that is to be tried again. Never waits
    /// until an entry is applied: that may wait for a flush, and this thread is the one that
    /// flushes.
    pub(crate) fn reclaim(&self, bucket: BucketId, seen: &mut Reclaimed, now: u64) -> Result<bool> {
        let Some(group) = self.groups.get(seen.group) else { return Ok(true) };
        if !seen.is_over(&group.apply_progress(), now) {
            return Ok(false);
        }
        let mut prefix = Vec::new();
        layout::row_key(group.id, bucket, &[], &mut prefix);
        self.flusher.drop_prefix(&prefix)?;
        tracing::debug!(target: "store", bucket = bucket.0, "a dropped bucket's space is free");
        Ok(true)
    }

    /// Logs once that the disk is too small for the configured reserve.
    fn tell_reserve(&self) {
        let Some(disk) = Figures::of(&self.settings.data_dir) else { return };
        let (total, wanted) = (disk.total_bytes, self.settings.disk_reserve_bytes);
        let reserve = disk.reserve_bytes(wanted);
        if reserve < wanted {
            tracing::warn!(
                target: "store", wanted, reserve, total,
                "disk_reserve_bytes is more than an eighth of this disk: an eighth is kept free"
            );
        }
    }

    /// Refuses writes when the disk is nearly full, and takes them again when there is space.
    fn watch_disk(&self) {
        if let Some(figures) = Figures::of(&self.settings.data_dir) {
            let no_space = self.disk.log_writer.no_space();
            self.disk.space.see(&figures, self.settings.disk_reserve_bytes, no_space);
        }
    }
}
