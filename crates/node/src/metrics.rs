//! Counters by name.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Syncs whose times are remembered for the percentiles.
const SYNCS_REMEMBERED: usize = 512;

/// What a node counts.
#[derive(Default)]
pub(crate) struct Metrics {
    pub updates: AtomicU64,
    pub updates_refused: AtomicU64,
    pub reads: AtomicU64,
    /// Requests passed on to another node.
    pub passed_on: AtomicU64,
    /// Requests that other nodes passed on to this one.
    pub passed_here: AtomicU64,
    /// Those declined because too many were in progress.
    pub passed_here_declined: AtomicU64,
    pub values: AtomicU64,
    pub expired: AtomicU64,
    pub syncs: AtomicU64,
    pub records: AtomicU64,
    pub snapshots_sent: AtomicU64,
    pub snapshots_received: AtomicU64,
    pub snapshot_bytes_sent: AtomicU64,
    pub snapshot_bytes_received: AtomicU64,
    /// How often something of a snapshot was lost and asked for again.
    pub snapshot_resumes: AtomicU64,
    pub available: Available,
    sync_us: Mutex<Times>,
}

/// What the available side counts.
#[derive(Default)]
pub(crate) struct Available {
    /// Writes sent on to a node that keeps the key.
    pub redirected: AtomicU64,
    /// Requests that fewer replicas met than were asked for.
    pub too_few: AtomicU64,
    /// Reads that found several values.
    pub with_siblings: AtomicU64,
    /// The values they found.
    pub siblings: AtomicU64,
    /// Writes refused because of a key's many siblings.
    pub too_many_siblings: AtomicU64,
    /// Replicas that were sent what a read had found them to lack.
    pub read_repairs: AtomicU64,
    /// Rounds in which every copy here was compared.
    pub rounds: AtomicU64,
    /// Pairs of copies that were compared, and that could not be.
    pub compared: AtomicU64,
    pub not_compared: AtomicU64,
    /// Rows that differed; of them sent to the other copy, fetched from it.
    pub differed: AtomicU64,
    pub sent: AtomicU64,
    pub fetched: AtomicU64,
    /// How often this node thought otherwise of another.
    pub standings: AtomicU64,
}

#[derive(Default)]
struct Times {
    last: Vec<u32>,
    next: usize,
}

impl Metrics {
    /// Counts one.
    #[inline]
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A sync of so many records took so long.
    pub(crate) fn synced(&self, microseconds: u64, records: u64) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.records.fetch_add(records, Ordering::Relaxed);
        let microseconds = u32::try_from(microseconds).unwrap_or(u32::MAX);
        let mut times = self.sync_us.lock().expect("no one panics while holding it");
        if times.last.len() < SYNCS_REMEMBERED {
            times.last.push(microseconds);
        } else {
            let next = times.next;
            times.last[next] = microseconds;
            times.next = (next + 1) % SYNCS_REMEMBERED;
        }
    }

    /// Median and 99th percentile of the last syncs, microseconds.
    pub(crate) fn sync_percentiles(&self) -> (u64, u64) {
        let mut times = self.sync_us.lock().expect("no one panics while holding it").last.clone();
        if times.is_empty() {
            return (0, 0);
        }
        times.sort_unstable();
        let at = |percent: usize| u64::from(times[(times.len() - 1) * percent / 100]);
        (at(50), at(99))
    }
}
