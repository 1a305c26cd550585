//! Signal that one request waits for, of the bucket that it reads.

use crate::feed_signals::{FeedSignals, FeedWatch};
use base::BucketName;
use runtime::{CancellationToken, world};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Pause after which a page is read again for a request without a signal.
const POLL_PAUSE: Duration = Duration::from_secs(1);

/// See the head of this file.
pub enum EventSignal {
    /// Entries of a consistent bucket are applied on the replica of this node.
    Applied(watch::Receiver<()>),
    /// Entries of a consistent bucket were found by a poll.
    Polled(FeedWatch),
    /// Entries of an available bucket were added at a node of the ring.
    Ring(FeedWatch),
    /// None: too many buckets are watched, or the bucket is unknown here.
    Missing,
}

impl EventSignal {
    /// Returns the signal of the polls of a bucket.
    pub fn polled(signals: &Arc<FeedSignals>, bucket: &BucketName) -> EventSignal {
        signals.watch(bucket).map_or(EventSignal::Missing, EventSignal::Polled)
    }

    /// Returns the signal of a bucket at the nodes of the ring.
    pub fn ring(signals: &Arc<FeedSignals>, bucket: &BucketName) -> EventSignal {
        signals.watch(bucket).map_or(EventSignal::Missing, EventSignal::Ring)
    }

    /// Waits until another page may have an event, for so long at most, or until the token is
    /// cancelled. Returns false if none may.
    pub async fn wait(&mut self, rest: Duration, stop: &CancellationToken) -> bool {
        let pause = match self {
            EventSignal::Missing => rest.min(POLL_PAUSE),
            EventSignal::Applied(_) | EventSignal::Polled(_) | EventSignal::Ring(_) => rest,
        };
        let is_over = tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            is_over = self.changed() => is_over,
            () = world::sleep(pause) => return matches!(self, EventSignal::Missing),
        };
        if is_over {
            // The feed ended here: the bucket moved, or its feed was turned off.
            *self = EventSignal::Missing;
        }
        true
    }

    /// Notes that the reader is level with this token. A reader of a consistent bucket must not
    /// take it from there: another node may have acknowledged an update since.
    pub fn note_level(&self, token: &[u8]) {
        if let EventSignal::Ring(watch) = self {
            watch.note_level(token);
        }
    }

    /// Returns true if a reader with this token is known to be level.
    pub fn is_level(&self, token: &[u8]) -> bool {
        match self {
            EventSignal::Ring(watch) => watch.is_level(token),
            EventSignal::Applied(_) | EventSignal::Polled(_) | EventSignal::Missing => false,
        }
    }

    /// Waits for the signal. Returns true if it will not change again.
    async fn changed(&mut self) -> bool {
        match self {
            EventSignal::Applied(applied) => applied.changed().await.is_err(),
            EventSignal::Polled(watch) | EventSignal::Ring(watch) => {
                watch.changed().await;
                false
            }
            EventSignal::Missing => std::future::pending().await,
        }
    }
}
