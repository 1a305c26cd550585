//! Background maintenance: makes the store durable, truncates the log, compacts, frees the space of
//! dropped buckets, watches the disk, and copies forward in the log what must not be lost with its
//! start.
//!
//! It has a thread of its own, so that nothing here ever blocks an answer. `flush.rs` describes how
//! the store is made durable and the log truncated.

use crate::disk_health::DiskHealth;
use crate::dropped_bucket::DroppedBucket;
use crate::flush::StoreFlusher;
use crate::groups::Groups;
use crate::lifecycle::Lifecycle;
use crate::settings::HostSettings;
use crate::slowdown_watch::SlowdownWatch;
use base::{BucketId, GroupId, Kind, LogIndex, Result};
use dynamo::vnode_store::VnodeStore;
use metadata::Directory;
use runtime::disk_space::DiskFigures;
use runtime::log_writer::store_error;
use runtime::{Beat, FileTasks, MaintenanceSignal, WritePacer, process, world};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_IDLE: Duration = Duration::from_millis(1_000);
/// Minimum time between two requests for records of the log's head, in milliseconds. Damage before
/// the last such record can be repaired in place.
const HEAD_PAUSE_MS: u64 = 1_000;
/// Maximum number of groups that record their log head at a time; with more, they alternate.
const HEAD_REQUESTS_MAX: usize = 64;
/// The log is collapsed when it reaches its limit divided by this, so that replay stays short.
const COLLAPSE_FRACTION: u64 = 4;
/// Number of dropped buckets that the directory remembers for members that are down.
const REMEMBERED_MAX: usize = 10_000;

/// Progress of the requests to record the log's head.
#[derive(Default)]
pub struct LogHeadRequests {
    /// Index of the next group.
    next: usize,
    /// Number of groups that have not recorded it since something was written.
    remaining: usize,
}

/// Kind of a thread that merges tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merger {
    /// Takes any merge.
    Any,
    /// Takes only short merges, so that what is flushed never waits for a long one.
    Small,
}

/// State of the three maintenance threads.
pub struct Housekeeper {
    /// Settings of the replicas.
    pub settings: Arc<HostSettings>,
    /// Runner of flush rounds.
    pub flusher: Arc<StoreFlusher>,
    /// Groups with a replica here.
    pub groups: Arc<Groups>,
    /// Vnodes of this node.
    pub vnode_store: Arc<VnodeStore>,
    /// Directory of buckets and members.
    pub directory: Arc<Directory>,
    /// Health of the disk.
    pub disk: Arc<DiskHealth>,
    /// Signal that there is work, and the pauses of writers.
    pub pacer: Arc<WritePacer>,
    /// Signals for the threads that merge tables.
    pub merging: MaintenanceSignal,
    /// Signal for the thread that takes short merges only.
    pub small_merging: MaintenanceSignal,
    /// Tasks that write files.
    pub file_tasks: Arc<FileTasks>,
    /// State of the node.
    pub lifecycle: Arc<Lifecycle>,
}

impl Housekeeper {
    /// Prevents the threads from starting more work, gives up merges, which may be long, and wakes
    /// the threads.
    pub fn close(&self) {
        self.file_tasks.close();
        self.flusher.trees.cancel_merges();
        self.pacer.maintenance.raise();
        self.wake_mergers();
    }

    fn wake_mergers(&self) {
        self.merging.raise();
        self.small_merging.raise();
    }

