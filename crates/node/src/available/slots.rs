//! The ring's points in 1,024 slots, and how a partition is made of them.
//!
//! A vnode is the part of one node in one slot. A partition of a ring of 64 is sixteen slots in a
//! row, one of 1,024 a single slot: when the number of partitions doubles or halves, no row changes
//! its place, no actor its name, and no owner its keys.
//!
//! Promises: a key's slot never changes; the rows of a span come in the order of their names,
//! whatever slots they lie in: every node, and every ring, has them in one order.
//! Never: asks which ring is in force.

use super::layout::{row_tail, rows_prefix};
use crate::keeper::store_error;
use base::limits::PARTITIONS_MAX;
use base::{BucketName, Partition, Result};
use bytes::Bytes;
use logic::ring::{Ring, point};
use std::iter::Peekable;
use std::ops::{Bound, Range};
use store::Snapshot;

/// So many slots there are: as many as a ring may have partitions.
pub(crate) const SLOTS: u32 = PARTITIONS_MAX as u32;

/// One of the [`SLOTS`] equal parts of the ring's points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub u32);

impl Slot {
    /// Where a key lies.
    pub(crate) fn of(bucket: &BucketName, key: &[u8]) -> Slot {
        Slot(point(bucket.full().as_bytes(), key).partition(SLOTS).0)
    }

    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Slot> {
        (0..SLOTS).map(Slot)
    }

    /// The partition it is part of.
    pub(crate) fn partition(self, ring: &Ring) -> Partition {
        Partition(self.0 / (SLOTS / ring.partitions()))
    }
}

/// A partition of a ring of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub partition: Partition,
    /// How many partitions that ring has.
    pub of: u32,
}

impl Span {
    /// A ring's partition.
    pub(crate) fn new(ring: &Ring, partition: Partition) -> Span {
        Span { partition, of: ring.partitions() }
    }

    /// All of a ring.
    pub(crate) fn all(ring: &Ring) -> impl Iterator<Item = Span> {
        let of = ring.partitions();
        (0..of).map(move |partition| Span { partition: Partition(partition), of })
    }

    /// The slots it is made of.
    pub(crate) fn slots(self) -> Range<u32> {
        let each = SLOTS / self.of;
        self.partition.0 * each..(self.partition.0 + 1) * each
    }

    /// The partitions of another ring that hold some of it.
    pub(crate) fn in_ring(self, ring: &Ring) -> impl Iterator<Item = Partition> {
        let (slots, each) = (self.slots(), SLOTS / ring.partitions());
        (slots.start / each..=(slots.end - 1) / each).map(Partition)
    }

    /// The partition of a ring of so many in which a slot lies.
    pub(crate) fn around(slot: Slot, of: u32) -> Span {
        Span { partition: Partition(slot.0 / (SLOTS / of)), of }
    }
}

type Row = Result<(Bytes, Bytes)>;

/// The rows of a span behind a name, in the order of their names.
pub(super) fn rows_of<'a>(
    snapshot: &'a dyn Snapshot,
    span: Span,
    after: Option<&[u8]>,
) -> impl Iterator<Item = Row> + use<'a> {
    let slots = span.slots().map(|slot| in_slot(snapshot, Slot(slot), after).peekable());
    Merged { slots: slots.collect() }
}

fn in_slot<'a>(
    snapshot: &'a dyn Snapshot,
    slot: Slot,
    after: Option<&[u8]>,
) -> impl Iterator<Item = Row> + use<'a> {
    let front = rows_prefix(slot);
    let low = match after {
        Some(after) => Bound::Excluded(Bytes::from([&front[..], after].concat())),
        None => Bound::Included(Bytes::from(front.clone())),
    };
    let rows = snapshot.range(low, Bound::Unbounded, false).map(|row| row.map_err(store_error));
    rows.take_while(move |row| row.as_ref().map_or(true, |(key, _)| key.starts_with(&front)))
}

/// Rows of several slots, each of which has them in order.
struct Merged<I: Iterator<Item = Row>> {
    slots: Vec<Peekable<I>>,
}

impl<I: Iterator<Item = Row>> Iterator for Merged<I> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
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
    use crate::available::layout::row_key;
    use logic::ring::Rack;
    use store::{Change, MemoryTrees, Trees};

    fn ring(partitions: u32) -> Ring {
        Ring::founded(base::NodeId(1), Rack::default(), partitions, 3)
    }

    #[test]
    fn every_ring_has_a_key_in_the_partition_in_which_its_slot_is() {
        let bucket = BucketName::new("available", "b").expect("a name");
        for number in 0..500_u32 {
            let key = number.to_be_bytes();
            let slot = Slot::of(&bucket, &key);
            for ring in [8, 64, 1_024].map(ring) {
                let partition = ring.partition(&point(bucket.full().as_bytes(), &key));
                assert_eq!(slot.partition(&ring), partition);
                let span = Span::new(&ring, partition);
                assert!(span.slots().contains(&slot.0));
                assert_eq!(Span::around(slot, ring.partitions()), span);
            }
        }
        let all: Vec<u32> = Span::all(&ring(64)).flat_map(Span::slots).collect();
        assert_eq!(all, (0..SLOTS).collect::<Vec<_>>());
    }

    #[test]
    fn a_partition_lies_in_others_of_finer_and_coarser_rings() {
        let span = Span { partition: Partition(5), of: 64 };
        let lies = |of| span.in_ring(&ring(of)).map(|it| it.0).collect::<Vec<_>>();
        assert_eq!((lies(64), lies(32), lies(128)), (vec![5], vec![2], vec![10, 11]));
    }

    #[test]
    fn rows_of_several_slots_come_in_one_order_and_go_on_behind_any() {
        let trees = MemoryTrees::new(1 << 20);
        let bucket = BucketName::new("available", "b").expect("a name");
        let key = |number: u32| format!("k{number:04}");
        let put = |number| Change::Put(row_key(&bucket, key(number).as_bytes()), Bytes::new());
        trees.apply(&mut (0..400).map(put)).expect("memory");
        let snapshot = trees.snapshot();
        let tails = |span: Span, after: Option<&[u8]>| -> Vec<Bytes> {
            let rows = rows_of(&*snapshot, span, after).map(|row| row.expect("memory").0);
            rows.map(|key| key.slice_ref(row_tail(&key))).collect()
        };
        let mut found = 0;
        for span in Span::all(&ring(8)) {
            let all = tails(span, None);
            assert!(all.is_sorted() && all.len() > 20, "{}", all.len());
            let middle = all.len() / 2;
            assert_eq!(tails(span, Some(&all[middle])), all[middle + 1..]);
            found += all.len();
        }
        assert_eq!(found, 400);
    }
}
