//! Rows of a partition, read from all its slots.
//!
//! Promises: the rows are in the order of their tails (bucket and key), across slots: the order is
//! the same on every node and for every ring.

use super::layout::{row_tail, rows_prefix};
use super::slots::{Slot, SlotSpan};
use base::Result;
use bytes::Bytes;
use runtime::log_writer::store_error;
use std::iter::Peekable;
use std::ops::Bound;
use store::Snapshot;

type RowPair = Result<(Bytes, Bytes)>;

/// Returns the rows of a span after a tail, in the order of their tails.
pub fn rows_in_span<'a>(
    snapshot: &'a dyn Snapshot,
    span: SlotSpan,
    after: Option<&[u8]>,
) -> impl Iterator<Item = RowPair> + use<'a> {
    let slots = span.slots().map(|slot| rows_in_slot(snapshot, Slot(slot), after).peekable());
    MergedRows { slots: slots.collect() }
}

fn rows_in_slot<'a>(
    snapshot: &'a dyn Snapshot,
    slot: Slot,
    after: Option<&[u8]>,
) -> impl Iterator<Item = RowPair> + use<'a> {
    let prefix = rows_prefix(slot);
    let low = match after {
        Some(after) => Bound::Excluded(Bytes::from([&prefix[..], after].concat())),
        None => Bound::Included(Bytes::from(prefix.clone())),
    };
    let rows = snapshot.range(low, Bound::Unbounded, false).map(|row| row.map_err(store_error));
    rows.take_while(move |row| row.as_ref().map_or(true, |(key, _)| key.starts_with(&prefix)))
}

/// Merge of the rows of several slots, each in order.
struct MergedRows<I: Iterator<Item = RowPair>> {
    slots: Vec<Peekable<I>>,
}

impl<I: Iterator<Item = RowPair>> Iterator for MergedRows<I> {
    type Item = RowPair;

    fn next(&mut self) -> Option<RowPair> {
        let mut first: Option<(usize, Bytes)> = None;
        for (index, rows) in self.slots.iter_mut().enumerate() {
            match rows.peek() {
                None => {}
                // An error comes before any row.
                Some(Err(_)) => return rows.next(),
                Some(Ok((key, _))) => {
                    let best =
                        first.as_ref().is_none_or(|(_, best)| row_tail(key) < row_tail(best));
                    if best {
                        first = Some((index, key.clone()));
                    }
                }
            }
        }
        self.slots[first?.0].next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::row_key;
    use base::BucketName;
    use logic::ring::{Rack, Ring};
    use store::{MemoryTrees, RowChange, Trees};

    #[test]
    fn partition_rows_merge_slots_in_order_and_resume_after_any_row() {
        let trees = MemoryTrees::new(1 << 20);
        let bucket = BucketName::new("available", "b").expect("a name");
        let key = |number: u32| format!("k{number:04}");
        let put = |number| RowChange::Put(row_key(&bucket, key(number).as_bytes()), Bytes::new());
        trees.apply(&mut (0..400).map(put)).expect("memory");
        let snapshot = trees.snapshot();
        let tails = |span: SlotSpan, after: Option<&[u8]>| -> Vec<Bytes> {
            let rows = rows_in_span(&*snapshot, span, after).map(|row| row.expect("memory").0);
            rows.map(|key| key.slice_ref(row_tail(&key))).collect()
        };
        let ring = Ring::initial(base::NodeId(1), Rack::default(), 8, 3);
        let mut found = 0;
        for span in SlotSpan::all(&ring) {
            let all = tails(span, None);
            assert!(all.is_sorted() && all.len() > 20, "{}", all.len());
            let middle = all.len() / 2;
            assert_eq!(tails(span, Some(&all[middle])), all[middle + 1..]);
            found += all.len();
        }
        assert_eq!(found, 400);
    }
}
