//! Tests of the order of an entry's effects: when it is built, what it costs, and what an undo
//! leaves of it.

use super::*;
use crate::effect_layout::key_reads;
use crate::pending_entry::{EntryBuffers, PendingEntry};
use base::LogIndex;

impl EffectOrder {
    /// Returns the number of bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.offsets.capacity() * size_of::<u32>() + self.lists.capacity() * size_of::<OffsetList>()
    }
}

fn entry() -> PendingEntry {
    PendingEntry::new(LogIndex(1), 5, 1, 0, EntryBuffers::default())
}

/// Returns the keys of each list, as numbers.
fn lists(entry: &mut PendingEntry) -> Vec<Vec<u32>> {
    entry.order_effects();
    let number = |offset: &u32| {
        u32::from_be_bytes(entry.key_at(*offset).try_into().expect("a key has four bytes"))
    };
    entry.sorted_lists().map(|list| list.iter().map(number).collect()).collect()
}

fn put(entry: &mut PendingEntry, keys: impl IntoIterator<Item = u32>) {
    keys.into_iter().for_each(|key| entry.put_raw(&key.to_be_bytes(), b"row"));
}

#[test]
fn entry_without_range_reads_has_no_order() {
    let mut entry = entry();
    put(&mut entry, 0..1_000);
    let savepoint = entry.savepoint();
    put(&mut entry, 0..1_000);
    entry.undo(savepoint);
    assert!(entry.get(&7_u32.to_be_bytes()).is_some());
    entry.close();
    assert_eq!(entry.order_bytes(), 0);
}

#[test]
fn open_entry_sorts_its_new_effects_into_few_lists() {
    let mut entry = entry();
    put(&mut entry, [9, 3, 5, 1, 7]);
    assert_eq!(lists(&mut entry), [vec![1, 3, 5, 7, 9]]);
    put(&mut entry, [4, 2]);
    assert_eq!(lists(&mut entry), [vec![1, 3, 5, 7, 9], vec![2, 4]]);
    put(&mut entry, [6]);
    assert_eq!(lists(&mut entry), [vec![1, 2, 3, 4, 5, 6, 7, 9]], "each was at most twice as long");
    for key in 10..5_000 {
        put(&mut entry, [key * 7_919 % 4_099]);
        assert!(lists(&mut entry).len() <= 12, "twelve lists hold 2^12 effects");
    }
}

#[test]
fn undo_removes_effects_from_lists_and_leaves_those_that_they_replaced() {
    let mut entry = entry();
    put(&mut entry, [4, 2]);
    let outer = entry.savepoint();
    put(&mut entry, [4, 1]);
    let inner = entry.savepoint();
    put(&mut entry, [4, 3]);
    assert_eq!(lists(&mut entry), [vec![1, 2, 3, 4, 4, 4]]);
    entry.undo(inner);
    assert_eq!(lists(&mut entry), [vec![1, 2, 4, 4]]);
    put(&mut entry, [0]);
    assert_eq!(lists(&mut entry), [vec![1, 2, 4, 4], vec![0]]);
    entry.undo(outer);
    assert_eq!(lists(&mut entry), [vec![2, 4]]);
    put(&mut entry, [5]);
    assert_eq!(lists(&mut entry), [vec![2, 4, 5]]);
}

#[test]
fn closed_entry_is_sorted_once_and_keeps_four_bytes_per_key() {
    for range_before_close in [false, true] {
        let mut entry = entry();
        put(&mut entry, (0..1_000).rev());
        if range_before_close {
            entry.order_effects();
        }
        put(&mut entry, 0..2_000);
        entry.close();
        assert_eq!(lists(&mut entry), [(0..2_000).collect::<Vec<_>>()]);
        let list_bytes = 4 * size_of::<OffsetList>();
        let bytes = entry.order_bytes();
        assert!((8_000..=8_000 + list_bytes).contains(&bytes), "{bytes} bytes");
        key_reads::take();
        entry.order_effects();
        assert_eq!(key_reads::take(), 0);
    }
}
