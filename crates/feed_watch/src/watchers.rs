//! Requests that wait at a node for an event: their places, and the signals of those that a poll
//! wakes.

use crate::feed_signals::FeedSignals;
use base::limits::FEED_WATCHERS_MAX;
use base::{Error, Reason, Result};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// See the head of this file.
pub struct FeedWatchers {
    places: Arc<Semaphore>,
    /// Signals of consistent buckets of which this node has no replica.
    pub polled: Arc<FeedSignals>,
}

impl Default for FeedWatchers {
    fn default() -> FeedWatchers {
        let places = Arc::new(Semaphore::new(FEED_WATCHERS_MAX));
        FeedWatchers { places, polled: Arc::default() }
    }
}

impl FeedWatchers {
    /// Returns a place, which is free again once it is dropped. Errors: `too_many`.
    pub fn enter(&self) -> Result<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().map_err(|_| {
            let text = format!(
                "{FEED_WATCHERS_MAX} requests wait for events of feeds at this node \
                 (feed_watchers_max): ask another node, or ask without waiting"
            );
            Error::new(Reason::TooMany, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchers_beyond_the_limit_are_refused() {
        let watchers = FeedWatchers::default();
        let mut places: Vec<_> =
            (0..FEED_WATCHERS_MAX).map(|_| watchers.enter().expect("a place")).collect();
        let refused = watchers.enter().expect_err("no place is left");
        assert_eq!(refused.reason, Reason::TooMany);
        assert!(refused.text().contains("feed_watchers_max"), "{refused}");
        places.pop();
        assert!(watchers.enter().is_ok(), "one has left");
    }
}
