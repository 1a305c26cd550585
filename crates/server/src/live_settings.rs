//! Settings of the front-ends that a reload changes while they serve.

use api::ReloadReply;
use base::Result;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Stored form of an idle time that never ends a connection.
const NEVER_MS: u64 = u64::MAX;

/// Reload of the program's settings. `cli` passes an implementation to the front-ends; the native
/// front-end calls it.
pub trait Reload: Send + Sync {
    /// Reads the settings again, and brings those into force that may change while the node serves.
    /// Blocks for files. `Malformed` if they are invalid; nothing was changed then.
    fn reload(&self, live: &LiveSettings) -> Result<ReloadReply>;
}

/// Settings in force that may change, each by itself.
#[derive(Debug)]
pub struct LiveSettings {
    http_idle_ms_max: AtomicU64,
    resp_idle_ms_max: AtomicU64,
    shutdown_timeout_ms: AtomicU64,
}

impl LiveSettings {
    /// Returns settings with these times in milliseconds.
    pub(crate) fn new(
        http_idle_ms_max: u64,
        resp_idle_ms_max: Option<u64>,
        shutdown_timeout_ms: u64,
    ) -> LiveSettings {
        LiveSettings {
            http_idle_ms_max: http_idle_ms_max.into(),
            resp_idle_ms_max: resp_idle_ms_max.unwrap_or(NEVER_MS).into(),
            shutdown_timeout_ms: shutdown_timeout_ms.into(),
        }
    }

    /// Brings other values into force. A connection of Redis' protocol keeps the
    /// idle time with which it began.
    pub fn replace(&self, new: LiveSettings) {
        self.http_idle_ms_max.store(new.http_idle_ms_max.into_inner(), Relaxed);
        self.resp_idle_ms_max.store(new.resp_idle_ms_max.into_inner(), Relaxed);
        self.shutdown_timeout_ms.store(new.shutdown_timeout_ms.into_inner(), Relaxed);
    }

    /// Returns the idle time after which an HTTP connection is closed.
    pub fn http_idle_max(&self) -> Duration {
        Duration::from_millis(self.http_idle_ms_max.load(Relaxed))
    }

    /// Returns the idle time in milliseconds after which a RESP connection is closed. `None`:
    /// never.
    pub fn resp_idle_ms_max(&self) -> Option<u64> {
        Some(self.resp_idle_ms_max.load(Relaxed)).filter(|idle_ms| *idle_ms != NEVER_MS)
    }

    /// Returns the longest wait of a stop for requests in flight.
    pub fn shutdown_timeout(&self) -> Duration {
        Duration::from_millis(self.shutdown_timeout_ms.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_settings_are_in_force_at_once() {
        let live = LiveSettings::new(120_000, None, 10_000);
        assert_eq!(live.resp_idle_ms_max(), None);
        assert_eq!(live.http_idle_max(), Duration::from_secs(120));
        live.replace(LiveSettings::new(1_500, Some(2_500), 3_500));
        assert_eq!(live.http_idle_max(), Duration::from_millis(1_500));
        assert_eq!(live.resp_idle_ms_max(), Some(2_500));
        assert_eq!(live.shutdown_timeout(), Duration::from_millis(3_500));
        live.replace(LiveSettings::new(120_000, None, 10_000));
        assert_eq!(live.resp_idle_ms_max(), None);
    }
}
