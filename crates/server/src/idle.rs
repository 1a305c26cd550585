//! Idle connections: when the connection limit is reached and a client connects, the connection
//! that has been idle for longest is ended.
//!
//! Connections of Redis and Arakoon may stay silent for as long as they like, as clients of both
//! expect. HTTP connections time out by themselves (`http_idle_ms_max`) and are not listed here.

use crate::connection::Shutdown;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Minimum time in milliseconds between two searches, because each looks at all connections.
const SEARCH_PAUSE_MS: u64 = 50;

/// Time of a connection's last activity, and the signal that it must end.
#[derive(Debug)]
pub struct Activity {
    last_ms: AtomicU64,
    ending: AtomicBool,
    end_signal: Notify,
}

impl Activity {
    /// Returns the activity of a connection that begins at this time (milliseconds since 1970).
    pub fn new(now_ms: u64) -> Activity {
        Activity {
            last_ms: AtomicU64::new(now_ms),
            ending: AtomicBool::new(false),
            end_signal: Notify::new(),
        }
    }

    /// Returns the time of the last request in milliseconds since 1970.
    pub fn last_ms(&self) -> u64 {
        self.last_ms.load(Relaxed)
    }

    /// Records a request at this time.
    pub fn record_request(&self, now_ms: u64) {
        self.last_ms.store(now_ms, Relaxed);
    }

    /// Signals the connection to end.
    pub fn end(&self) {
        self.ending.store(true, Relaxed);
        // Both the connection and a command that blocks it may wait, or neither may wait yet.
        self.end_signal.notify_waiters();
        self.end_signal.notify_one();
    }

    /// Waits until `end` is called.
    async fn wait_for_end(&self) {
        while !self.ending.load(Relaxed) {
            self.end_signal.notified().await;
        }
    }

    /// Waits until the connection must end. Returns true if the reason is that the server closes.
    pub async fn wait_for_end_or_shutdown(self: Arc<Activity>, mut shutdown: Shutdown) -> bool {
        tokio::select! {
            biased;
            () = self.wait_for_end() => false,
            is_server_closing = shutdown.wait() => is_server_closing,
        }
    }

    /// Returns true if `end` was called.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Relaxed)
    }
}

/// Connections that may be idle.
#[derive(Debug, Default)]
pub struct IdleConnections {
    connections: Mutex<BTreeMap<u64, Arc<Activity>>>,
    next: AtomicU64,
    /// Time of the last search, milliseconds since 1970.
    searched_ms: AtomicU64,
}

/// Registration of a connection; dropping it removes the connection from the list.
#[derive(Debug)]
pub struct IdleEntry {
    list: Arc<IdleConnections>,
    number: u64,
}

impl IdleConnections {
    /// Registers a connection.
    pub fn register(self: &Arc<IdleConnections>, activity: Arc<Activity>) -> IdleEntry {
        let number = self.next.fetch_add(1, Relaxed);
        self.connections().insert(number, activity);
        IdleEntry { list: self.clone(), number }
    }

    /// Ends the connection that has been idle for longest, if for at least `least_ms`. Does nothing
    /// within `SEARCH_PAUSE_MS` of the last search.
    pub fn end_idlest(&self, now_ms: u64, least_ms: u64) {
        if now_ms.saturating_sub(self.searched_ms.swap(now_ms, Relaxed)) < SEARCH_PAUSE_MS {
            return;
        }
        let connections = self.connections();
        let candidates = connections.values().filter(|activity| !activity.is_ending());
        let idlest = candidates.min_by_key(|activity| activity.last_ms());
        let is_idle = |idlest: &&Arc<Activity>| now_ms.saturating_sub(idlest.last_ms()) >= least_ms;
        if let Some(idlest) = idlest.filter(is_idle) {
            idlest.end();
        }
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Activity>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for IdleEntry {
    fn drop(&mut self) {
        self.list.connections().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_idle_connection_is_ended_once_past_the_threshold() {
        let list = Arc::<IdleConnections>::default();
        let now_ms = 1_000_000;
        let idle = |idle_ms| Arc::new(Activity::new(now_ms - idle_ms));
        let activities = [0, 90_000, 70_000].map(idle);
        let entries = activities.each_ref().map(|activity| list.register(activity.clone()));
        let ending_flags = || activities.each_ref().map(|activity| activity.is_ending());
        list.end_idlest(now_ms, 100_000);
        assert_eq!(ending_flags(), [false; 3], "none is idle for so long");
        list.end_idlest(now_ms + 1, 60_000);
        assert_eq!(ending_flags(), [false; 3], "it has just searched");
        list.end_idlest(now_ms + 100, 60_000);
        assert_eq!(ending_flags(), [false, true, false]);
        list.end_idlest(now_ms + 200, 60_000);
        assert_eq!(ending_flags(), [false, true, true]);
        list.end_idlest(now_ms + 300, 60_000);
        assert_eq!(ending_flags(), [false, true, true]);
        drop(entries);
        assert!(list.connections().is_empty());
    }
}
