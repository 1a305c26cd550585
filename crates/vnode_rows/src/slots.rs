//! The ring's points in 1,024 slots, and how a partition is made of them.
//!
//! A vnode is the part of one node in one slot. A partition of a ring of 64 is sixteen slots in a
//! row, one of 1,024 a single slot: when the number of partitions doubles or halves, no row changes
//! its tree key, no vnode its actor, and no owner its keys.
//!
//! Promises: a key's slot never changes.
//! Never: depends on the current ring.

use base::limits::PARTITIONS_MAX;
use base::{BucketName, Partition};
use logic::ring::{Ring, point};
use std::ops::Range;

/// Number of slots: as many as a ring may have partitions.
pub const SLOTS: u32 = PARTITIONS_MAX as u32;

/// One of the [`SLOTS`] equal parts of the ring's points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub u32);

impl Slot {
    /// Returns the slot of a key.
    pub fn for_key(bucket: &BucketName, key: &[u8]) -> Slot {
        Slot(point(bucket.full().as_bytes(), key).partition(SLOTS).0)
    }

    /// Returns all slots, in order.
    pub fn all() -> impl Iterator<Item = Slot> {
        (0..SLOTS).map(Slot)
    }

    /// Returns the partition of a ring that contains it.
    pub fn partition(self, ring: &Ring) -> Partition {
        Partition(self.0 / (SLOTS / ring.partitions()))
    }
}

/// A partition of a ring, as a range of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotSpan {
    /// The partition.
    pub partition: Partition,
    /// Number of partitions of its ring.
    pub partitions: u32,
}

impl SlotSpan {
    /// Returns the span of a ring's partition.
    pub fn new(ring: &Ring, partition: Partition) -> SlotSpan {
        SlotSpan { partition, partitions: ring.partitions() }
    }

    /// Returns the spans of all partitions of a ring.
    pub fn all(ring: &Ring) -> impl Iterator<Item = SlotSpan> {
        let partitions = ring.partitions();
        (0..partitions).map(move |number| SlotSpan { partition: Partition(number), partitions })
    }

    /// Returns the range of its slots.
    pub fn slots(self) -> Range<u32> {
        let per_partition = SLOTS / self.partitions;
        self.partition.0 * per_partition..(self.partition.0 + 1) * per_partition
    }

    /// Returns the partitions of another ring that overlap it.
    pub fn in_ring(self, ring: &Ring) -> impl Iterator<Item = Partition> {
        let (slots, per_partition) = (self.slots(), SLOTS / ring.partitions());
        (slots.start / per_partition..=(slots.end - 1) / per_partition).map(Partition)
    }

    /// Returns the partition that contains a slot, in a ring of this many partitions.
    pub fn containing(slot: Slot, partitions: u32) -> SlotSpan {
        SlotSpan { partition: Partition(slot.0 / (SLOTS / partitions)), partitions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logic::ring::Rack;

    fn ring(partitions: u32) -> Ring {
        Ring::initial(base::NodeId(1), Rack::default(), partitions, 3)
    }

    #[test]
    fn slot_lies_in_the_partition_of_its_key_for_every_ring_size() {
        let bucket = BucketName::new("available", "b").expect("a name");
        for number in 0..500_u32 {
            let key = number.to_be_bytes();
            let slot = Slot::for_key(&bucket, &key);
            for ring in [8, 64, 1_024].map(ring) {
                let partition = ring.partition(&point(bucket.full().as_bytes(), &key));
                assert_eq!(slot.partition(&ring), partition);
                let span = SlotSpan::new(&ring, partition);
                assert!(span.slots().contains(&slot.0));
                assert_eq!(SlotSpan::containing(slot, ring.partitions()), span);
            }
        }
        let all: Vec<u32> = SlotSpan::all(&ring(64)).flat_map(SlotSpan::slots).collect();
        assert_eq!(all, (0..SLOTS).collect::<Vec<_>>());
    }

    #[test]
    fn partition_maps_to_partitions_of_finer_and_coarser_rings() {
        let span = SlotSpan { partition: Partition(5), partitions: 64 };
        let lies = |of| span.in_ring(&ring(of)).map(|it| it.0).collect::<Vec<_>>();
        assert_eq!((lies(64), lies(32), lies(128)), (vec![5], vec![2], vec![10, 11]));
    }
}
