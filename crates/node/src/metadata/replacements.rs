//! Successors on the ring: a row of text that names the successors of replaced members, written
//! with the change of members that replaced them.
//!
//! ```text
//! 1
//! 27b9775f33bbdcfa|3478389e4b09ea78     a tab where | stands; who goes, who comes
//! ```
//!
//! The ring may be changing for another reason just then, or the new node can't be reached yet. So
//! the replacement is stored first, and carried out when it can be (`ring_replacement.rs`), by an
//! ordinary ring change with all data. The old node is forgotten only after that.
//!
//! Until then it learns of the directory's changes, as a learner: a node that keeps data must know
//! the ring.
//!
//! Promises: the successor of a member gets its part of the ring, whichever node crashes meanwhile;
//! a member is not forgotten while the ring names it.

use super::members::Draft;
use super::ring::read_ring;
use super::ring_words::RingNames;
use super::rows::{RING, RING_HEIRS, RING_PLAN, assert, bad_row, set};
use super::{CallPlan, Directory};
use base::codec::Malformed;
use base::request::Missing;
use base::{Body, GroupId, Membership, NodeId, Part, Partition, Result, Update, Value};
use bytes::Bytes;
use logic::ring::{self, Rack, Ring, RingWish};
use std::collections::BTreeSet;

const FORM: &str = "1";

/// Replaced node, and the node that takes its place.
pub(super) type Replacement = (NodeId, NodeId);

/// Pending replacements, as they are stored, and the ring that they apply to.
#[derive(Default)]
pub(super) struct Replacements {
    row: Option<Value>,
    all: Vec<Replacement>,
    ring: Option<(Value, Ring)>,
}

fn key() -> Bytes {
    Bytes::from_static(RING_HEIRS)
}

fn write(all: &[Replacement]) -> Bytes {
    let lines = all.iter().map(|(old, new)| format!("{:016x}\t{:016x}\n", old.0, new.0));
    Bytes::from(format!("{FORM}\n{}", lines.collect::<String>()))
}

fn read(row: &[u8]) -> Result<Vec<Replacement>> {
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
            true => Vec::new(), // Cut short, it is said again.
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

    fn written(&self) -> Vec<Update> {
        let write = match self.all.is_empty() {
            true => Update::Delete { key: key(), missing: Missing::Fails },
            false => set(key(), write(&self.all)),
        };
        vec![assert(&key(), self.row.clone()), write]
    }
}

/// Returns true if a node keeps, receives or still has a partition by this ring.
fn names(ring: &Ring, node: NodeId) -> bool {
    keeps(ring, node) || ring.left_at(node).next().is_some()
}

fn keeps(ring: &Ring, node: NodeId) -> bool {
    let comes = ring.pending().is_some_and(|it| it.layout().nodes().contains_key(&node));
    ring.layout().nodes().contains_key(&node) || comes
}

impl Directory {
    pub(super) fn heirs(&self) -> Result<Replacements> {
        let row = self.get(&key())?;
        let all = row.as_ref().map(|row| read(row)).transpose()?.unwrap_or_default();
        let ring = self.get(&Bytes::from_static(RING))?;
        let ring = match ring {
            Some(row) => {
                let read = read_ring(&row)?;
                Some((row, read))
            }
            None => None,
        };
        Ok(Replacements { row, all, ring })
    }

    /// Returns the replaced nodes whose part of the ring is still to go to their successors.
    pub(crate) fn owed(&self) -> Result<BTreeSet<NodeId>> {
        let row = self.get(&key())?;
        let all = row.as_ref().map(|row| read(row)).transpose()?.unwrap_or_default();
        Ok(all.into_iter().map(|(old, _)| old).collect())
    }

    /// Begins or continues pending replacements, and stops waiting for nodes that are no members.
    /// `down`: nodes that can't be reached now. `gone`: replaced nodes that could not be reached
    /// for so long that their data are given up.
    pub(crate) async fn replace_owners(
        &self,
        down: &BTreeSet<NodeId>,
        gone: &BTreeSet<NodeId>,
    ) -> Result<()> {
        self.change(|| self.plan_replacement(down, gone)).await.map(|_| ())
    }

