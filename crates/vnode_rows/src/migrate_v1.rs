//! Migration of rows and hints of earlier versions, which stored them by the ring's partitions: a
//! start moves each to its slot, once.
//!
//! The ring of those versions could not change its number of partitions while it held data. So the
//! minter of a partition becomes the vnode of the slot of the same number: its counters are above
//! all dots that it created, and no other vnode has its actor.
//!
//! Promises: after an interruption the next start continues; if both places hold a row, both are
//! merged.
//! Never: reads more than [`ROWS`] rows at a time.

use super::layout::{Space, key_prefix, read_row, read_row_tail, write_row};
use super::slots::Slot;
use base::codec::Malformed;
use base::error::corrupt;
use base::limits::PARTITIONS_MAX;
use base::{Partition, Result};
use bytes::Bytes;
use runtime::log_writer::store_error;
use std::ops::Bound;
use store::{RowChange, Trees};

/// Number of rows that are moved together.
const ROWS: usize = 1_024;

/// Moves all rows and hints to their slots. Returns their number.
pub fn migrate(trees: &dyn Trees) -> Result<usize> {
    let mut count = 0;
    for partition in (0..PARTITIONS_MAX as u32).map(Partition) {
        loop {
            let found = page(trees, partition)?;
            if found.is_empty() {
                break;
            }
            count += found.len();
            let mut changes = Vec::with_capacity(2 * found.len());
            for (former, value) in found {
                let key = read_former_key(&former);
                let key = key.ok_or_else(|| corrupt(Malformed("a key of an earlier version")))?;
                let value = merge_existing(trees, &key, value)?;
                changes.extend([RowChange::Put(key, value), RowChange::Remove(former)]);
            }
            trees.apply(&mut changes.into_iter()).map_err(store_error)?;
            if trees.pressure().is_rotation_due() {
                trees.rotate().map_err(store_error)?;
                trees.flush().map_err(store_error)?;
            }
        }
    }
    Ok(count)
}

fn page(trees: &dyn Trees, partition: Partition) -> Result<Vec<(Bytes, Bytes)>> {
    let (low, high) = former_keys(partition);
    let snapshot = trees.snapshot();
    let rows = snapshot.range(Bound::Included(low), Bound::Excluded(high), false);
    rows.take(ROWS).map(|row| row.map_err(store_error)).collect()
}

/// Returns the row for a key: the value, merged with an existing row.
fn merge_existing(trees: &dyn Trees, key: &Bytes, value: Bytes) -> Result<Bytes> {
    match trees.get(key).map_err(store_error)? {
        Some(existing) if !existing.is_empty() => {
            let existing = read_row(&existing).map_err(corrupt)?;
            Ok(write_row(&existing.sync(read_row(&value).map_err(corrupt)?)))
        }
        _ => Ok(value),
    }
}

/// Converts an earlier version's tree key of a row or hint, by partition, into the current key.
/// `None`: it is no such key.
fn read_former_key(tree_key: &Bytes) -> Option<Bytes> {
    let row = tree_key.get(4) == Some(&(Space::FormerRow as u8));
    let hint = tree_key.get(4) == Some(&(Space::FormerHint as u8));
    let tail = if hint { 13 } else { 5 };
    if !(row || hint) || tree_key.len() < tail {
        return None;
    }
    let (bucket, key) = read_row_tail(&tree_key.slice(tail..))?;
    let space = if hint { Space::Hint } else { Space::Row };
    let mut current_key = key_prefix(Slot::for_key(&bucket, &key).0, space, tree_key.len() - 5);
    current_key.extend_from_slice(&tree_key[5..]);
    Some(current_key.into())
}

/// Returns the range of tree keys that earlier versions used for a partition's rows and hints.
fn former_keys(partition: Partition) -> (Bytes, Bytes) {
    let bound = |space| Bytes::from(key_prefix(partition.0, space, 0));
    (bound(Space::FormerRow), bound(Space::Arrival))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Row, StoredValue, arrival_key, hint_key, record_key, row_key};
    use base::{Actor, BucketName, Content, NodeId};
    use store::MemoryTrees;

    fn bucket() -> BucketName {
        BucketName::new("available", "b").expect("a name")
    }

    /// A key of an earlier version in partition 7.
    fn former(space: u8, tail: &[u8], key: &[u8]) -> Bytes {
        let prefix = [&[0x80, 0, 0, 7, space][..], tail, b"\0\x0bavailable/b", key];
        Bytes::from(prefix.concat())
    }

    #[test]
    fn v1_keys_map_to_current_row_and_hint_keys() {
        let (bucket, key) = (bucket(), b"k");
        let former = |space, tail| former(space, tail, key);
        let slot = Slot::for_key(&bucket, key);
        assert_eq!(read_former_key(&former(1, b"")), Some(row_key(&bucket, key)));
        let hint = read_former_key(&former(2, b"\0\0\0\0\0\0\0\x09"));
        assert_eq!(hint, Some(hint_key(slot, NodeId(9), &bucket, key)));
        let (low, high) = former_keys(Partition(7));
        assert!(
            former(1, b"") > low && former(2, b"") < high && arrival_key(Partition(7), 3) > high
        );
        for now in [row_key(&bucket, key), record_key(slot), arrival_key(Partition(7), 3)] {
            assert_eq!(read_former_key(&now), None);
        }
        assert_eq!(read_former_key(&former(2, b"").slice(..9)), None, "cut");
    }

    fn row(count: u64, text: &str) -> Bytes {
        let content = Content::plain(Bytes::from(text.to_string()));
        let id = Actor { node: NodeId(count), vnode: 7, incarnation: 1 };
        let mut row = Row::empty();
        row.event(logic::causal::Dot { id, count }, StoredValue::new(Some(&content), 1));
        write_row(&row)
    }

    #[test]
    fn migration_moves_v1_rows_and_hints_once_and_nothing_else() {
        let trees = MemoryTrees::new(1 << 20);
        let bucket = bucket();
        let key = |number: u32| format!("k{number:05}").into_bytes();
        let all = 3_000_u32;
        let hint = former(2, &9_u64.to_be_bytes(), b"hinted");
        let (record, arrival) = (record_key(Slot(7)), arrival_key(Partition(7), 3));
        let mut planted: Vec<_> = (0..all)
            .map(|number| RowChange::Put(former(1, b"", &key(number)), row(1, "former")))
            .collect();
        planted.push(RowChange::Put(hint, Bytes::new()));
        // This key has a row in its slot, written by a start that was interrupted.
        planted.push(RowChange::Put(row_key(&bucket, &key(5)), row(2, "now")));
        planted.push(RowChange::Put(record.clone(), Bytes::from_static(b"who")));
        planted.push(RowChange::Put(arrival.clone(), Bytes::from_static(b"how far")));
        trees.apply(&mut planted.into_iter()).expect("memory");

        assert_eq!(migrate(&trees).expect("memory"), all as usize + 1);
        assert_eq!(migrate(&trees).expect("memory"), 0);
        for number in 0..all {
            let found = trees.get(&row_key(&bucket, &key(number))).expect("memory");
            let found = read_row(&found.expect("it is there")).expect("it reads");
            assert_eq!(found.size(), if number == 5 { 2 } else { 1 }, "{number}");
        }
        let hint = hint_key(Slot::for_key(&bucket, b"hinted"), NodeId(9), &bucket, b"hinted");
        for key in [hint, record, arrival] {
            assert!(trees.get(&key).expect("memory").is_some());
        }
        let left = trees.snapshot().range(Bound::Unbounded, Bound::Unbounded, false).count();
        assert_eq!(left, all as usize + 3);
    }
}