    /// Runs the maintenance thread.
    pub fn run_maintenance(&self, beat: &Beat) {
        let (mut reclaimed, mut checked_index) = (BTreeMap::new(), None);
        let (mut requested_ms, mut head_requests) = (0, LogHeadRequests::default());
        let mut slowdown = SlowdownWatch::default();
        self.warn_reduced_reserve();
        beat.set_pause_max(PAUSE_IDLE);
        beat.set_progress(process::thread_io());
        loop {
            beat.work();
            let now = world::milliseconds();
            if now.saturating_sub(requested_ms) >= HEAD_PAUSE_MS {
                requested_ms = now;
                self.request_log_heads(&mut head_requests);
            }
            slowdown.observe(&self.pacer, now);
            let Ok(task) = self.file_tasks.begin() else { return };
            beat.use_disk();
            let round = self.round(&mut reclaimed, &mut checked_index);
            drop(task);
            beat.rest();
            match round {
                Ok(true) => self.pacer.maintenance.wait(PAUSE),
                Ok(false) => self.pacer.maintenance.wait(PAUSE_IDLE),
                Err(error) if error.kind() == Kind::Corrupt => {
                    self.lifecycle.fail(error);
                    return;
                }
                Err(error) => {
                    tracing::warn!(target: "store", %error, "maintenance failed; it is retried");
                    std::thread::sleep(PAUSE); // A wake-up signal would not help.
                }
            }
        }
    }

    /// Requests every group, and the vnodes, to record the log's head again once any of them wrote.
    /// A later start that finds a hole in the log needs the state of each.
    pub fn request_log_heads(&self, head_requests: &mut LogHeadRequests) {
        let groups = self.groups.all();
        let mut has_written = self.vnode_store.take_written();
        for group in &groups {
            has_written |= group.has_written();
        }
        if has_written {
            head_requests.remaining = groups.len();
        }
        let now = head_requests.remaining.min(HEAD_REQUESTS_MAX);
        if now == 0 {
            return;
        }
        for offset in 0..now {
            groups[(head_requests.next + offset) % groups.len()].request_log_head();
        }
        self.vnode_store.write_log_head();
        head_requests.remaining -= now;
        head_requests.next = (head_requests.next + now) % groups.len();
    }

    /// Runs a thread that merges tables. It is separate because a merge may take longer than the
    /// memory for concurrent writes lasts.
    pub fn run_merger(&self, merger: Merger, beat: &Beat) {
        let trees = &self.flusher.trees;
        // Flushes raise the signals. Without them it looks for dead spans and merges an idle store.
        let signal = match merger {
            Merger::Any => &self.merging,
            Merger::Small => &self.small_merging,
        };
        beat.set_pause_max(PAUSE_IDLE);
        beat.set_progress(process::thread_io());
        loop {
            let Ok(task) = self.file_tasks.begin() else { return };
            beat.use_disk();
            let merged = match merger {
                Merger::Any => trees.compact(),
                Merger::Small => trees.compact_small(),
            };
            drop(task);
            beat.rest();
            match merged.map_err(store_error) {
                Ok(true) => {}
                Ok(false) => signal.wait(PAUSE_IDLE),
                Err(error) if error.kind() == Kind::Corrupt => {
                    self.lifecycle.fail(error);
                    return;
                }
                Err(error) => {
                    tracing::warn!(target: "store", %error, "compaction failed; it is retried");
                    signal.wait(PAUSE_IDLE);
                }
            }
        }
    }

