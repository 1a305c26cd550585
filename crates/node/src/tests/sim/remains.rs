//! What is left of a history when it is over: nothing. Thousands are lived through in one process,
//! and whoever holds a node beyond its end holds its rows and its log.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many hold one thing that was watched.
type Holders = Box<dyn Fn() -> usize>;

thread_local! {
    static WATCHED: RefCell<Vec<(&'static str, Holders)>> = const { RefCell::new(Vec::new()) };
}

/// Nobody may hold this any more when the history of this thread is over.
pub(super) fn watch<T: 'static>(what: &'static str, one: &Arc<T>) {
    let one = Arc::downgrade(one);
    WATCHED.with_borrow_mut(|all| all.push((what, Box::new(move || one.strong_count()))));
}

/// A history begins, or was broken off: what was watched may be left.
pub(super) fn forget() {
    WATCHED.take();
}

/// A history is over: all that was watched is gone.
pub(super) fn nothing() {
    let all = WATCHED.take();
    assert!(!all.is_empty(), "nothing was watched");
    let mut left = BTreeMap::<_, usize>::new();
    for (what, _) in all.iter().filter(|(_, holders)| holders() > 0) {
        *left.entry(*what).or_default() += 1;
    }
    assert!(left.is_empty(), "a history has ended, and something holds {left:?}");
}
