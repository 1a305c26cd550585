//! Journal of one history: counts of events, a digest of all observations, and a printed trace of
//! every event if `CREDENZA_TOLD` is set.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard};

/// Number of occurrences of each event, by name.
pub type Counts = BTreeMap<&'static str, u64>;

/// Journal of one history; see the head of this file.
pub struct Journal {
    pages: Mutex<Pages>,
    is_told: bool,
}

#[derive(Default)]
struct Pages {
    counts: Counts,
    digest: DefaultHasher,
}

impl Default for Journal {
    fn default() -> Journal {
        let is_told = std::env::var_os("CREDENZA_TOLD").is_some();
        Journal { pages: Mutex::default(), is_told }
    }
}

impl Journal {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().expect("one thread")
    }

    /// Counts one occurrence of an event.
    pub fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    /// Counts `many` occurrences of an event.
    pub fn add(&self, what: &'static str, many: u64) {
        *self.pages().counts.entry(what).or_default() += many;
    }

    /// Returns the number of occurrences of an event.
    pub fn counted(&self, what: &str) -> u64 {
        self.pages().counts.get(what).copied().unwrap_or(0)
    }

    /// Adds an observation to the digest, by which two histories are compared.
    pub fn note(&self, what: impl Hash) {
        what.hash(&mut self.pages().digest);
    }

    /// Returns the digest and all counts.
    pub fn outcome(&self) -> (u64, Counts) {
        let pages = self.pages();
        (pages.digest.finish(), pages.counts.clone())
    }

    /// Prints an event with its time if tracing is on; `what` is not evaluated otherwise.
    pub fn tell(&self, now: u64, what: impl FnOnce() -> String) {
        if self.is_told {
            eprintln!("{now:>10} {}", what());
        }
    }
}
