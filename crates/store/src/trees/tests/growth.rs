//! What a range read costs where much lived and died: rows walked per row returned, counted, after
//! histories of everyday kinds, on a store that goes on, one that was opened anew, and one that
//! took another content.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::{Change, LsmTrees, Trees};
use super::{Scratch, apply, open, put, remove};

const ROWS: u32 = 20_000;
/// A page of a client that asks for a few.
const PAGE: usize = 2;

fn key(number: u32) -> Bytes {
    Bytes::from(format!("queue/{number:08}"))
}

fn bounds() -> (Bound<Bytes>, Bound<Bytes>) {
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
fn cost<T>(trees: &dyn Trees, work: impl FnOnce() -> T) -> (u64, u64, T) {
    let before = trees.statistics();
    let done = work();
    let after = trees.statistics();
    (after.rows_walked - before.rows_walked, after.rows_returned - before.rows_returned, done)
}

/// No more than two rows are walked for one that is given, and a handful.
fn is_bounded(trees: &dyn Trees, what: &str, work: impl FnOnce()) {
    let (walked, returned, ()) = cost(trees, work);
    assert!(walked <= 2 * returned + 64, "{what}: {walked} rows walked for {returned}");
}

fn push(trees: &dyn Trees, numbers: impl Iterator<Item = u32>) {
    let numbers: Vec<u32> = numbers.collect();
    for some in numbers.chunks(100) {
        apply(trees, some.iter().map(|number| put(key(*number), "job")));
    }
}

/// Takes the first, or the last, one by one.
fn pop(trees: &dyn Trees, times: u32, reverse: bool) {
    for _ in 0..times {
        let first = page(trees, reverse).into_iter().next().unwrap();
        apply(trees, [Change::Remove(first)]);
    }
}

fn to_disk(trees: &dyn Trees) {
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

/// The same, while another writer has batches inserted all the time.
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
        let costs = (0..20).map(|_| {
            push(&trees, 0..500);
            apply(&trees, (0..499).map(|number| remove(key(number))));
            trees.compact().unwrap();
            cost(&trees, || page(&trees, false))
        });
        let costs: Vec<_> = costs.collect();
        ends.store(true, Ordering::Release);
        costs
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

/// Rows that are dead here and there, between others that live, leave no stretch to jump over: they
/// go when walking over them has cost more than writing the others anew does.
#[test]
fn rows_that_died_between_others_do_not_stay_in_the_way() {
    const KEYS: u64 = 20_000;
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let mut chance = StdRng::seed_from_u64(3);
    let mut number = move || chance.random_range(0..KEYS) as u32;
    let mut step = |trees: &LsmTrees| {
        for _ in 0..10 {
            let row = put(key(number()), "row");
            apply(trees, [row, put(key(number()), "row"), remove(key(number()))]);
        }
        let (_, high) = bounds();
        let from = Bound::Included(key(number()));
        assert!(trees.snapshot().range(from, high, false).take(1_000).all(|row| row.is_ok()));
        if trees.pressure().rotate_is_due() {
            to_disk(trees);
        }
        while trees.compact().unwrap() {}
    };
    (0..1_000).for_each(|_| step(&trees));
    is_bounded(&trees, "in the midst", || (0..1_000).for_each(|_| step(&trees)));
    assert!(trees.statistics().tables < 30);
}

/// Few tombstones in memory, in a table far from full, hide rows on disk. Nobody writes any more,
/// and lists walk over them: they go after a bounded number of lists, the fewer they are the later.
#[test]
fn few_dead_rows_do_not_stay_in_the_way_of_readers_when_nobody_writes() {
    let everywhere = |trees: &LsmTrees| {
        let snapshot = trees.snapshot();
        let (low, high) = bounds();
        assert_eq!(snapshot.range(low, high, false).count(), 400);
    };
    let scratch = Scratch::new();
    let trees = open(&scratch);
    // Each dead row lies between two that live: there is no stretch to jump over.
    push(&trees, (0..800).filter(|number| number % 2 == 0));
    to_disk(&trees);
    while trees.compact().unwrap() {}
    apply(&trees, (0..800).filter(|number| number % 4 == 0).map(|number| remove(key(number))));
    apply(&trees, (0..800).filter(|number| number % 4 == 0).map(|number| put(key(number + 1), "")));
    let pressure = trees.pressure();
    assert!(pressure.active_bytes < pressure.active_bytes_max / 16);
    // 200 rows are walked over in vain each time.
    let mut lists = 0;
    while !trees.pressure().rotate_is_due() {
        everywhere(&trees);
        lists += 1;
        assert!(lists < 1_000, "{:?}", trees.pressure());
    }
    assert!(lists * 200 >= 50_000, "only {lists} lists");
    to_disk(&trees);
    while trees.compact().unwrap() {}
    let (walked, returned, ()) = cost(&trees, || everywhere(&trees));
    assert_eq!((walked, returned), (400, 400));
    for _ in 0..lists {
        everywhere(&trees);
        assert!(!trees.pressure().rotate_is_due() && !trees.compact().unwrap());
    }
}

/// Rows that lived and died in memory, with nothing on disk and nobody who writes: four lists pay
/// for the flush that leaves nothing of them.
#[test]
fn many_dead_rows_in_memory_are_walked_over_a_few_times_only() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    (0..3).for_each(|_| push(&trees, (0..2 * ROWS).filter(|number| number % 2 == 0)));
    push(&trees, (0..2 * ROWS).filter(|number| number % 40 == 1));
    apply(&trees, (0..2 * ROWS).filter(|number| number % 2 == 0).map(|n| remove(key(n))));
    let everywhere = || {
        let snapshot = trees.snapshot();
        let (low, high) = bounds();
        assert_eq!(snapshot.range(low, high, false).count(), (ROWS / 20) as usize);
    };
    let due = |_: &u32| trees.view().has_dead_rows_in_the_way(trees.settings.table_bytes_max());
    let lists = (0..10).inspect(|_| everywhere()).find(due);
    assert!(lists.is_some_and(|lists| lists < 4), "{lists:?}");
    to_disk(&trees);
    let (walked, returned, ()) = cost(&trees, everywhere);
    assert_eq!(walked, returned);
}

/// Tombstones in an upper level on disk hide rows at the bottom, while tables of others are merged
/// all the time: they go once lists have walked over more rows in vain than there are.
#[test]
fn dead_rows_on_disk_do_not_stay_in_the_way_while_others_are_merged() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let mut chance = StdRng::seed_from_u64(7);
    let mut others = |prefix: &str, numbers: std::ops::Range<u32>| {
        let mut value = [0; 256];
        let rows = numbers.map(|number| {
            chance.fill(&mut value);
            put(format!("{prefix}/{number:08}"), value)
        });
        apply(&trees, rows);
        to_disk(&trees);
    };
    push(&trees, 0..ROWS);
    (0..100).for_each(|part| others("a", part * 1_000..(part + 1) * 1_000));
    while trees.compact().unwrap() {}
    trees.rewrite().unwrap();
    for part in 0..4 {
        let rows = (0..ROWS).filter(|number| number % 8 == part * 2);
        apply(&trees, rows.map(|number| remove(key(number))));
        to_disk(&trees);
    }
    while trees.compact().unwrap() {}
    assert!(trees.statistics().tombstones > 0, "nothing else has them merged away");
    let everywhere = || {
        let snapshot = trees.snapshot();
        let (low, high) = bounds();
        assert_eq!(snapshot.range(low, high, false).count(), (ROWS / 2) as usize);
    };
    // Twice as many rows are walked over as there are on disk, and merges come between.
    let most = 2 * trees.statistics().rows_about / u64::from(ROWS);
    for list in 0..most as u32 {
        everywhere();
        (0..4).for_each(|part| others("z", list * 40 + part * 10..list * 40 + part * 10 + 10));
        while trees.compact().unwrap() {}
    }
    is_bounded(&trees, "after so many lists", everywhere);
}

