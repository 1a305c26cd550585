//! Cost of a range read after many writes and removals: rows walked per row returned. The histories
//! are of everyday kinds, on a store that goes on, one that was reopened, and one whose content was
//! replaced.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::mutants::Mutation as _;
use bytes::Bytes;

use super::super::{LsmTrees, RowChange, Trees};
use super::threads::StopOnDrop;
use super::{Scratch, apply, open, put, remove};
use crate::mutants::StoreMutant;

pub(super) const ROWS: u32 = 20_000;
/// A page of a client that asks for a few.
const PAGE: usize = 2;

pub(super) fn key(number: u32) -> Bytes {
    Bytes::from(format!("queue/{number:08}"))
}

pub(super) fn bounds() -> (Bound<Bytes>, Bound<Bytes>) {
    (Bound::Included("queue/".into()), Bound::Excluded("queue0".into()))
}

/// The first rows, or (`reverse`) the last.
fn page(trees: &dyn Trees, reverse: bool) -> Vec<Bytes> {
    let snapshot = trees.snapshot();
    let (low, high) = bounds();
    let rows = snapshot.range(low, high, reverse).take(PAGE);
    rows.map(|row| row.unwrap().0).collect()
}

/// Rows that some work walked over, and rows that it was given.
pub(super) fn cost<T>(trees: &dyn Trees, work: impl FnOnce() -> T) -> (u64, u64, T) {
    let before = trees.statistics();
    let done = work();
    let after = trees.statistics();
    (after.rows_walked - before.rows_walked, after.rows_returned - before.rows_returned, done)
}

/// No more than two rows are walked for one that is given, and a handful.
pub(super) fn is_bounded(trees: &dyn Trees, what: &str, work: impl FnOnce()) {
    let (walked, returned, ()) = cost(trees, work);
    assert!(is_cheap(walked, returned), "{what}: {walked} rows walked for {returned}");
}

fn is_cheap(walked: u64, returned: u64) -> bool {
    walked <= 2 * returned + 64
}

pub(super) fn push(trees: &dyn Trees, numbers: impl Iterator<Item = u32>) {
    let numbers: Vec<u32> = numbers.collect();
    for some in numbers.chunks(100) {
        apply(trees, some.iter().map(|number| put(key(*number), "job")));
    }
}

/// Takes the first, or the last, one by one.
fn pop(trees: &dyn Trees, times: u32, reverse: bool) {
    for _ in 0..times {
        let first = page(trees, reverse).into_iter().next().unwrap();
        apply(trees, [RowChange::Remove(first)]);
    }
}

pub(super) fn to_disk(trees: &dyn Trees) {
    trees.rotate().unwrap();
    trees.flush().unwrap();
}

#[test]
fn a_queue_costs_the_same_at_its_end_as_at_its_beginning() {
    for (on_disk, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
        let scratch = Scratch::new();
        let trees = open(&scratch);
        push(&trees, 0..ROWS);
        if on_disk {
            to_disk(&trees);
        }
        is_bounded(&trees, &format!("on disk {on_disk}, the last first {reverse}"), || {
            pop(&trees, ROWS - 10, reverse);
        });
        // Jobs come while others go.
        is_bounded(&trees, "both", || {
            for number in ROWS..ROWS + 500 {
                push(&trees, number..number + 1);
                pop(&trees, 1, reverse);
            }
        });
    }
}

/// The control: where readers do not jump over what is gone, the judge of costs says so.
#[test]
fn a_queue_whose_readers_walk_over_dead_rows_is_noticed() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    push(&trees, 0..ROWS / 10);
    let pops = || pop(&trees, ROWS / 20, false);
    let (walked, returned, ()) =
        StoreMutant::WalksOverDeadSpans.while_active(|| cost(&trees, pops));
    assert!(!is_cheap(walked, returned), "{walked} rows walked for {returned}");
}