    /// Runs one round. Returns true if there was work. `checked_index`: applied index of the
    /// directory at the last look-up of dropped buckets, which costs a range read.
    fn round(
        &self,
        reclaimed: &mut BTreeMap<BucketId, DroppedBucket>,
        checked_index: &mut Option<LogIndex>,
    ) -> Result<bool> {
        self.watch_disk();
        let pressure = self.flusher.trees.pressure();
        let flush = pressure.is_rotation_due()
            || pressure.sealed_tables > 0
            || self.flusher.unflushed_log() >= self.settings.log_bytes_max / COLLAPSE_FRACTION;
        if flush {
            self.flusher.flush_and_collapse()?;
            self.wake_mergers();
        }
        let mut has_work = flush;
        let applied =
            self.groups.get(GroupId::DIRECTORY).map(|directory| directory.applied.index());
        if applied == *checked_index {
            return Ok(has_work);
        }
        let mut is_postponed = false;
        let dropped = self.directory.dropped_buckets()?;
        let (now, seen_index) =
            (world::milliseconds(), self.directory.group.applied.visible_index());
        for (bucket, group) in &dropped {
            let lease_ms = self.settings.lease_ms;
            let state = DroppedBucket::new(now, *group, seen_index, lease_ms);
            reclaimed.entry(*bucket).or_insert(state);
        }
        for (bucket, state) in reclaimed.iter_mut().filter(|(_, state)| !state.is_freed) {
            if self.reclaim(*bucket, state, now)? {
                state.is_freed = true;
                has_work = true;
            }
            is_postponed |= !state.is_freed;
        }
        let is_dropped =
            |bucket: &BucketId| dropped.binary_search_by_key(bucket, |(id, _)| *id).is_ok();
        // Kept until its space is free here, even if the directory has removed its row.
        reclaimed.retain(|bucket, state| !state.is_freed || is_dropped(bucket));
        let awaits_members = dropped.len() <= REMEMBERED_MAX;
        for (bucket, _) in dropped {
            let freed = reclaimed.get_mut(&bucket).filter(|state| state.is_freed);
            let Some(state) = freed else { continue };
            is_postponed |= !self.forget_bucket(bucket, state, awaits_members, now)?;
        }
        // Postponed work becomes due by time, which no new entry signals.
        if !is_postponed {
            *checked_index = applied;
        }
        Ok(has_work)
    }

    /// Removes the directory's row of a bucket whose space is freed, once the other members had
    /// time to free theirs. Returns false if that is to be retried.
    fn forget_bucket(
        &self,
        bucket: BucketId,
        state: &mut DroppedBucket,
        awaits_members: bool,
        now: u64,
    ) -> Result<bool> {
        let directory = &self.directory.group;
        if !directory.leadership.is_master() {
            return Ok(false);
        }
        if !directory.is_sole_member() {
            let saved = directory.progress().into_iter().map(|member| member.saved);
            if !state.may_be_forgotten(saved, awaits_members, now) {
                return Ok(false);
            }
        }
        self.directory.remove_dropped_row(bucket).map(|()| true)
    }

    /// Frees a dropped bucket's space. Returns false if that is to be retried. Never waits until an
    /// entry is applied: that may require a flush, which this thread runs.
    pub fn reclaim(&self, bucket: BucketId, state: &mut DroppedBucket, now: u64) -> Result<bool> {
        let Some(group) = self.groups.get(state.group) else { return Ok(true) };
        if !state.is_applied(&group.apply_progress(), now) {
            return Ok(false);
        }
        group.forget_removals();
        self.flusher.drop_bucket(group.id, bucket)?;
        tracing::debug!(
            target: "store", bucket = bucket.0, "the space of a dropped bucket is reclaimed"
        );
        Ok(true)
    }

    /// Logs once that the disk is too small for the configured reserve.
    fn warn_reduced_reserve(&self) {
        let Some(disk) = DiskFigures::measure(&self.settings.data_dir) else { return };
        let (total, wanted) = (disk.total_bytes, self.settings.disk_reserve_bytes);
        let reserve = disk.reserve_bytes(wanted);
        if reserve < wanted {
            tracing::warn!(
                target: "store", wanted, reserve, total,
                "disk_reserve_bytes is more than an eighth of this disk: an eighth is reserved \
                 instead"
            );
        }
    }

    /// Refuses writes when the disk is nearly full, and accepts them again when there is space.
    /// Merges leave half of the reserve to the log and to flushes, so that deletes go on.
    fn watch_disk(&self) {
        if let Some(figures) = DiskFigures::measure(&self.settings.data_dir) {
            let no_space = self.disk.log_writer.waits_for_space();
            let reserve = figures.reserve_bytes(self.settings.disk_reserve_bytes);
            self.flusher.trees.limit_merges(figures.free_bytes.saturating_sub(reserve / 2));
            self.disk.space.update(&figures, self.settings.disk_reserve_bytes, no_space);
        }
    }
}
