//! Broken rule of the test that runs on this thread.

use crate::consensus::rules::Rule;
use std::cell::Cell;

thread_local! {
    static BROKEN: Cell<Option<Rule>> = const { Cell::new(None) };
}

/// Returns true if a test has broken this rule.
pub fn broken(rule: Rule) -> bool {
    BROKEN.get() == Some(rule)
}

/// Runs `life` with this rule broken, and restores it even after a panic.
pub fn while_broken<T>(rule: Rule, life: impl FnOnce() -> T) -> T {
    struct Mend;
    impl Drop for Mend {
        fn drop(&mut self) {
            BROKEN.set(None);
        }
    }
    let _mend = Mend;
    BROKEN.set(Some(rule));
    life()
}
