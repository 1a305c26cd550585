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

/// Watches an object: nobody may hold it when this thread's history is over.
pub fn watch<T: 'static>(what: &'static str, one: &Arc<T>) {
    let one = Arc::downgrade(one);
    WATCHED.with_borrow_mut(|all| all.push((what, Box::new(move || one.strong_count()))));
}

/// Clears the watch list: a history starts, or was aborted and may have left something.
pub fn forget_watched() {
    WATCHED.take();
}

/// Asserts that nobody holds a watched object any more.
pub(crate) fn assert_none_left() {
    let mut left = BTreeMap::<_, usize>::new();
    for (what, _) in WATCHED.take().iter().filter(|(_, holders)| holders() > 0) {
        *left.entry(*what).or_default() += 1;
    }
    assert!(left.is_empty(), "a history has ended, and something holds {left:?}");
}
