//! Counters of a node, by name.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of syncs whose durations are kept for the percentiles.
const RECENT_SYNCS: usize = 512;
/// Average duration of a sync above which the disk counts as slow, microseconds: about 30 syncs a
/// second.
const SLOW_US: u64 = 30_000;
/// Average below which the disk counts as fast again, microseconds.
const FAST_US: u64 = 20_000;
/// Most microseconds that one sync adds to the average, so that a single long one does not count
/// as a slow disk.
const SAMPLE_US_MAX: u64 = 200_000;
/// Number of syncs in the moving average.
const AVERAGE_SYNCS: u64 = 16;

/// Counters of a node.
#[derive(Default)]
pub struct Metrics {
    /// Updates accepted.
    pub updates: AtomicU64,
    /// Updates refused.
    pub updates_refused: AtomicU64,
    /// Reads answered.
    pub reads: AtomicU64,
    /// Requests forwarded to another node.
    pub forwarded_out: AtomicU64,
    /// Requests that other nodes forwarded to this one.
    pub forwarded_in: AtomicU64,
    /// Forwarded requests rejected because too many were in progress here.
    pub forwarded_rejected: AtomicU64,
    /// Log entries accepted: written to this node's log.
    pub log_entries: AtomicU64,
    /// Rows that expired.
    pub expired: AtomicU64,
    /// Syncs of the log.
    pub syncs: AtomicU64,
    /// Records written to the log.
    pub records: AtomicU64,
    /// Snapshots sent completely.
    pub snapshots_sent: AtomicU64,
    /// Snapshots received completely.
    pub snapshots_received: AtomicU64,
    /// Bytes of snapshots sent.
    pub snapshot_bytes_sent: AtomicU64,
    /// Bytes of snapshots received.
    pub snapshot_bytes_received: AtomicU64,
    /// Parts of snapshots that were lost and requested again.
    pub snapshot_resumes: AtomicU64,
    /// Masters that continued although torn logs may have held more.
    pub may_lack: AtomicU64,
    /// Entries of indexes that a check found wrong, and mended.
    pub index_entries_mended: AtomicU64,
    /// Old entries removed from feeds of changes.
    pub feed_entries_removed: AtomicU64,
    /// Pages of feeds that began again, because their readers were away for too long.
    pub feed_restarts: AtomicU64,
    /// Counters of available buckets.
    pub available: AvailableCounters,
    sync_us: Mutex<SyncTimes>,
    /// Moving average of sync durations: microseconds times [`AVERAGE_SYNCS`].
    sync_mean: AtomicU64,
    slow: AtomicBool,
}

/// Counters of available buckets.
#[derive(Default)]
pub struct AvailableCounters {
    /// Writes forwarded to a node that owns the key.
    pub redirected: AtomicU64,
    /// Requests that fewer replicas met than required.
    pub too_few: AtomicU64,
    /// Reads that found siblings.
    pub with_siblings: AtomicU64,
    /// Siblings that those reads found.
    pub siblings: AtomicU64,
    /// Writes refused because of the number of a key's siblings.
    pub too_many_siblings: AtomicU64,
    /// Contexts refused because the cluster did not return them for their key.
    pub contexts_refused: AtomicU64,
    /// Replicas to which a read repair was sent.
    pub read_repairs: AtomicU64,
    /// Anti-entropy rounds: comparisons of every partition replica of this node.
    pub anti_entropy_rounds: AtomicU64,
    /// Anti-entropy exchanges: pairs of replicas that were compared.
    pub anti_entropy_exchanges: AtomicU64,
    /// Exchanges that failed because a replica did not answer.
    pub anti_entropy_failed: AtomicU64,
    /// Rows that differed between two replicas.
    pub rows_differed: AtomicU64,
    /// Differing rows sent to the other replica.
    pub rows_sent: AtomicU64,
    /// Differing rows fetched from the other replica.
    pub rows_fetched: AtomicU64,
    /// Transitions of the failure detector: changes of another node's health.
    pub failure_detector_transitions: AtomicU64,
}

