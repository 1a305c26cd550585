//! Plans by which pending replacements take effect on the ring, and by which replaced members leave
//! the directory.

use super::draft::Draft;
use super::replacements::{Replacement, Replacements, changed, keeps, key, names, read};
use super::ring::read_ring;
use super::ring_words::RingNames;
use super::rows::RING;
use super::{CallPlan, Directory};
use base::{Body, GroupId, Membership, NodeId, Part, Partition, Result};
use bytes::Bytes;
use logic::ring::{self, Rack, Ring, RingWish};
use std::collections::BTreeSet;

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

    /// Returns the replaced nodes whose part of the ring has not reached their successors yet.
    pub fn owed(&self) -> Result<BTreeSet<NodeId>> {
        let row = self.get(&key())?;
        let all = row.as_ref().map(|row| read(row)).transpose()?.unwrap_or_default();
        Ok(all.into_iter().map(|(old, _)| old).collect())
    }

    /// Begins or continues pending replacements, and stops waiting for nodes that are no members.
    /// `down`: nodes that can't be reached now. `gone`: replaced nodes that have been unreachable
    /// for so long that their data are given up.
    pub async fn replace_owners(
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
        // A reachable node removes its leftovers itself; for a lost node, nobody would.
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

    /// Returns the ring in which successors have the parts of replaced nodes. A successor that
    /// already has a part of its own, or can have none, takes no second one: the part is spread
    /// over all nodes.
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
        // The ring does not wait for a replaced node, and data that only this node had are lost.
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

    /// Removes the node from the directory's group: the ring no longer names it.
    fn leaves_directory(&mut self, old: NodeId) -> Result<()> {
        let directory = self.known.groups.iter().find(|known| known.group == GroupId::DIRECTORY);
        let Some(mut placement) = directory.cloned() else { return Ok(()) };
        placement.members.retain(|(node, part)| *node != old || *part != Part::Learner);
        self.put_group(placement)
    }
}
