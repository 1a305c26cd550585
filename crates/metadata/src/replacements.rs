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

use super::rows::{RING, RING_HEIRS, RING_PLAN, assert, bad_row, set};
use base::codec::Malformed;
use base::request::Missing;
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
    Bytes::from_static(RING_HEIRS)
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
    let heir = |line: &str| {
        let (old, new) = line.split_once('\t')?;
        Some((NodeId(node(old)?), NodeId(node(new)?)))
    };
    lines.map(|line| heir(line).ok_or_else(bad)).collect()
}

impl Replacements {
    /// Returns the steps by which the only remaining node keeps the whole ring. Pending
    /// replacements and planned changes are dropped.
    pub(super) fn survived_by(&self, own: NodeId) -> Vec<Update> {
        let Some((row, ring)) = &self.ring else { return Vec::new() };
        let alone = ring.pending().is_none() && ring.layout().nodes().keys().eq([&own]);
        let mut steps: Vec<_> = match alone {
            true => Vec::new(), // An interrupted call is repeated.
            false => changed(row.clone(), &ring.of_survivor(own)).into(),
        };
        for key in [key(), Bytes::from_static(RING_PLAN)] {
            steps.push(Update::Delete { key, missing: Missing::Skipped });
        }
        steps
    }

    /// Returns the steps that store the replacement of `old` by `new` on the ring.
    pub(super) fn takes_over(&mut self, old: NodeId, new: NodeId) -> Vec<Update> {
        let before = self.all.clone();
        for (_, heir) in self.all.iter_mut().filter(|(_, heir)| *heir == old) {
            *heir = new;
        }
        let named = self.ring.as_ref().is_some_and(|(_, ring)| names(ring, old));
        if named && self.all.iter().all(|(known, _)| *known != old) {
            self.all.push((old, new));
        }
        if self.all == before { Vec::new() } else { self.written() }
    }

    /// Returns true if the ring still names this node, and another is to take its part.
    pub(super) fn hold(&self, node: NodeId) -> bool {
        self.all.iter().any(|(old, _)| *old == node)
    }

    pub(super) fn written(&self) -> Vec<Update> {
        let write = match self.all.is_empty() {
            true => Update::Delete { key: key(), missing: Missing::Fails },
            false => set(key(), write(&self.all)),
        };
        vec![assert(&key(), self.row.clone()), write]
    }
}

/// Returns true if a node keeps, receives or still has a partition by this ring.
pub(super) fn names(ring: &Ring, node: NodeId) -> bool {
    keeps(ring, node) || ring.left_at(node).next().is_some()
}

pub(super) fn keeps(ring: &Ring, node: NodeId) -> bool {
    let comes = ring.pending().is_some_and(|it| it.layout().nodes().contains_key(&node));
    ring.layout().nodes().contains_key(&node) || comes
}

/// Returns the steps that replace the ring of a row by the next one.
pub(super) fn changed(row: Value, next: &Ring) -> [Update; 2] {
    let ring = Bytes::from_static(RING);
    [assert(&ring, Some(row)), set(ring, Bytes::from(next.encode()))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use logic::ring::Rack;

    #[test]
    fn heirs_read_back_and_the_bytes_are_for_ever() {
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
    fn who_takes_the_place_of_an_heir_inherits_what_is_owed_to_it() {
        let ring = Ring::founded(NodeId(1), Rack(String::new()), 8, 3);
        let mut heirs =
            Replacements { ring: Some((Bytes::new(), ring)), ..Replacements::default() };
        assert!(heirs.takes_over(NodeId(7), NodeId(8)).is_empty(), "it kept nothing");
        assert_eq!(heirs.takes_over(NodeId(1), NodeId(2)).len(), 2);
        assert!(heirs.hold(NodeId(1)));
        assert_eq!(heirs.takes_over(NodeId(2), NodeId(3)).len(), 2);
        assert_eq!(heirs.all, [(NodeId(1), NodeId(3))]);
    }
}