/// Nobody writes, and clients list all day what no flush and no merge makes shorter: the tables
/// stay as they are.
#[test]
fn who_only_reads_brings_about_no_merges_and_no_flushes() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    push(&trees, 0..ROWS);
    to_disk(&trees);
    while trees.compact().unwrap() {}
    push(&trees, 0..5_000);
    let tables = |trees: &LsmTrees| -> Vec<u64> {
        lsm_tree::AbstractTree::current_version(&trees.tree)
            .iter_tables()
            .map(|table| table.id())
            .collect()
    };
    let before = tables(&trees);
    for _ in 0..50 {
        let (low, high) = bounds();
        assert_eq!(trees.snapshot().range(low, high, false).count(), ROWS as usize);
        assert!(!trees.pressure().rotate_is_due());
        assert!(!trees.compact().unwrap());
    }
    assert_eq!(tables(&trees), before);
    // What a reader walks over in tables of before is held against those tables.
    apply(&trees, (0..5_000).map(|number| remove(key(number))));
    let held = trees.snapshot();
    to_disk(&trees);
    for _ in 0..50 {
        let (low, high) = bounds();
        assert_eq!(held.range(low, high, false).count(), (ROWS - 5_000) as usize);
        assert!(!trees.pressure().rotate_is_due());
    }
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
