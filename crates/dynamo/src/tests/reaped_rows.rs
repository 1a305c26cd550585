//! Cost of lists after deletes and expiry, on real tables: rows that are walked over for each row
//! found. The test takes the reaper's turns, and those of the housekeeper, itself.
//!
//! A slot has few rows, and a record that stays: no stretch of removed rows is long enough for the
//! store to jump over it. Reads that walk over them have the store write them no more.

use super::logged_node::{LoggedNode, block_on, write};
use super::test_node::bucket;
use crate::reap::Reaper;
use crate::vnode_ops::{KeyRef, SeenVersions};
use base::Content;
use runtime::world;
use std::ops::Range;
use store::Trees;
use vnode_rows::layout::StoredValue;
use vnode_rows::name_pages::scan_keys;
use vnode_rows::slots::{SLOTS, SlotSpan};

/// Many more rows than the reaper handles in one turn.
const ROWS: usize = 4_000;
const LEFT: usize = 20;
/// Number of rows written between two turns of the log.
const TOGETHER: usize = 100;
/// Maximum number of the reaper's turns. Each row needs two rounds, of eight turns each, and a
/// third one if it has expired first.
const TURNS_MAX: usize = 60;
/// Maximum number of lists after which one is cheap: dead rows are removed from memory, and then
/// from the disk, once reads have walked over 25,000 of them.
const LISTS_MAX: usize = 20;
/// Time by which a value expires, in Unix milliseconds: after the time of this test, in which the
/// row is written, and before that of the reaper's threads, which have the machine's clock.
const EXPIRY_MS: u64 = 2_000_000;

fn key_ref(number: usize) -> KeyRef {
    KeyRef::new(bucket(), format!("{number:06}").into())
}

fn live() -> StoredValue {
    StoredValue::new(Some(&Content::plain("v".into())), world::unix_ms())
}

/// Replaces all that these rows have by a value.
async fn write_all(node: &LoggedNode, rows: Range<usize>, value: &StoredValue) {
    for number in rows {
        let seen = SeenVersions::Everything;
        write(node.store(), &key_ref(number), value.clone(), seen).expect("it is taken");
        if number % TOGETHER == 0 {
            node.run().await;
        }
    }
    node.run().await;
}

fn to_disk(trees: &dyn Trees) {
    trees.rotate().expect("a sound disk");
    trees.flush().expect("a sound disk");
}

/// Takes the reaper's turns until only the rows with a value are left.
async fn reap(node: &LoggedNode) {
    let (available, mut reaper) = (&node.node.available, Reaper::default());
    let is_there = |number: &usize| node.store().read(&key_ref(*number)).expect("sound").is_some();
    for _ in 0..TURNS_MAX {
        // A refusal is no end: the loop of a node takes the next turn, too.
        let _ = node.during(reaper.turn(available)).await;
        node.run().await;
        if (0..ROWS).filter(is_there).count() == LEFT {
            return;
        }
    }
    panic!("{} rows are left", (0..ROWS).filter(is_there).count());
}

/// Rows that a list of all keys walked over, and found.
#[derive(Debug)]
struct ListWalk {
    walked: u64,
    found: u64,
}

impl ListWalk {
    fn is_cheap(&self) -> bool {
        self.walked <= 2 * self.found + 64
    }
}

/// Lists all keys.
fn list(node: &LoggedNode) -> ListWalk {
    let available = &node.node.available;
    let spans: Vec<_> = SlotSpan::all(&available.schema.ring().expect("a ring")).collect();
    let before = node.trees().statistics();
    let snapshot = node.trees().snapshot();
    let page = scan_keys(&*snapshot, &spans, &bucket(), None, ROWS);
    let (names, more) = page.expect("sound");
    let after = node.trees().statistics();
    assert_eq!((names.len(), more), (LEFT, false));
    ListWalk {
        walked: after.rows_walked - before.rows_walked,
        found: after.rows_returned - before.rows_returned,
    }
}

/// Lists all keys until that is cheap, with a turn of the housekeeper after each list.
fn must_become_cheap(node: &LoggedNode, what: &str) {
    let first = list(node);
    // A list finds those that are left and, at the end of each slot, its record.
    assert!(first.found <= 2 * LEFT as u64 + u64::from(SLOTS), "{what}: {first:?}");
    assert!(!first.is_cheap(), "{what}: what was reaped is still walked over: {first:?}");
    let mut last = first;
    for _ in 0..LISTS_MAX {
        if node.trees().pressure().is_rotation_due() {
            to_disk(node.trees());
        }
        while node.trees().compact().expect("a sound disk") {}
        last = list(node);
        if last.is_cheap() {
            return;
        }
    }
    panic!("{what}: {last:?}");
}

#[test]
fn list_walks_over_no_row_that_was_deleted_or_has_expired_once_it_is_reaped() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(async {
        let node = LoggedNode::start_on_files(folder.path());
        write_all(&node, 0..ROWS, &live()).await;
        to_disk(node.trees());
        let expiring = live().with_expiry(EXPIRY_MS);
        for (what, value) in [("deleted", StoredValue::new(None, 1)), ("expired", expiring)] {
            write_all(&node, LEFT..ROWS, &value).await;
            to_disk(node.trees());
            reap(&node).await;
            must_become_cheap(&node, what);
        }
    });
}

#[test]
fn tombstones_are_found_by_lists_until_they_are_reaped() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(async {
        let node = LoggedNode::start_on_files(folder.path());
        write_all(&node, 0..ROWS, &live()).await;
        write_all(&node, LEFT..ROWS, &StoredValue::new(None, 1)).await;
        assert!(list(&node).found >= ROWS as u64, "each is a row with what it deleted");
    });
}
