//! Cost of a range read after many writes and removals: rows walked per row returned. Covers a
//! running store, one that was reopened, and one whose content was replaced.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::mutants::MutantList as _;
use bytes::Bytes;

use super::super::{LsmTrees, RowChange, Trees};
use super::threads::StopOnDrop;
use super::{Scratch, apply, open, put, remove};
use crate::mutants::StoreMutant;

pub(super) const ROWS: u32 = 20_000;
/// Number of rows in a client's page.
const PAGE: usize = 2;

pub(super) fn key(number: u32) -> Bytes {
    Bytes::from(format!("queue/{number:08}"))
}

pub(super) fn bounds() -> (Bound<Bytes>, Bound<Bytes>) {
    (Bound::Included("queue/".into()), Bound::Excluded("queue0".into()))
}

/// Reads the first page, or (`reverse`) the last.
fn page(trees: &dyn Trees, reverse: bool) -> Vec<Bytes> {
    let snapshot = trees.snapshot();
    let (low, high) = bounds();
    let rows = snapshot.range(low, high, reverse).take(PAGE);
    rows.map(|row| row.unwrap().0).collect()
}

/// Returns the rows that some work walked over, the rows that it received, and its result.
pub(super) fn cost<T>(trees: &dyn Trees, work: impl FnOnce() -> T) -> (u64, u64, T) {
    let before = trees.statistics();
    let done = work();
    let after = trees.statistics();
    (after.rows_walked - before.rows_walked, after.rows_returned - before.rows_returned, done)
}

/// Checks that at most two rows are walked for each row returned, plus a constant.
pub(super) fn check_bounded(trees: &dyn Trees, what: &str, work: impl FnOnce()) {
    let (walked, returned, ()) = cost(trees, work);
    assert!(is_cheap(walked, returned), "{what}: {walked} rows walked for {returned}");
}

fn is_cheap(walked: u64, returned: u64) -> bool {
    walked <= 2 * returned + 64
}

pub(super) fn push(trees: &dyn Trees, numbers: impl Iterator<Item = u32>) {
    let numbers: Vec<u32> = numbers.collect();
    for chunk in numbers.chunks(100) {
        apply(trees, chunk.iter().map(|number| put(key(*number), "job")));
    }
}

/// Removes the first row, or the last, repeatedly.
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
fn queue_pop_cost_does_not_grow_with_removed_rows() {
    for (on_disk, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
        let scratch = Scratch::new();
        let trees = open(&scratch);
        push(&trees, 0..ROWS);
        if on_disk {
            to_disk(&trees);
        }
        check_bounded(&trees, &format!("on disk {on_disk}, the last first {reverse}"), || {
            pop(&trees, ROWS - 10, reverse);
        });
        // Jobs are added while others are removed.
        check_bounded(&trees, "both", || {
            for number in ROWS..ROWS + 500 {
                push(&trees, number..number + 1);
                pop(&trees, 1, reverse);
            }
        });
    }
}

/// The positive control: if readers do not jump over dead spans, the check of costs fails.
#[test]
fn cost_check_detects_queue_reads_that_walk_over_dead_rows() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    push(&trees, 0..ROWS / 10);
    let pops = || pop(&trees, ROWS / 20, false);
    let (walked, returned, ()) = StoreMutant::IgnoreDeadSpans.while_active(|| cost(&trees, pops));
    assert!(!is_cheap(walked, returned), "{walked} rows walked for {returned}");
}

/// Rows removed in any order: a later reader walks over none of them, because a background scan has
/// found the spans.
#[test]
fn dead_spans_found_in_background_keep_the_first_read_cheap() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    push(&trees, 0..ROWS);
    to_disk(&trees);
    let order = |number: u32| (number * 7_919) % (ROWS - 3);
    for from in (0..ROWS - 3).step_by(1_000) {
        let batch = (from..(from + 1_000).min(ROWS - 3)).map(order);
        apply(&trees, batch.map(|number| remove(key(number))));
        trees.compact().unwrap();
    }
    check_bounded(&trees, "all but three were removed", || {
        assert_eq!(page(&trees, false), [key(ROWS - 3), key(ROWS - 2)]);
    });
}

/// As above, while another writer inserts batches all the time.
#[test]
fn dead_spans_are_found_in_background_despite_concurrent_writes() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let stop = AtomicBool::new(false);
    let costs = std::thread::scope(|threads| {
        threads.spawn(|| {
            let row = |number: u32| put(format!("others/{number:08}"), "row");
            while !stop.load(Ordering::Acquire) {
                apply(&trees, (0..200).map(row));
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let _stop = StopOnDrop(&stop);
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
fn range_cost_stays_bounded_after_reopen_and_replay() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    push(&trees, 0..ROWS);
    to_disk(&trees);
    pop(&trees, ROWS / 2, false);
    to_disk(&trees);
    // Changes that the log would replay.
    let replay = |trees: &LsmTrees| {
        let removed = ROWS / 2..ROWS - 10;
        apply(trees, removed.map(|number| remove(key(number))));
    };
    replay(&trees);
    drop(trees);
    let trees = open(&scratch);
    check_bounded(&trees, "opened anew", || assert_eq!(page(&trees, false)[0], key(ROWS / 2)));
    replay(&trees);
    trees.compact().unwrap();
    check_bounded(&trees, "replayed", || assert_eq!(page(&trees, false)[0], key(ROWS - 10)));
}

#[test]
fn range_cost_stays_bounded_after_prefix_install_and_drop() {
    let scratch = Scratch::new();
    let trees = Arc::new(open(&scratch));
    push(&*trees, 0..ROWS);
    to_disk(&*trees);
    let shared_trees: Arc<dyn Trees> = Arc::clone(&trees) as _;
    let mut install = shared_trees.begin_install(b"queue/").unwrap();
    install.put(vec![(key(ROWS - 1), "new".into())]).unwrap();
    assert!(install.switch().unwrap());
    drop(install);
    check_bounded(&*trees, "installed", || assert_eq!(page(&*trees, false), [key(ROWS - 1)]));
    push(&*trees, 0..ROWS);
    trees.drop_prefix(b"queue/").unwrap();
    check_bounded(&*trees, "dropped", || assert!(page(&*trees, false).is_empty()));
    push(&*trees, 5..7);
    check_bounded(&*trees, "filled again", || assert_eq!(page(&*trees, true), [key(6), key(5)]));
}

#[test]
fn rows_written_into_a_dead_span_are_found_and_snapshots_keep_theirs() {
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
    let expected = (0..990).step_by(30).chain(990..1_000).map(key);
    assert!(all(&*trees.snapshot()).into_iter().eq(expected));
}
