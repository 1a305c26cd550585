//! Successors on the ring: a row of text that names the successors of replaced members, written
//! with the change of members that replaced them.
//!
//! ```text
//! 1
//! 27b9775f33bbdcfa|3478389e4b09ea78     a tab where | stands; who goes, who comes
//! ```
//!
//! The ring may be changing for another reason, or the new node may be unreachable. Therefore the
//! replacement is stored first and carried out when possible (`ring_replacement.rs`), by an
//! ordinary ring change with all data. The old node is forgotten only after that.
//!
//! Until then it receives the directory's changes as a learner: a node that keeps data must know
//! the ring.
//!
//! Promises: the successor of a member gets its part of the ring, whichever node crashes meanwhile;
//! a member is not forgotten while the ring names it.

use super::rows::{RING, RING_PLAN, RING_REPLACEMENTS, assert, bad_row, set};
use base::codec::Malformed;
use base::request::OnMissing;
use base::{NodeId, Result, Update, Value};
use bytes::Bytes;
use logic::ring::Ring;

const FORM: &str = "1";

/// Replaced node, and the node that takes its place.
pub(super) type Replacement = (NodeId, NodeId);

/// Pending replacements, as they are stored, and the ring that they apply to.
#[derive(Default)]
pub(super) struct Replacements {
    pub row: Option<Value>,
    pub all: Vec<Replacement>,
    pub ring: Option<(Value, Ring)>,
}

pub(super) fn key() -> Bytes {
    Bytes::from_static(RING_REPLACEMENTS)
}

fn write(all: &[Replacement]) -> Bytes {
    let lines = all.iter().map(|(old, new)| format!("{:016x}\t{:016x}\n", old.0, new.0));
    Bytes::from(format!("{FORM}\n{}", lines.collect::<String>()))
}

pub(super) fn read(row: &[u8]) -> Result<Vec<Replacement>> {
    let bad = || bad_row(Malformed("heirs of the ring"));
    let mut lines = std::str::from_utf8(row).map_err(|_| bad())?.lines();
    if lines.next() != Some(FORM) {
        return Err(bad());
    }
    let node = |text: &str| u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16);
    let replacement = |line: &str| {
        let (old, new) = line.split_once('\t')?;
        Some((NodeId(node(old)?), NodeId(node(new)?)))
    };
    lines.map(|line| replacement(line).ok_or_else(bad)).collect()
}

impl Replacements {
    /// Returns the steps that make the only remaining node the owner of the whole ring. Drops
    /// pending replacements and planned changes.
    pub(super) fn reduce_ring_to(&self, own: NodeId) -> Vec<Update> {
        let Some((row, ring)) = &self.ring else { return Vec::new() };
        let is_sole_owner = ring.pending().is_none() && ring.layout().nodes().keys().eq([&own]);
        let mut steps: Vec<_> = match is_sole_owner {
            true => Vec::new(), // An interrupted call is repeated.
            false => replace_ring_row(row.clone(), &ring.for_sole_survivor(own)).into(),
        };
        for key in [key(), Bytes::from_static(RING_PLAN)] {
            steps.push(Update::Delete { key, missing: OnMissing::Skip });
        }
        steps
    }

    /// Returns the steps that store the replacement of `old` by `new` on the ring.
    pub(super) fn add(&mut self, old: NodeId, new: NodeId) -> Vec<Update> {
        let previous = self.all.clone();
        for (_, successor) in self.all.iter_mut().filter(|(_, successor)| *successor == old) {
            *successor = new;
        }
        let is_in_ring = self.ring.as_ref().is_some_and(|(_, ring)| ring_uses(ring, old));
        if is_in_ring && self.all.iter().all(|(known, _)| *known != old) {
            self.all.push((old, new));
        }
        if self.all == previous { Vec::new() } else { self.update_steps() }
    }

    /// Returns true if a replacement of this node is pending.
    pub(super) fn is_pending(&self, node: NodeId) -> bool {
        self.all.iter().any(|(old, _)| *old == node)
    }

    pub(super) fn update_steps(&self) -> Vec<Update> {
        let step = match self.all.is_empty() {
            true => Update::Delete { key: key(), missing: OnMissing::Fail },
            false => set(key(), write(&self.all)),
        };
        vec![assert(&key(), self.row.clone()), step]
    }
}

/// Returns true if a node owns, receives or still holds a partition by this ring.
pub(super) fn ring_uses(ring: &Ring, node: NodeId) -> bool {
    is_owner(ring, node) || ring.leftover_partitions(node).next().is_some()
}

pub(super) fn is_owner(ring: &Ring, node: NodeId) -> bool {
    let will_own =
        ring.pending().is_some_and(|pending| pending.layout().nodes().contains_key(&node));
    ring.layout().nodes().contains_key(&node) || will_own
}

/// Returns the steps that replace the ring of a row by the next one.
pub(super) fn replace_ring_row(row: Value, next: &Ring) -> [Update; 2] {
    let ring = Bytes::from_static(RING);
    [assert(&ring, Some(row)), set(ring, Bytes::from(next.encode()))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use logic::ring::Rack;

    #[test]
    fn replacements_row_round_trips_in_fixed_bytes() {
        let all = [(NodeId(1), NodeId(0xabc)), (NodeId(u64::MAX), NodeId(3))];
        let row = write(&all);
        let kept = "1\n0000000000000001\t0000000000000abc\nffffffffffffffff\t0000000000000003\n";
        assert_eq!(row, kept);
        assert_eq!(read(&row).expect("it reads"), all);
        for bad in ["", "2\n", "1\n1\t2\n", "1\n0000000000000001\n", "1\nx\ty\n"] {
            assert!(read(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn chained_replacement_maps_old_node_to_latest_successor() {
        let ring = Ring::initial(NodeId(1), Rack(String::new()), 8, 3);
        let mut replacements =
            Replacements { ring: Some((Bytes::new(), ring)), ..Replacements::default() };
        assert!(replacements.add(NodeId(7), NodeId(8)).is_empty(), "it kept nothing");
        assert_eq!(replacements.add(NodeId(1), NodeId(2)).len(), 2);
        assert!(replacements.is_pending(NodeId(1)));
        assert_eq!(replacements.add(NodeId(2), NodeId(3)).len(), 2);
        assert_eq!(replacements.all, [(NodeId(1), NodeId(3))]);
    }
}
