//! Journal of one history: how often each thing happened, a digest of all that was seen, and, if
//! `CREDENZA_TOLD` is set, every event in words.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard};

/// How often each thing happened.
pub type Counts = BTreeMap<&'static str, u64>;

/// See the head of this file.
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

    /// Counts one more of this.
    pub fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    /// Counts so many more of this.
    pub fn add(&self, what: &'static str, many: u64) {
        *self.pages().counts.entry(what).or_default() += many;
    }

    /// Returns how often this happened.
    pub fn counted(&self, what: &str) -> u64 {
        self.pages().counts.get(what).copied().unwrap_or(0)
    }

    /// Adds to the digest, which tells two histories apart.
    pub fn note(&self, what: impl Hash) {
        what.hash(&mut self.pages().digest);
    }

    /// Returns the digest, and how often everything happened.
    pub fn outcome(&self) -> (u64, Counts) {
        let pages = self.pages();
        (pages.digest.finish(), pages.counts.clone())
    }

    /// Prints what happens at a time, if anyone wants to read it.
    pub fn tell(&self, now: u64, what: impl FnOnce() -> String) {
        if self.is_told {
            eprintln!("{now:>10} {}", what());
        }
    }
}