/// Rows that others removed, in any order: a reader that comes later walks over none of them,
/// because they were looked at in the background.
#[test]
fn who_never_read_knows_where_nothing_is_left() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    push(&trees, 0..ROWS);
    to_disk(&trees);
    let order = |number: u32| (number * 7_919) % (ROWS - 3);
    for from in (0..ROWS - 3).step_by(1_000) {
        let some = (from..(from + 1_000).min(ROWS - 3)).map(order);
        apply(&trees, some.map(|number| remove(key(number))));
        trees.compact().unwrap();
    }
    is_bounded(&trees, "all but three were removed", || {
        assert_eq!(page(&trees, false), [key(ROWS - 3), key(ROWS - 2)]);
    });
}

/// As above, while another writer inserts batches all the time.
#[test]
fn who_never_read_knows_so_though_others_write() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let ends = AtomicBool::new(false);
    let costs = std::thread::scope(|threads| {
        threads.spawn(|| {
            let row = |number: u32| put(format!("others/{number:08}"), "row");
            while !ends.load(Ordering::Acquire) {
                apply(&trees, (0..200).map(row));
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let _stop = StopOnDrop(&ends);
        let costs = (0..20).map(|_| {
            push(&trees, 0..500);
            apply(&trees, (0..499).map(|number| remove(key(number))));
            trees.compact().unwrap();
            cost(&trees, || page(&trees, false))
        });
        costs.collect::<Vec<_>>()
    });
    assert!(costs.iter().all(|(walked, _, _)| *walked <= 64), "{costs:?}");
}

#[test]
fn the_next_life_knows_where_nothing_is_left() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    push(&trees, 0..ROWS);
    to_disk(&trees);
    pop(&trees, ROWS / 2, false);
    to_disk(&trees);
    // What the log would bring again.
    let replayed = |trees: &LsmTrees| {
        let gone = ROWS / 2..ROWS - 10;
        apply(trees, gone.map(|number| remove(key(number))));
    };
    replayed(&trees);
    drop(trees);
    let trees = open(&scratch);
    is_bounded(&trees, "opened anew", || assert_eq!(page(&trees, false)[0], key(ROWS / 2)));
    replayed(&trees);
    trees.compact().unwrap();
    is_bounded(&trees, "replayed", || assert_eq!(page(&trees, false)[0], key(ROWS - 10)));
}

#[test]
fn an_installed_content_and_a_dropped_one_know_where_nothing_is_left() {
    let scratch = Scratch::new();
    let trees = Arc::new(open(&scratch));
    push(&*trees, 0..ROWS);
    to_disk(&*trees);
    let whole: Arc<dyn Trees> = Arc::clone(&trees) as _;
    let mut install = whole.begin_install(b"queue/").unwrap();
    install.put(vec![(key(ROWS - 1), "new".into())]).unwrap();
    assert!(install.switch().unwrap());
    drop(install);
    is_bounded(&*trees, "installed", || assert_eq!(page(&*trees, false), [key(ROWS - 1)]));
    push(&*trees, 0..ROWS);
    trees.drop_prefix(b"queue/").unwrap();
    is_bounded(&*trees, "dropped", || assert!(page(&*trees, false).is_empty()));
    push(&*trees, 5..7);
    is_bounded(&*trees, "filled again", || assert_eq!(page(&*trees, true), [key(6), key(5)]));
}

#[test]
fn rows_put_where_nothing_was_left_are_found_whoever_looks() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    push(&trees, 0..1_000);
    let before = trees.snapshot();
    pop(&trees, 990, false);
    let middle = trees.snapshot();
    push(&trees, (0..990).step_by(30));
    let all = |snapshot: &dyn super::super::Snapshot| {
        let (low, high) = bounds();
        snapshot.range(low, high, false).map(|row| row.unwrap().0).collect::<Vec<_>>()
    };
    assert!(all(&*before).into_iter().eq((0..1_000).map(key)));
    assert!(all(&*middle).into_iter().eq((990..1_000).map(key)));
    let now = (0..990).step_by(30).chain(990..1_000).map(key);
    assert!(all(&*trees.snapshot()).into_iter().eq(now));
}
