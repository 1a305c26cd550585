//! Signals of the buckets of which requests of this node await an event.
//!
//! A bucket has one signal, however many requests wait. It stays for a while behind the last of
//! them, because a reader asks again as soon as its request was answered.
//!
//! A request that comes from a token at which its reader was level, before any signal since, needs
//! no page to know that there is no event: the tokens of level pages are remembered as hashes.
//!
//! Promises: memory is bounded; a token counts as level only until the next signal of its bucket,
//! and for [`LEVEL_MS`] at most.
//! Never: calls anyone while its lock is held.

use base::BucketName;
use base::codec::checksum;
use base::limits::FEED_WATCHERS_MAX;
use runtime::world;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

/// Time for which a bucket counts as watched behind its last waiter, in milliseconds.
pub(crate) const WATCHED_MS: u64 = 10_000;
/// Longest time for which a token counts as level, in milliseconds: what no signal tells of, as the
/// end of a feed, is noticed then.
const LEVEL_MS: u64 = 60_000;

/// See the head of this file.
#[derive(Default)]
pub struct FeedSignals {
    state: Mutex<SignalState>,
    /// Wakes the loop that changes the signals.
    begun: Notify,
}

#[derive(Default)]
struct SignalState {
    buckets: BTreeMap<BucketName, BucketSignal>,
    /// Number of the last signal of any bucket.
    last: u64,
    /// Tokens of level pages, by hash.
    levels: BTreeMap<u64, LevelToken>,
}

/// Signal of a bucket: the number of its last change.
struct BucketSignal {
    sender: watch::Sender<u64>,
    /// Time at which it last had a waiter, in milliseconds.
    watched_ms: u64,
}

/// Token of a page that was level.
struct LevelToken {
    /// Number of its bucket's signal before the page was read.
    signal: u64,
    /// Time from which on it does not count, in milliseconds.
    until_ms: u64,
}

/// Wait of one request for the signal of a bucket.
pub struct FeedWatch {
    signals: Arc<FeedSignals>,
    bucket: BucketName,
    receiver: watch::Receiver<u64>,
    /// Number of the last signal that the request has noticed.
    seen: u64,
}

impl FeedSignals {
    /// Begins a wait for a bucket's signal: changes from now on are noticed. `None`: too many
    /// buckets are watched.
    pub fn watch(self: &Arc<FeedSignals>, bucket: &BucketName) -> Option<FeedWatch> {
        let mut guard = self.state();
        let state = &mut *guard;
        if !state.buckets.contains_key(bucket) {
            if state.buckets.len() >= FEED_WATCHERS_MAX {
                return None;
            }
            state.last += 1;
            let signal = BucketSignal { sender: watch::Sender::new(state.last), watched_ms: 0 };
            state.buckets.insert(bucket.clone(), signal);
        }
        let signal = state.buckets.get_mut(bucket)?;
        signal.watched_ms = world::milliseconds();
        let receiver = signal.sender.subscribe();
        let seen = *receiver.borrow();
        drop(guard);
        self.begun.notify_one();
        Some(FeedWatch { signals: self.clone(), bucket: bucket.clone(), receiver, seen })
    }

    /// Changes the signal of a bucket, if it is watched.
    pub fn signal(&self, bucket: &BucketName) {
        let mut guard = self.state();
        let state = &mut *guard;
        if let Some(signal) = state.buckets.get(bucket) {
            state.last += 1;
            signal.sender.send_replace(state.last);
        }
    }

    /// Changes the signals of all buckets.
    pub fn signal_all(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        state.last += 1;
        for signal in state.buckets.values() {
            signal.sender.send_replace(state.last);
        }
    }

    /// Returns the buckets that are watched, and forgets those that are no more.
    pub fn watched(&self) -> Vec<BucketName> {
        let mut guard = self.state();
        let now_ms = world::milliseconds();
        guard.buckets.retain(|_, signal| {
            if signal.sender.receiver_count() > 0 {
                signal.watched_ms = now_ms;
            }
            now_ms < signal.watched_ms + WATCHED_MS
        });
        guard.levels.retain(|_, level| now_ms < level.until_ms);
        guard.buckets.keys().cloned().collect()
    }

    /// Waits until some bucket is watched.
    pub(crate) async fn wait_watched(&self) {
        while self.state().buckets.is_empty() {
            self.begun.notified().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, SignalState> {
        self.state.lock().expect("no one panics while holding it")
    }
}

impl FeedWatch {
    /// Waits until the signal changes. Returns at once if it has since the wait began, or since the
    /// last call.
    pub async fn changed(&mut self) {
        // The signal stays while it has a receiver.
        let _ = self.receiver.changed().await;
        self.seen = *self.receiver.borrow_and_update();
    }

    /// Notes that a page that was read after the last call was level. `token`: that behind it.
    pub fn note_level(&self, token: &[u8]) {
        let mut guard = self.signals.state();
        let state = &mut *guard;
        let is_current = |signal: &BucketSignal| *signal.sender.borrow() == self.seen;
        if !state.buckets.get(&self.bucket).is_some_and(is_current) {
            return;
        }
        let (hash, now_ms) = (hash(token), world::milliseconds());
        // One that is known keeps its time: who is told by it alone reads a page in the end.
        let is_known = |known: &LevelToken| known.signal == self.seen && now_ms < known.until_ms;
        if state.levels.get(&hash).is_some_and(is_known) {
            return;
        }
        if state.levels.len() >= FEED_WATCHERS_MAX {
            state.levels.clear();
        }
        let level = LevelToken { signal: self.seen, until_ms: now_ms + LEVEL_MS };
        state.levels.insert(hash, level);
    }

    /// Returns true if a reader with this token has read all: a page behind it was level, and the
    /// signal has not changed since.
    pub fn is_level(&self, token: &[u8]) -> bool {
        let state = self.signals.state();
        let is_current = |signal: &BucketSignal, level: &LevelToken| {
            level.signal == *signal.sender.borrow() && world::milliseconds() < level.until_ms
        };
        let (signal, level) = (state.buckets.get(&self.bucket), state.levels.get(&hash(token)));
        signal.zip(level).is_some_and(|(signal, level)| is_current(signal, level))
    }
}

/// Returns the hash of a token, which names its bucket.
fn hash(token: &[u8]) -> u64 {
    checksum(token, world::salt())
}
