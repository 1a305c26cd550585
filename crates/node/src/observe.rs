//! What a node tells of itself.

use crate::consistent::group::Group;
use crate::status::{DiskStatus, GroupStatus, LogStatus, Sample, SampleKind, Status, StoreStatus};
use crate::{Inner, world};
use base::LogIndex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names of interval buckets shown in status.
const INTERVAL_BUCKETS_SHOWN: usize = 100;

impl Inner {
    pub(crate) fn status(&self) -> Status {
        let store = self.store_status();
        let (sync_us_p50, sync_us_p99) = self.metrics.sync_percentiles();
        let full = self.full.load(Ordering::Relaxed);
        let interval_buckets = self.catalog.interval_buckets(INTERVAL_BUCKETS_SHOWN);
        let mut warnings = Vec::new();
        if full {
            warnings.push("the disk is nearly full: writes are refused, deletes go on".into());
        }
        if !interval_buckets.is_empty() {
            warnings.push(format!(
                "a power cut may lose up to {} ms of updates of buckets with sync=interval",
                self.settings.interval_ms
            ));
        }
        if let Some(error) = self.failed.borrow().clone() {
            warnings.push(format!("the node has failed and must be restarted: {error}"));
        }
        let groups: Vec<_> = self.groups.iter().map(|group| self.group_status(group)).collect();
        Status {
            name: self.settings.name.clone(),
            node: self.node,
            cluster: self.cluster,
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: world::milliseconds() - self.started_ms,
            ready: groups.iter().all(|group| group.role == "master"),
            groups,
            log: LogStatus {
                bytes: self.keeper.bytes(),
                segments: self.keeper.segments(),
                syncs: self.metrics.syncs.load(Ordering::Relaxed),
                sync_us_p50,
                sync_us_p99,
            },
            store,
            disk: DiskStatus {
                total_bytes: self.disk_total.load(Ordering::Relaxed),
                free_bytes: self.disk_free.load(Ordering::Relaxed),
                full,
            },
            buckets: self.catalog.len(),
            interval_buckets,
            warnings,
        }
    }

    fn store_status(&self) -> StoreStatus {
        let trees = self.trees.statistics();
        StoreStatus {
            disk_bytes: trees.disk_bytes,
            memory_bytes: trees.memory_bytes,
            cached_rows: trees.cached_rows,
            cached_bytes: trees.cached_bytes,
            rows_about: trees.rows_about,
        }
    }

    fn group_status(&self, group: &Group) -> GroupStatus {
        let state = group.state();
        let master = state.replica.master();
        let (undecided, _) = state.undecided();
        GroupStatus {
            id: group.id,
            role: state.replica.role().word(),
            master: master.map(|_| self.settings.name.clone()),
            ballot: state.replica.promised(),
            decided: state.replica.decided(),
            applied: group.applied.index(),
            durable: LogIndex(group.durable.load(Ordering::Relaxed)),
            undecided,
            sessions: state.sessions,
            // With one voter a restart always stops the group.
            expect_progress_possible: state.replica.configuration().members().len() > 1,
        }
    }

    pub(crate) fn samples(&self) -> Vec<Sample> {
        use SampleKind::{Counter, Gauge};
        let status = self.status();
        let counter = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let trees = self.trees.statistics();
        let mut samples = Vec::new();
        let mut add = |name, help, kind, value: f64| {
            samples.push(Sample { name, help, kind, labels: Vec::new(), value });
        };
        let m = &self.metrics;
        add("credenza_updates_total", "Updates taken.", Counter, counter(&m.updates));
        add(
            "credenza_updates_refused_total",
            "Updates refused for lack of room or space.",
            Counter,
            counter(&m.updates_refused),
        );
        add("credenza_reads_total", "Reads taken.", Counter, counter(&m.reads));
        add(
            "credenza_values_total",
            "Values (batches of updates) proposed.",
            Counter,
            counter(&m.values),
        );
        add("credenza_expired_total", "Expiry hints looked at.", Counter, counter(&m.expired));
        add("credenza_log_syncs_total", "Syncs of the log.", Counter, counter(&m.syncs));
        add(
            "credenza_log_records_synced_total",
            "Log records made durable.",
            Counter,
            counter(&m.records),
        );
        add(
            "credenza_log_sync_seconds_p50",
            "Median of the last syncs.",
            Gauge,
            status.log.sync_us_p50 as f64 / 1e6,
        );
        add(
            "credenza_log_sync_seconds_p99",
            "99th percentile of the last syncs.",
            Gauge,
            status.log.sync_us_p99 as f64 / 1e6,
        );
        add(
            "credenza_log_bytes",
            "Log that can't be collapsed yet.",
            Gauge,
            status.log.bytes as f64,
        );
        add("credenza_log_segments", "Segments of the log.", Gauge, status.log.segments as f64);
        add(
            "credenza_store_disk_bytes",
            "Bytes of the store's files.",
            Gauge,
            status.store.disk_bytes as f64,
        );
        add(
            "credenza_store_memory_bytes",
            "Bytes of the store not yet flushed.",
            Gauge,
            status.store.memory_bytes as f64,
        );
        add(
            "credenza_store_rows_about",
            "About how many rows there are.",
            Gauge,
            status.store.rows_about as f64,
        );
        add(
            "credenza_cache_rows",
            "Rows in the row cache.",
            Gauge,
            status.store.cached_rows as f64,
        );
        add(
            "credenza_cache_bytes",
            "Bytes of the row cache.",
            Gauge,
            status.store.cached_bytes as f64,
        );
        add(
            "credenza_cache_hits_total",
            "Point reads answered by the row cache.",
            Counter,
            trees.cache_hits as f64,
        );
        add(
            "credenza_cache_misses_total",
            "Point reads that went to the trees.",
            Counter,
            trees.cache_misses as f64,
        );
        add(
            "credenza_disk_free_bytes",
            "Free space under the data directory.",
            Gauge,
            status.disk.free_bytes as f64,
        );
        add(
            "credenza_disk_total_bytes",
            "Size of the disk under it.",
            Gauge,
            status.disk.total_bytes as f64,
        );
        add(
            "credenza_disk_full",
            "1 while writes are refused for lack of space.",
            Gauge,
            f64::from(u8::from(status.disk.full)),
        );
        add("credenza_buckets", "Buckets.", Gauge, status.buckets as f64);
        add(
            "credenza_uptime_seconds",
            "Time since the start.",
            Gauge,
            status.uptime_ms as f64 / 1e3,
        );
        for group in &status.groups {
            for (name, help, value) in [
                ("credenza_group_decided_index", "The last decided value.", group.decided.0),
                ("credenza_group_applied_index", "The last applied value.", group.applied.0),
                ("credenza_group_undecided_updates", "Updates that wait.", group.undecided),
                ("credenza_group_sessions", "Open sessions.", group.sessions),
                (
                    "credenza_group_master",
                    "1 where this node is master.",
                    u64::from(group.role == "master"),
                ),
            ] {
                let labels = vec![("group", group.id.to_string())];
                samples.push(Sample { name, help, kind: Gauge, labels, value: value as f64 });
            }
        }
        samples
    }
}
