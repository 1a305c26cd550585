//! Samples of a node, for metrics.

use crate::alarms::{AlarmInput, StoreLag};
use crate::cluster::{ClusterStatus, ClusterView};
use crate::diagnostics::Diagnostics;
use crate::readiness::{Readiness, Unreached};
use crate::settings::NodeSettings;
use crate::status::{DiskStatus, GroupStatus, LogStatus, Status, StoreStatus};
use base::{Alarm, FeatureLevel};
use dynamo::AvailableStatus;
use replica_host::{DiskHealth, Lifecycle, feed_samples, follows};
use replica_state::snapshot::Snapshots;
use replication::group::Group;
use runtime::sample::{Sample, SampleKind};
use runtime::{BeatStatus, WritePacer, process, world};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::Trees;
use tls::PeerMode;
use transport::PeerStatus;

/// Maximum number of interval buckets listed in the status.
const INTERVAL_BUCKETS_SHOWN: usize = 100;

/// Maximum number of beats listed in the status.
const BEATS_SHOWN_MAX: usize = 100;

/// Reader of the state of all components of a node.
pub(crate) struct StatusReader {
    pub settings: Arc<NodeSettings>,
    /// Number of this incarnation of the node.
    pub incarnation: u64,
    pub view: Arc<ClusterView>,
    pub readiness: Arc<Readiness>,
    pub recorder: Arc<crate::act_recorder::ActRecorder>,
    pub snapshots: Arc<Snapshots>,
    pub trees: Arc<dyn Trees>,
    pub pacer: Arc<WritePacer>,
    pub disk: Arc<DiskHealth>,
    pub lifecycle: Arc<Lifecycle>,
    pub diagnostics: Arc<Diagnostics>,
}

impl StatusReader {
    /// See [`crate::Node::status`].
    pub(crate) fn read(&self) -> Status {
        let ClusterView { groups, catalog, links, available, .. } = &*self.view;
        let store = self.store_status();
        let space = &self.disk.space;
        let full = space.is_full();
        let interval_buckets = catalog.interval_buckets(INTERVAL_BUCKETS_SHOWN);
        let groups = groups.all();
        let unreached = self.readiness.unreached();
        let available = available.status();
        // With other members every entry is synced before it counts.
        let unsynced =
            !interval_buckets.is_empty() && groups.iter().any(|group| group.is_sole_member());
        let unsynced_ms = unsynced.then_some(self.settings.sync_interval_ms);
        let groups = groups.iter().filter(|group| follows(group));
        let groups: Vec<_> = groups.map(|group| self.group_status(group)).collect();
        let cluster = self.view.status();
        let alarms =
            self.alarms(&unreached, &groups, (&cluster, &available), (&store, unsynced_ms));
        Status {
            name: self.settings.name.clone(),
            node: links.node,
            incarnation: self.incarnation,
            cluster: cluster.cluster,
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: world::milliseconds() - self.readiness.started_ms,
            ready: unreached.is_empty(),
            groups,
            snapshots: self.snapshots.progress().iter().map(|progress| progress.status()).collect(),
            log: self.log_status(),
            store,
            disk: DiskStatus {
                total_bytes: space.total_bytes(),
                free_bytes: space.free_bytes(),
                free_files: space.free_files(),
                full,
            },
            resident_bytes: process::resident(),
            buckets: catalog.bucket_count(),
            interval_buckets,
            lease_ms: cluster.lease_ms,
            members: cluster.members,
            available,
            alarms,
            beats: self.beats(),
        }
    }

    /// Returns the beats to show: a node may have thousands of groups.
    fn beats(&self) -> Vec<BeatStatus> {
        self.diagnostics.watchdog.beats().into_iter().take(BEATS_SHOWN_MAX).collect()
    }

    /// Evaluates the alarms.
    fn alarms(
        &self,
        unreached: &[Unreached],
        groups: &[GroupStatus],
        (cluster, available): (&ClusterStatus, &AvailableStatus),
        (store, unsynced_ms): (&StoreStatus, Option<u64>),
    ) -> Vec<Alarm> {
        let tls = self.settings.tls.iter();
        let input = AlarmInput {
            failure: self.lifecycle.failure(),
            unreached,
            groups,
            cluster,
            available,
            own: (self.view.links.node, &self.settings.name),
            disk: &self.disk,
            hangs_ms: self.disk.hangs().then(|| self.disk.log_writer.unanswered_ms()),
            log_bytes: (self.disk.log_writer.bytes(), self.settings.log_bytes_max),
            store_lag: StoreLag::of(&self.pacer.pressure(), store),
            has_many_siblings: self.view.available.vnode_store.has_many_siblings(),
            unsynced_ms,
            older_members: &self.older_members(cluster),
            clock_jump_ms: self.diagnostics.clock.recent_jump_ms(world::milliseconds()),
            late_tasks: &self.diagnostics.watchdog.late_beats(),
            concentrated: self.diagnostics.hot_keys.concentrated(),
            exposed: &self.exposed(),
            plain_peers: &self.plain_peers(),
            tls: tls.flat_map(|tls| tls.warnings(world::unix_ms() / 1_000)).collect(),
            refusal: self.diagnostics.listeners.recent_refusal(),
            audit_failure: self.recorder.trail.failure(),
        };
        self.diagnostics.alarms.update(input.findings())
    }

