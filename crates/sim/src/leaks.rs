//! Leaks: nothing is left of a history when it is over. Thousands are lived through in one process,
//! and whoever holds a node beyond its end holds its rows and its log.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Counts the holders of one thing that is watched.
type HolderCount = Box<dyn Fn() -> usize>;

thread_local! {
    static WATCHED: RefCell<Vec<(&'static str, HolderCount)>> = const { RefCell::new(Vec::new()) };
}

/// Requires that nobody holds this when the history of this thread is over.
pub fn watch<T: 'static>(what: &'static str, one: &Arc<T>) {
    let one = Arc::downgrade(one);
    WATCHED.with_borrow_mut(|all| all.push((what, Box::new(move || one.strong_count()))));
}

/// Forgets what is watched: a history begins, or was broken off and may leave something.
pub fn forget_watched() {
    WATCHED.take();
}

/// Asserts that all that was watched is gone.
pub(crate) fn assert_none_left() {
    let mut left = BTreeMap::<_, usize>::new();
    for (what, _) in WATCHED.take().iter().filter(|(_, holders)| holders() > 0) {
        *left.entry(*what).or_default() += 1;
    }
    assert!(left.is_empty(), "a history has ended, and something holds {left:?}");
}