    fn plan_replacement(
        &self,
        down: &BTreeSet<NodeId>,
        gone: &BTreeSet<NodeId>,
    ) -> Result<CallPlan> {
        let mut draft = self.draft()?;
        let mut heirs = std::mem::take(&mut draft.heirs);
        let Some((row, ring)) = heirs.ring.take() else { return Ok(CallPlan::Answer(Body::Done)) };
        let none = |node: NodeId| draft.known.member(node).is_none();
        let lost = |node: NodeId| gone.contains(&node) || none(node);
        let next = ring.clone().without_leftovers_of(none);
        let next = next.without_receivers_of(lost, &self.numbers());
        if next != ring {
            return Ok(CallPlan::Change(changed(row, &next.renewed()).into()));
        }
        let (owed, paid): (Vec<_>, Vec<_>) =
            heirs.all.iter().copied().partition(|(old, _)| keeps(&ring, *old));
        if ring.pending().is_none() && !owed.is_empty() {
            let next = self.with_heirs(&ring, &owed, down, gone)?;
            return Ok(CallPlan::Change(changed(row, &next).into()));
        }
        // A reachable node removes its leftovers itself; nobody would for one that is gone.
        let mut next = ring.clone();
        for (old, _) in paid.iter().filter(|(old, _)| gone.contains(old)) {
            for partition in ring.left_at(*old) {
                next = next.clear((partition, 0), *old).unwrap_or(next);
            }
        }
        if next != ring {
            draft.steps.extend(changed(row, &next));
        }
        let (all, before) = (heirs.all.len(), std::mem::take(&mut heirs.all));
        for (old, new) in before {
            if names(&next, old) {
                heirs.all.push((old, new));
            } else {
                draft.leaves_directory(old)?;
            }
        }
        if all > heirs.all.len() {
            draft.steps.extend(heirs.written());
        }
        draft.done()
    }

    /// The ring in which these have the others' parts. One that keeps a part of its own already,
    /// or can keep none, does not take a second: the part is spread over all.
    fn with_heirs(
        &self,
        ring: &Ring,
        owed: &[Replacement],
        down: &BTreeSet<NodeId>,
        gone: &BTreeSet<NodeId>,
    ) -> Result<Ring> {
        let known = self.described()?;
        let named = RingNames { known: &known, ring };
        let mut taken = BTreeSet::new();
        let changes = owed.iter().map(|(old, new)| {
            let stays =
                known.member(*new).is_some_and(|member| member.membership == Membership::Member);
            let fresh = !ring.layout().nodes().contains_key(new) && taken.insert(*new);
            match stays && fresh && !known.is_witness(*new) {
                true => {
                    let rack = ring.layout().nodes().get(old).cloned();
                    let rack = rack.unwrap_or(Rack(String::new()));
                    RingWish::Replace { old: *old, new: *new, rack }
                }
                false => RingWish::Leave { node: *old },
            }
        });
        let changes: Vec<_> = changes.collect();
        // A replaced node is not waited for, and data that it alone had will not come back.
        let down = down.iter().copied().filter(|node| owed.iter().all(|(old, _)| old != node));
        let plan = ring::plan(ring, &changes, ring.n(), &down.collect());
        let plan = plan.map_err(|error| named.refused(&error))?;
        let next = ring.commit(&plan).map_err(|error| named.refused(&error))?;
        let lost = (0..ring.partitions()).map(Partition).filter(|partition| {
            let mut owners = ring.owners(*partition, ring.n()).into_iter();
            owners.all(|owner| gone.contains(&owner))
        });
        let mut next = next.without_idle(&self.numbers());
        for partition in lost {
            tracing::warn!(
                target: "node", partition = partition.0, "every node that kept a copy of this \
                 partition was replaced and is gone: its new owners begin without its rows"
            );
            next = next.arrive(partition, &[]).unwrap_or(next);
        }
        Ok(next)
    }
}

impl Draft {
    /// Registers that `by` takes over the part of `old` in the ring. Returns true if the ring still
    /// names `old`.
    pub(super) fn inherits(&mut self, old: NodeId, by: NodeId) -> bool {
        let owed = self.heirs.takes_over(old, by);
        self.steps.extend(owed);
        self.heirs.hold(old)
    }

    /// Removes the node from the directory's group: the ring does not name it any more.
    fn leaves_directory(&mut self, old: NodeId) -> Result<()> {
        let directory = self.known.groups.iter().find(|known| known.group == GroupId::DIRECTORY);
        let Some(mut placement) = directory.cloned() else { return Ok(()) };
        placement.members.retain(|(node, part)| *node != old || *part != Part::Learner);
        self.put_group(placement)
    }
}

/// The steps from the ring of a row to the next one.
fn changed(row: Value, next: &Ring) -> [Update; 2] {
    let ring = Bytes::from_static(RING);
    [assert(&ring, Some(row)), set(ring, Bytes::from(next.encode()))]
}

#[cfg(test)]
mod tests {
    use super::*;

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
