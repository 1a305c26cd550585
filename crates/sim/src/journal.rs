//! Journal of one history: counts of events, a digest of all observations, and a printed trace of
//! every event if `CREDENZA_TRACE` is set.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard};

/// Number of occurrences of each event, by name.
pub type Counts = BTreeMap<&'static str, u64>;

/// Journal of one history; see the head of this file.
pub struct Journal {
    state: Mutex<JournalState>,
    is_traced: bool,
}

#[derive(Default)]
struct JournalState {
    counts: Counts,
    digest: DefaultHasher,
}

impl Default for Journal {
    fn default() -> Journal {
        let is_traced = std::env::var_os("CREDENZA_TRACE").is_some();
        Journal { state: Mutex::default(), is_traced }
    }
}

impl Journal {
    fn state(&self) -> MutexGuard<'_, JournalState> {
        self.state.lock().expect("one thread")
    }

    /// Counts one occurrence of an event.
    pub fn count(&self, event: &'static str) {
        self.add(event, 1);
    }

    /// Counts `many` occurrences of an event.
    pub fn add(&self, event: &'static str, count: u64) {
        *self.state().counts.entry(event).or_default() += count;
    }

    /// Returns the number of occurrences of an event.
    pub fn count_of(&self, event: &str) -> u64 {
        self.state().counts.get(event).copied().unwrap_or(0)
    }

    /// Adds an observation to the digest, by which two histories are compared.
    pub fn record(&self, event: impl Hash) {
        event.hash(&mut self.state().digest);
    }

    /// Returns the digest and all counts.
    pub fn outcome(&self) -> (u64, Counts) {
        let state = self.state();
        (state.digest.finish(), state.counts.clone())
    }

    /// Prints an event with its time if tracing is on; `what` is not evaluated otherwise.
    pub fn trace(&self, now: u64, event: impl FnOnce() -> String) {
        if self.is_traced {
            eprintln!("{now:>10} {}", event());
        }
    }
}
