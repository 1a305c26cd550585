//! Leak check: no watched object outlives its history. A process runs thousands of histories, and a
//! node that is held after its end keeps its rows and its log in memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Function that counts the holders of one watched object.
type HolderCount = Box<dyn Fn() -> usize>;

thread_local! {
    static WATCHED: RefCell<Vec<(&'static str, HolderCount)>> = const { RefCell::new(Vec::new()) };
}

/// Watches an object: it must be released by the end of this thread's history.
pub fn watch<T: 'static>(name: &'static str, object: &Arc<T>) {
    let object = Arc::downgrade(object);
    WATCHED.with_borrow_mut(|all| all.push((name, Box::new(move || object.strong_count()))));
}

/// Clears the watch list: a history starts, or was aborted and may have left something.
pub fn forget_watched() {
    WATCHED.take();
}

/// Asserts that all watched objects are released.
pub(crate) fn assert_none_left() {
    let mut left = BTreeMap::<_, usize>::new();
    for (name, _) in WATCHED.take().iter().filter(|(_, holders)| holders() > 0) {
        *left.entry(*name).or_default() += 1;
    }
    assert!(left.is_empty(), "a history has ended, and something holds {left:?}");
}
