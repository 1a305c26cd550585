//! Slow log: the slowest requests above a threshold, in bounded memory.
//!
//! A request that is not slow costs one comparison. When the log is full, a request must be slower
//! than the fastest of those kept: so an overload, in which all are slow, takes few locks.
//!
//! Never: holds a key or a value.

use replication::entry_times::EntryStages;
use runtime::world;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Number of requests that are kept.
const REQUESTS_MAX: usize = 1_000;

/// Stages of a slow request, each with the time that it took. Of requests that were read together
/// they are sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowStages {
    /// Translation and evaluation here, with the rows that it read, and what no other stage counts.
    pub evaluate: Duration,
    /// Wait until its updates were decided and applied.
    pub decide: Duration,
    /// Stages of the entry that it waited for last, if they are known.
    pub entry: Option<EntryStages>,
    /// Wait for replies that take longer: of other nodes, of the replicas of available buckets, of
    /// reads of many rows.
    pub reply: Duration,
    /// Wait until the client's connection took the answer.
    pub send: Duration,
}

/// Slow request, or several that were read and answered together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// Protocol of the client.
    pub protocol: &'static str,
    /// Command or kind of operation; of several requests, that of the first.
    pub command: &'static str,
    /// Full name of the bucket. Empty: none.
    pub bucket: String,
    /// Digest of the key, by [`KeyFingerprint::digest`](crate::KeyFingerprint::digest). `None`: the
    /// request is about no single key.
    pub key_digest: Option<u64>,
    /// Number of requests.
    pub requests: u64,
    /// Time from the end of their reading to the end of their answer.
    pub took: Duration,
    /// Parts of that time.
    pub stages: SlowStages,
    /// Address of the client, if it is known.
    pub client: Option<SocketAddr>,
}

/// Entry of the slow log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowEntry {
    /// Number of the entry; later ones have higher numbers.
    pub id: u64,
    /// Time of the answer, in milliseconds since 1970.
    pub at_ms: u64,
    /// The request.
    pub request: SlowRequest,
}

/// See the head of this file.
pub struct SlowLog {
    threshold_us: AtomicU64,
    /// Time from which on a request is kept, in microseconds.
    floor_us: AtomicU64,
    entries: Mutex<SlowEntries>,
}

#[derive(Default)]
struct SlowEntries {
    next_id: u64,
    /// Entries by time taken, then by number.
    by_time: BTreeMap<(u64, u64), SlowEntry>,
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl SlowLog {
    /// Returns an empty log of requests that take at least this time. 0: none is kept.
    pub fn new(slow_ms: u64) -> SlowLog {
        let threshold_us = if slow_ms == 0 { u64::MAX } else { slow_ms.saturating_mul(1_000) };
        SlowLog {
            threshold_us: AtomicU64::new(threshold_us),
            floor_us: AtomicU64::new(threshold_us),
            entries: Mutex::default(),
        }
    }

    /// Sets the time from which on requests are kept, and removes all entries.
    pub fn set_threshold(&self, threshold: Duration) {
        self.threshold_us.store(microseconds(threshold), Ordering::Relaxed);
        self.clear();
    }

    /// Returns true if requests are kept at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.threshold_us.load(Ordering::Relaxed) != u64::MAX
    }

    /// Returns true if a request that took this long is to be recorded.
    #[inline]
    pub fn is_slow(&self, took: Duration) -> bool {
        microseconds(took) >= self.floor_us.load(Ordering::Relaxed)
    }

    /// Records a slow request. Drops the fastest one, if there are too many.
    pub fn record(&self, request: SlowRequest) {
        let took_us = microseconds(request.took);
        let mut entries = self.lock();
        let id = entries.next_id;
        entries.next_id += 1;
        let entry = SlowEntry { id, at_ms: world::unix_ms(), request };
        entries.by_time.insert((took_us, id), entry);
        if entries.by_time.len() > REQUESTS_MAX {
            entries.by_time.pop_first();
        }
        if entries.by_time.len() == REQUESTS_MAX
            && let Some(((fastest_us, _), _)) = entries.by_time.first_key_value()
        {
            self.floor_us.store(fastest_us.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Returns the entries, the slowest first.
    pub fn entries(&self) -> Vec<SlowEntry> {
        self.lock().by_time.values().rev().cloned().collect()
    }

    /// Returns the number of entries.
    pub fn count(&self) -> usize {
        self.lock().by_time.len()
    }

    /// Removes all entries.
    pub fn clear(&self) {
        let mut entries = self.lock();
        entries.by_time.clear();
        self.floor_us.store(self.threshold_us.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, SlowEntries> {
        self.entries.lock().expect("no one panics while holding it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(ms: u64) -> SlowRequest {
        SlowRequest {
            protocol: "resp",
            command: "get",
            bucket: "default/default".into(),
            key_digest: Some(7),
            requests: 1,
            took: Duration::from_millis(ms),
            stages: SlowStages::default(),
            client: None,
        }
    }

    fn record(log: &SlowLog, ms: u64) {
        if log.is_slow(Duration::from_millis(ms)) {
            log.record(took(ms));
        }
    }

    #[test]
    fn slow_log_keeps_the_slowest_requests_above_its_threshold() {
        let log = SlowLog::new(100);
        record(&log, 99);
        assert_eq!(log.count(), 0);
        (0..2_000).for_each(|number| record(&log, 100 + number));
        let entries = log.entries();
        assert_eq!((entries.len(), log.count()), (REQUESTS_MAX, REQUESTS_MAX));
        assert_eq!(entries[0].request.took, Duration::from_millis(2_099), "the slowest first");
        assert_eq!(entries[999].request.took, Duration::from_millis(1_100));
        assert!(!log.is_slow(Duration::from_millis(1_100)), "one of these is no slower");
        log.clear();
        assert_eq!(log.count(), 0);
        record(&log, 100);
        assert_eq!(log.entries()[0].id, 2_000, "numbers are not used again");
    }

    #[test]
    fn slow_log_with_threshold_zero_keeps_nothing() {
        let log = SlowLog::new(0);
        assert!(!log.is_on() && SlowLog::new(100).is_on());
        record(&log, 3_600_000);
        assert_eq!(log.count(), 0);
    }
}