/// Durations of the last [`RECENT_SYNCS`] syncs: a ring buffer.
#[derive(Default)]
struct SyncTimes {
    recent_us: Vec<u32>,
    /// Slot of the next sync: the oldest one.
    next_slot: usize,
}

impl Metrics {
    /// Adds one to a counter.
    #[inline]
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds a number to a counter.
    #[inline]
    pub fn add(counter: &AtomicU64, number: u64) {
        counter.fetch_add(number, Ordering::Relaxed);
    }

    /// Records a sync of this many records that took this long.
    pub fn record_sync(&self, microseconds: u64, records: u64) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.records.fetch_add(records, Ordering::Relaxed);
        self.update_average(microseconds.min(SAMPLE_US_MAX));
        let microseconds = u32::try_from(microseconds).unwrap_or(u32::MAX);
        let mut times = self.sync_us.lock().expect("no one panics while holding it");
        if times.recent_us.len() < RECENT_SYNCS {
            times.recent_us.push(microseconds);
        } else {
            let slot = times.next_slot;
            times.recent_us[slot] = microseconds;
            times.next_slot = (slot + 1) % RECENT_SYNCS;
        }
    }

    /// Updates the moving average, without a lock: only the log's thread calls it.
    fn update_average(&self, microseconds: u64) {
        let previous = self.sync_mean.load(Ordering::Relaxed);
        let mean = previous - previous / AVERAGE_SYNCS + microseconds;
        self.sync_mean.store(mean, Ordering::Relaxed);
        let threshold = if self.is_slow() { FAST_US } else { SLOW_US };
        let slow = mean >= threshold * AVERAGE_SYNCS;
        if self.slow.swap(slow, Ordering::Relaxed) != slow {
            let sync_us = mean / AVERAGE_SYNCS;
            match slow {
                true => tracing::warn!(target: "log", sync_us, "the disk is slow"),
                false => tracing::info!(target: "log", sync_us, "the disk is fast again"),
            }
        }
    }

    /// Returns true if the disk under the log is slow: sync times then bound the node's throughput.
    pub fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed)
    }

    /// Returns the moving average of sync durations, microseconds.
    pub fn sync_mean_us(&self) -> u64 {
        self.sync_mean.load(Ordering::Relaxed) / AVERAGE_SYNCS
    }

    /// Returns the median and the 99th percentile of the last syncs, microseconds.
    pub fn sync_percentiles(&self) -> (u64, u64) {
        let mut times =
            self.sync_us.lock().expect("no one panics while holding it").recent_us.clone();
        if times.is_empty() {
            return (0, 0);
        }
        times.sort_unstable();
        let percentile = |percent: usize| u64::from(times[(times.len() - 1) * percent / 100]);
        (percentile(50), percentile(99))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow_after(metrics: &Metrics, syncs: &[u64]) -> bool {
        syncs.iter().for_each(|took_us| metrics.record_sync(*took_us, 1));
        metrics.is_slow()
    }

    #[test]
    fn slow_disk_state_changes_with_hysteresis() {
        let metrics = Metrics::default();
        assert!(!slow_after(&metrics, &[500; 1_000]));
        assert!(!slow_after(&metrics, &[3_000_000, 3_000_000]), "hiccups");
        assert!(!slow_after(&metrics, &[500; 20]));
        assert!(slow_after(&metrics, &[70_000; 20]), "some 14 a second");
        assert!(slow_after(&metrics, &[25_000; 100]), "not quick enough to be quick again");
        assert!((20_000..30_000).contains(&metrics.sync_mean_us()));
        assert!(!slow_after(&metrics, &[2_000; 40]));
        assert!(!slow_after(&metrics, &[25_000; 100]), "and not slow enough to be slow again");
    }
}
