//! Cost of range reads, in keys of effects that are read and in rows that the budget counts: both
//! are the same on every machine.

use super::*;

const UPDATES: u32 = 100_000;
const ROWS_READ: usize = 10;

/// Returns the key of an update: all differ, in no order.
fn key_of(number: u32) -> Key {
    // A bijection of 32 bits.
    Key::from(number.wrapping_mul(0x9E37_79B1).to_be_bytes().to_vec())
}

fn put(overlay: &mut Overlay, number: u32) {
    overlay.put(BUCKET, &key_of(number), None, &[b"value"]).expect("memory");
}

/// Returns the range from a key on, or down from it.
fn range_from(key: Key, direction: Direction) -> WalkedRange {
    let (key, end) = (Bound::Included((BUCKET, key)), Bound::Unbounded);
    let (low, high) = match direction {
        Direction::Ascending => (key, end),
        Direction::Descending => (end, key),
    };
    WalkedRange { low, high, direction, rows: ROWS_READ, budget_rows: 0 }
}

/// Reads a range. Returns the keys that were read, and the rows counted beside the seek and the
/// search.
fn cost_of(overlay: &mut Overlay, range: &WalkedRange, is_naive: bool) -> (usize, usize) {
    let searched = if is_naive { 0 } else { search_rows(overlay, range) };
    let mut seek = Budget::unbounded();
    seek.count_seek().expect("it has no bound");
    key_reads::take();
    let walked = Walked::read(overlay, range, Budget::unbounded(), is_naive);
    assert!(walked.is_within_budget);
    (key_reads::take(), walked.counted - seek.rows() - searched)
}

#[test]
fn range_of_ten_rows_touches_tens_of_100_000_undecided_effects() {
    let mut master = Master::new();
    (0..UPDATES).for_each(|number| master.write(|overlay| put(overlay, number)));
    assert_eq!(master.queue.undecided().0, u64::from(UPDATES));
    assert_eq!(master.queue.pending().count(), UPDATES as usize / VALUE_UPDATES_MAX);
    master.write(|overlay| {
        let whole = range_from(Key::new(), Direction::Ascending);
        let (naive_keys, naive_rows) = cost_of(overlay, &whole, true);
        assert_eq!((naive_keys, naive_rows), (UPDATES as usize, UPDATES as usize));
        let (sort_keys, _) = cost_of(overlay, &whole, false);
        println!("before: {naive_keys} keys, {naive_rows} rows; sort: {sort_keys} keys");
        // A sort compares about log2(16,384) pairs of keys for each effect.
        assert!(sort_keys < UPDATES as usize * 40, "the first read sorts: {sort_keys} keys");
        let (mut keys_max, mut rows_max) = (0, 0);
        for number in 0..1_000 {
            for direction in [Direction::Ascending, Direction::Descending] {
                let range = range_from(key_of(number * 97), direction);
                let (keys, rows) = cost_of(overlay, &range, false);
                (keys_max, rows_max) = (keys_max.max(keys), rows_max.max(rows));
            }
        }
        println!("after: at most {keys_max} keys, {rows_max} rows");
        assert!(rows_max <= ROWS_READ + 1, "{rows_max} effects in the range were walked over");
        // In each of seven entries, a search of 15 keys, then the first key and its successor.
        assert!(keys_max <= 7 * 17 + 3 * ROWS_READ, "{keys_max} keys were read");
    });
}

#[test]
fn repeated_ranges_over_a_growing_open_entry_cost_a_logarithm_each() {
    let (mut master, mut total, mut keys_max) = (Master::new(), 0, 0);
    let updates = VALUE_UPDATES_MAX as u32 - 1;
    for number in 0..updates {
        master.write(|overlay| {
            let ranges = [Direction::Ascending, Direction::Descending]
                .map(|direction| range_from(key_of(number / 2), direction));
            // A step that reads what it wrote and is undone, then the update itself.
            let savepoint = overlay.savepoint();
            put(overlay, number + UPDATES);
            total += cost_of(overlay, &ranges[0], false).0;
            overlay.undo(savepoint);
            put(overlay, number);
            total += cost_of(overlay, &ranges[1], false).0;
            let (keys, rows) = cost_of(overlay, &ranges[0], false);
            assert!(rows <= ROWS_READ + 1);
            keys_max = keys_max.max(keys);
            total += keys;
        });
    }
    let per_range = total / (3 * updates as usize);
    println!("per range on average {per_range} keys, with the sorts; without at most {keys_max}");
    assert!(per_range <= 120, "{per_range} keys per range, with the sorts");
    assert!(keys_max <= 140, "{keys_max} keys were read by a range behind another");
}

#[test]
fn range_over_a_key_that_an_open_entry_changed_often_reads_few_keys() {
    let mut master = Master::new();
    for _ in 0..10_000 {
        master.write(|overlay| put(overlay, 1));
    }
    master.write(|overlay| {
        for direction in [Direction::Ascending, Direction::Descending] {
            let range = WalkedRange {
                low: Bound::Unbounded,
                high: Bound::Unbounded,
                direction,
                rows: usize::MAX,
                budget_rows: 0,
            };
            cost_of(overlay, &range, false);
            let (keys, rows) = cost_of(overlay, &range, false);
            assert_eq!(rows, 1, "as many as the entry has keys");
            assert!(keys <= 64, "{keys} keys were read");
        }
    });
}
