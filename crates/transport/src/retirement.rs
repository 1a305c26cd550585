//! Retirement of a connection: no more requests begin on it, and it ends once those under way are
//! answered on both sides.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use tokio::sync::Notify;

/// State of a connection's retirement.
#[derive(Default)]
pub(super) struct Retirement {
    has_begun: AtomicBool,
    begin: Notify,
    /// True if the other side has begun, too: no more of its requests are under way than it says.
    has_peer_begun: AtomicBool,
    /// Unanswered requests of the other side, as it said last.
    peer_calls: AtomicU64,
}

impl Retirement {
    /// Begins it.
    pub(super) fn begin(&self) {
        self.has_begun.store(true, SeqCst);
        self.begin.notify_one();
    }

    /// Records that the other side has begun, with the number of its unanswered requests.
    pub(super) fn on_peer(&self, calls: u64) {
        self.peer_calls.store(calls, SeqCst);
        self.has_peer_begun.store(true, SeqCst);
        self.begin();
    }

    /// Returns true if it has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(SeqCst)
    }

    /// Returns true if no request of the other side is under way, and none will be.
    pub(super) fn is_peer_drained(&self) -> bool {
        self.has_peer_begun.load(SeqCst) && self.peer_calls.load(SeqCst) == 0
    }

    /// Waits until it has begun.
    pub(super) async fn wait_begun(&self) {
        while !self.has_begun() {
            self.begin.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_is_drained_once_it_says_so() {
        let retirement = Retirement::default();
        assert!(!retirement.has_begun());
        retirement.begin();
        assert!(retirement.has_begun() && !retirement.is_peer_drained());
        retirement.on_peer(2);
        assert!(!retirement.is_peer_drained());
        retirement.on_peer(0);
        assert!(retirement.is_peer_drained());
    }
}
