//! Reports of the front-ends to the node: listeners that the network reaches, and clients that were
//! refused.

use runtime::world;
use std::sync::{Mutex, OnceLock};

/// Time for which a refusal stays an alarm, in milliseconds.
const RECENT_MS: u64 = 60_000;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct ListenerReports {
    exposed: OnceLock<String>,
    /// Last refusal, with its time in milliseconds.
    refusal: Mutex<Option<(u64, String)>>,
}

impl ListenerReports {
    /// Sets the listeners beyond this machine, once.
    pub(crate) fn set_exposed(&self, listeners: String) {
        let _ = self.exposed.set(listeners); // The front-ends open once.
    }

    /// Returns the listeners beyond this machine. Empty: there are none.
    pub(crate) fn exposed(&self) -> &str {
        self.exposed.get().map_or("", String::as_str)
    }

    /// Notes a refusal of a client.
    pub(crate) fn on_refusal(&self, text: String) {
        let mut refusal = self.refusal.lock().expect("no one panics while holding it");
        *refusal = Some((world::milliseconds(), text));
    }

    /// Returns the last refusal while it is recent.
    pub(crate) fn recent_refusal(&self) -> Option<String> {
        let refusal = self.refusal.lock().expect("no one panics while holding it");
        let (at_ms, text) = refusal.as_ref()?;
        (world::milliseconds().saturating_sub(*at_ms) < RECENT_MS).then(|| text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_reported_for_a_minute() {
        let reports = ListenerReports::default();
        let at = |ms: u64| {
            world::set_time(Some(ms * 1_000_000));
            reports.recent_refusal()
        };
        assert_eq!(at(1), None);
        reports.on_refusal("too many".into());
        assert_eq!(at(RECENT_MS), Some("too many".into()));
        assert_eq!(at(RECENT_MS + 1), None);
        world::set_time(None);
    }
}
