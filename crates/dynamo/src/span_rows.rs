//! Rows of a partition, read from all its slots.
//!
//! Promises: the rows come in the order of their names, whatever slots they lie in: every node, and
//! every ring, has them in one order.

use super::layout::{row_tail, rows_prefix};
use super::slots::{Slot, SlotSpan};
use base::Result;
use bytes::Bytes;
use runtime::log_writer::store_error;
use std::iter::Peekable;
use std::ops::Bound;
use store::Snapshot;

type RowPair = Result<(Bytes, Bytes)>;

/// The rows of a span behind a name, in the order of their names.
pub(super) fn rows_of<'a>(
    snapshot: &'a dyn Snapshot,
    span: SlotSpan,
    after: Option<&[u8]>,
) -> impl Iterator<Item = RowPair> + use<'a> {
    let slots = span.slots().map(|slot| in_slot(snapshot, Slot(slot), after).peekable());
    Merged { slots: slots.collect() }
}

fn in_slot<'a>(
    snapshot: &'a dyn Snapshot,
    slot: Slot,
    after: Option<&[u8]>,
) -> impl Iterator<Item = RowPair> + use<'a> {
    let front = rows_prefix(slot);
    let low = match after {
        Some(after) => Bound::Excluded(Bytes::from([&front[..], after].concat())),
        None => Bound::Included(Bytes::from(front.clone())),
    };
    let rows = snapshot.range(low, Bound::Unbounded, false).map(|row| row.map_err(store_error));
    rows.take_while(move |row| row.as_ref().map_or(true, |(key, _)| key.starts_with(&front)))
}

/// Rows of several slots, each of which has them in order.
struct Merged<I: Iterator<Item = RowPair>> {
    slots: Vec<Peekable<I>>,
}

impl<I: Iterator<Item = RowPair>> Iterator for Merged<I> {
    type Item = RowPair;

    fn next(&mut self) -> Option<RowPair> {
        let mut first: Option<(usize, Bytes)> = None;
        for (at, rows) in self.slots.iter_mut().enumerate() {
            match rows.peek() {
                None => {}
                // An error comes before any row.
                Some(Err(_)) => return rows.next(),
                Some(Ok((key, _))) => {
                    let best =
                        first.as_ref().is_none_or(|(_, best)| row_tail(key) < row_tail(best));
                    if best {
                        first = Some((at, key.clone()));
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
    fn rows_of_several_slots_come_in_one_order_and_go_on_behind_any() {
        let trees = MemoryTrees::new(1 << 20);
        let bucket = BucketName::new("available", "b").expect("a name");
        let key = |number: u32| format!("k{number:04}");
        let put = |number| RowChange::Put(row_key(&bucket, key(number).as_bytes()), Bytes::new());
        trees.apply(&mut (0..400).map(put)).expect("memory");
        let snapshot = trees.snapshot();
        let tails = |span: SlotSpan, after: Option<&[u8]>| -> Vec<Bytes> {
            let rows = rows_of(&*snapshot, span, after).map(|row| row.expect("memory").0);
            rows.map(|key| key.slice_ref(row_tail(&key))).collect()
        };
        let ring = Ring::founded(base::NodeId(1), Rack::default(), 8, 3);
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