    /// Returns the connected members whose program is of a lower feature level.
    fn older_members(&self, cluster: &ClusterStatus) -> Vec<(String, String)> {
        let Some(peers) = self.view.links.peers.get() else { return Vec::new() };
        let members = cluster.members.iter();
        let others = members.filter(|member| member.member.node != self.view.links.node);
        let older = others.filter_map(|member| {
            let level = FeatureLevel(peers.version(member.member.node)?);
            let lacks = format!("its highest feature level is {level}");
            (level < FeatureLevel::HIGHEST).then(|| (member.member.name.clone(), lacks))
        });
        older.collect()
    }

    /// Returns the members with which plain connections last although they may be encrypted.
    fn plain_peers(&self) -> Vec<String> {
        let is_used =
            self.settings.tls.as_ref().is_some_and(|tls| tls.peer_mode() != PeerMode::Off);
        let links = if is_used { self.view.links.status() } else { Vec::new() };
        let is_plain = |link: &PeerStatus| link.connected.is_some() && !link.is_encrypted;
        links.into_iter().filter(is_plain).map(|link| link.name).collect()
    }

    /// Returns the listeners that the network reaches, that for other nodes included.
    fn exposed(&self) -> String {
        let peers = self.settings.peers.as_ref().map(|peers| peers.listen);
        let is_encrypted =
            self.settings.tls.as_ref().is_some_and(|tls| tls.peer_mode() == PeerMode::Required);
        let peers = peers.filter(|address| !address.ip().is_loopback() && !is_encrypted);
        let peers = peers.map(|address| format!("peer_listen = {address}"));
        let clients = Some(self.diagnostics.listeners.exposed().to_string());
        let all = [clients.filter(|listeners| !listeners.is_empty()), peers];
        all.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn log_status(&self) -> LogStatus {
        let DiskHealth { log_writer, metrics, .. } = &*self.disk;
        let (sync_us_p50, sync_us_p99) = metrics.sync_percentiles();
        LogStatus {
            bytes: log_writer.bytes(),
            segments: log_writer.segments(),
            syncs: metrics.syncs.load(Ordering::Relaxed),
            sync_us_p50,
            sync_us_p99,
            sync_us_mean: metrics.sync_mean_us(),
            slow: metrics.is_slow(),
            hangs: self.disk.hangs(),
            unanswered_ms: log_writer.unanswered_ms(),
        }
    }

    fn store_status(&self) -> StoreStatus {
        let trees = self.trees.statistics();
        let pressure = self.pacer.pressure();
        StoreStatus {
            disk_bytes: trees.disk_bytes,
            memory_bytes: trees.memory_bytes,
            cached_rows: trees.cached_rows,
            cached_bytes: trees.cached_bytes,
            rows_estimated: trees.rows_estimated,
            runs: trees.runs,
            unmerged_runs: trees.unmerged_runs,
            merge_debt_bytes: trees.merge_debt_bytes,
            write_slowdown_permille: pressure.slowdown_permille(),
            writes_waited_ms: u64::try_from(self.pacer.waited().as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn group_status(&self, group: &Group) -> GroupStatus {
        let view = &self.view;
        let (members, expect_progress_possible) = (view.members_of(group), view.may_restart(group));
        let comparison = view.audit.comparison(group);
        let name_of = |node| view.links.name_of(node);
        let unsound = group.driver.unsound_member().map(name_of);
        let witness_log = group
            .witness_log()
            .map(|witness_log| (witness_log.count() as u64, witness_log.bytes()));
        let (kept_values, kept_bytes) = witness_log.unwrap_or_default();
        let state = group.state();
        let waits_for_witness = group.witness_has_room(&state).err().map(|error| error.text());
        let torn = group.describe_torn_logs(&state, name_of);
        let lacks_ballots = state.replica.lacks_ballots();
        let master = state.replica.master();
        let (undecided, _) = state.queue.undecided();
        GroupStatus {
            id: group.id,
            role: state.replica.role().name(),
            master: master.map(name_of),
            ballot: state.replica.promised(),
            decided: state.replica.decided(),
            applied: group.applied.index(),
            flushed: group.applied.flushed(),
            undecided,
            sessions: state.master.sessions.total(),
            kept_values,
            kept_bytes,
            waits_for_witness,
            torn,
            lacks_ballots,
            unsound,
            expect_progress_possible,
            members,
            comparison,
        }
    }

    /// Returns the metrics; see [`crate::Node::samples`].
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let status = self.read();
        let (m, log, store, disk) = (&self.disk.metrics, &status.log, &status.store, &status.disk);
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        #[rustfmt::skip]
        let counters = [
            ("credenza_updates_total", "Updates accepted.", of(&m.updates)),
            ("credenza_updates_refused_total", "Updates refused for lack of queue or disk space.",
             of(&m.updates_refused)),
            ("credenza_reads_total", "Reads accepted.", of(&m.reads)),
            ("credenza_forwarded_out_total", "Requests forwarded to another node.",
             of(&m.forwarded_out)),
            ("credenza_forwarded_in_total", "Requests that other nodes forwarded to this one.",
             of(&m.forwarded_in)),
            ("credenza_forwarded_rejected_total",
             "Forwarded requests rejected because too many were in progress here.",
             of(&m.forwarded_rejected)),
            ("credenza_log_entries_total", "Log entries (batches of updates) accepted.",
             of(&m.log_entries)),
            ("credenza_expired_total", "Expiry index entries processed.", of(&m.expired)),
            ("credenza_log_syncs_total", "Syncs (fdatasync) of the log.", of(&m.syncs)),
            ("credenza_log_records_synced_total", "Log records synced to disk.", of(&m.records)),
            ("credenza_snapshots_sent_total", "Snapshots sent completely.", of(&m.snapshots_sent)),
            ("credenza_snapshots_received_total", "Snapshots received completely.",
             of(&m.snapshots_received)),
            ("credenza_snapshot_bytes_sent_total", "Snapshot bytes sent.",
             of(&m.snapshot_bytes_sent)),
            ("credenza_snapshot_bytes_received_total", "Snapshot bytes received.",
             of(&m.snapshot_bytes_received)),
            ("credenza_snapshot_resumes_total", "Snapshot parts lost and requested again.",
             of(&m.snapshot_resumes)),
            ("credenza_may_lack_total",
             "Elections that ignored torn logs; acknowledged writes may be lost.", of(&m.may_lack)),
            ("credenza_index_entries_mended_total",
             "Entries of indexes that a check found wrong.",
             of(&m.index_entries_mended)),
        ];
        #[rustfmt::skip]
        let gauges = [
            ("credenza_store_disk_bytes", "Size of the store's files.", store.disk_bytes as f64),
            ("credenza_store_memory_bytes", "Size of the memtables.", store.memory_bytes as f64),
            ("credenza_store_rows_estimated", "Estimated rows.", store.rows_estimated as f64),
            ("credenza_cache_rows", "Rows in the row cache.", store.cached_rows as f64),
            ("credenza_cache_bytes", "Size of the row cache.", store.cached_bytes as f64),
            ("credenza_disk_free_bytes", "Free space of the data disk.", disk.free_bytes as f64),
            ("credenza_disk_total_bytes", "Size of the data disk.", disk.total_bytes as f64),
            ("credenza_disk_full", "1 if writes are refused for lack of disk space.",
             u64::from(disk.full) as f64),
            ("credenza_buckets", "Buckets.", status.buckets as f64),
            ("credenza_uptime_seconds", "Time since the start.", status.uptime_ms as f64 / 1e3),
        ];
        let counters = counters.into_iter().chain(self.store_counters(store));
        let counters = counters.map(|row| plain(SampleKind::Counter, row));
        let gauges = gauges.into_iter().chain(log_rows(log)).chain(merge_rows(store));
        let gauges = gauges.map(|row| plain(SampleKind::Gauge, row));
        let groups = status.groups.iter().flat_map(group_samples).chain(process::samples());
        let files = disk.free_files.map(|free| {
            let help = "Free inodes of the data disk.";
            plain(SampleKind::Gauge, ("credenza_disk_free_files", help, free as f64))
        });
        let feeds = feed_samples(&self.view.groups, &self.view.available, m);
        let paths = groups.chain(self.view.available.samples()).chain(feeds);
        let paths = paths.chain(status.alarms.iter().map(alarm_sample));
        counters.chain(gauges).chain(files).chain(paths).collect()
    }

    /// Returns the counters of the store.
    #[rustfmt::skip]
    fn store_counters(&self, store: &StoreStatus) -> [SampleRow; 5] {
        let trees = self.trees.statistics();
        [
            ("credenza_cache_hits_total", "Point reads answered by the row cache.",
             trees.cache_hits as f64),
            ("credenza_cache_misses_total", "Point reads not answered by the row cache.",
             trees.cache_misses as f64),
            ("credenza_store_rows_walked_total",
             "Rows that range reads visited, tombstones included.", trees.rows_walked as f64),
            ("credenza_store_rows_returned_total", "Live rows that range reads returned.",
             trees.rows_returned as f64),
            ("credenza_store_writes_waited_seconds_total",
             "Time for which writers waited for flushes and merges.",
             store.writes_waited_ms as f64 / 1e3),
        ]
    }
}

/// Name, description and value of a sample.
type SampleRow = (&'static str, &'static str, f64);

fn plain(kind: SampleKind, (name, help, value): SampleRow) -> Sample {
    Sample { name, help, kind, labels: vec![], value }
}

/// Returns the samples of the store's merges.
#[rustfmt::skip]
fn merge_rows(store: &StoreStatus) -> [SampleRow; 4] {
    [
        ("credenza_store_runs", "Sorted runs of rows on disk.", store.runs as f64),
        ("credenza_store_unmerged_runs", "Runs on disk that no merge has read yet.",
         store.unmerged_runs as f64),
        ("credenza_store_merge_debt_bytes", "Size of the runs whose merge is due.",
         store.merge_debt_bytes as f64),
        ("credenza_store_write_slowdown",
         "Slow-down of writes while merges lag: 0 (none) to 1 (the most).",
         store.write_slowdown_permille as f64 / 1e3),
    ]
}

/// Returns the samples of the log.
#[rustfmt::skip]
fn log_rows(log: &LogStatus) -> [SampleRow; 7] {
    [
        ("credenza_log_sync_seconds_p50", "Median duration of recent syncs of the log.",
         log.sync_us_p50 as f64 / 1e6),
        ("credenza_log_sync_seconds_p99", "99th percentile of the duration of recent syncs.",
         log.sync_us_p99 as f64 / 1e6),
        ("credenza_log_slow", "1 if log syncs are so slow that they limit the node.",
         u64::from(log.slow) as f64),
        ("credenza_log_hangs", "1 if the disk does not complete writes to the log.",
         u64::from(log.hangs) as f64),
        ("credenza_log_unanswered_seconds", "Age of the log's oldest incomplete disk operation.",
         log.unanswered_ms as f64 / 1e3),
        ("credenza_log_bytes", "Size of the log that can't be truncated yet.", log.bytes as f64),
        ("credenza_log_segments", "Log segments.", log.segments as f64),
    ]
}

fn alarm_sample(alarm: &Alarm) -> Sample {
    let help = "1 for each alarm that holds, by code and subject.";
    let labels = vec![("code", alarm.code.name().to_string()), ("subject", alarm.subject.clone())];
    Sample { name: "credenza_alarm", help, kind: SampleKind::Gauge, labels, value: 1.0 }
}

fn group_samples(group: &GroupStatus) -> impl Iterator<Item = Sample> {
    let label = group.id.to_string();
    let master = u64::from(group.role == "master");
    let comparison = group.comparison.as_ref();
    let differences = comparison.map_or(0, |found| found.differences.len() as u64);
    [
        ("credenza_group_differences", "Key ranges in which replicas differ.", differences),
        (
            "credenza_group_comparisons",
            "Completed comparisons of the group's replicas.",
            comparison.map_or(0, |found| found.passes),
        ),
        ("credenza_group_decided_index", "Index of the last decided entry.", group.decided.0),
        ("credenza_group_applied_index", "Index of the last applied entry.", group.applied.0),
        ("credenza_group_undecided_updates", "Updates that are not decided yet.", group.undecided),
        ("credenza_group_sessions", "Open sessions.", group.sessions),
        (
            "credenza_witness_log_bytes",
            "Size of the log entries that this witness keeps.",
            group.kept_bytes,
        ),
        ("credenza_group_master", "1 if this node is the group's master.", master),
    ]
    .into_iter()
    .map(move |(name, help, value)| {
        let labels = vec![("group", label.clone())];
        Sample { name, help, kind: SampleKind::Gauge, labels, value: value as f64 }
    })
}
