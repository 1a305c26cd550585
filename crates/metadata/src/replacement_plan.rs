//! Plans by which pending replacements take effect on the ring, and by which replaced members leave
//! the directory.

use super::draft::Draft;
use super::replacements::{
    Replacement, Replacements, is_owner, key, read, replace_ring_row, ring_uses,
};
use super::ring::read_ring;
use super::ring_names::RingNames;
use super::rows::RING;
use super::{CallPlan, Directory};
use base::{Body, GroupId, Membership, NodeId, Part, Partition, Result};
use bytes::Bytes;
use logic::ring::{self, Rack, Ring, RingChangeRequest};
use std::collections::BTreeSet;

impl Directory {
    pub(super) fn replacements(&self) -> Result<Replacements> {
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
    pub fn pending_replacements(&self) -> Result<BTreeSet<NodeId>> {
        let row = self.get(&key())?;
        let all = row.as_ref().map(|row| read(row)).transpose()?.unwrap_or_default();
        Ok(all.into_iter().map(|(old, _)| old).collect())
    }

    /// Begins or continues pending replacements, and stops waiting for nodes that are no members.
    /// `down`: nodes that can't be reached now. `given_up`: replaced nodes that have been
    /// unreachable for so long that their data are given up.
    pub async fn replace_owners(
        &self,
        down: &BTreeSet<NodeId>,
        given_up: &BTreeSet<NodeId>,
    ) -> Result<()> {
        self.change(|| self.plan_replacement(down, given_up)).await.map(|_| ())
    }

    fn plan_replacement(
        &self,
        down: &BTreeSet<NodeId>,
        given_up: &BTreeSet<NodeId>,
    ) -> Result<CallPlan> {
        let mut draft = self.draft()?;
        let mut replacements = std::mem::take(&mut draft.replacements);
        let Some((row, ring)) = replacements.ring.take() else {
            return Ok(CallPlan::Answer(Body::Done));
        };
        let is_former = |node: NodeId| draft.cluster.member(node).is_none();
        let is_lost = |node: NodeId| given_up.contains(&node) || is_former(node);
        let next = ring.clone().without_leftovers_of(is_former);
        let next = next.without_receivers_of(is_lost, &self.n_vals());
        if next != ring {
            return Ok(CallPlan::Change(replace_ring_row(row, &next.with_next_epoch()).into()));
        }
        let (pending, finished): (Vec<_>, Vec<_>) =
            replacements.all.iter().copied().partition(|(old, _)| is_owner(&ring, *old));
        if ring.pending().is_none() && !pending.is_empty() {
            let next = self.with_successors(&ring, &pending, down, given_up)?;
            return Ok(CallPlan::Change(replace_ring_row(row, &next).into()));
        }
        // A reachable node removes its leftovers itself; for a lost node, the directory does.
        let mut next = ring.clone();
        for (old, _) in finished.iter().filter(|(old, _)| given_up.contains(old)) {
            for partition in ring.leftover_partitions(*old) {
                next = next.clear_leftovers((partition, 0), *old).unwrap_or(next);
            }
        }
        if next != ring {
            draft.steps.extend(replace_ring_row(row, &next));
        }
        let (count_before, previous) =
            (replacements.all.len(), std::mem::take(&mut replacements.all));
        for (old, new) in previous {
            if ring_uses(&next, old) {
                replacements.all.push((old, new));
            } else {
                draft.remove_from_directory(old)?;
            }
        }
        if count_before > replacements.all.len() {
            draft.steps.extend(replacements.update_steps());
        }
        draft.into_plan()
    }

    /// Returns the ring in which successors have the partitions of replaced nodes. If a successor
    /// owns partitions already, or may own none, the partitions are spread over all nodes.
    fn with_successors(
        &self,
        ring: &Ring,
        pending: &[Replacement],
        down: &BTreeSet<NodeId>,
        given_up: &BTreeSet<NodeId>,
    ) -> Result<Ring> {
        let cluster = self.describe_cluster()?;
        let names = RingNames { cluster: &cluster, ring };
        let mut successors = BTreeSet::new();
        let changes = pending.iter().map(|(old, new)| {
            let is_member =
                cluster.member(*new).is_some_and(|member| member.membership == Membership::Member);
            let is_new = !ring.layout().nodes().contains_key(new) && successors.insert(*new);
            match is_member && is_new && !cluster.is_witness(*new) {
                true => {
                    let rack = ring.layout().nodes().get(old).cloned();
                    let rack = rack.unwrap_or(Rack(String::new()));
                    RingChangeRequest::Replace { old: *old, new: *new, rack }
                }
                false => RingChangeRequest::Leave { node: *old },
            }
        });
        let changes: Vec<_> = changes.collect();
        // The ring does not wait for a replaced node, and data that only this node had are lost.
        let down = down.iter().copied().filter(|node| pending.iter().all(|(old, _)| old != node));
        let plan = ring::plan(ring, &changes, ring.n(), &down.collect());
        let plan = plan.map_err(|error| names.plan_error(&error))?;
        let next = ring.commit(&plan).map_err(|error| names.plan_error(&error))?;
        let lost_partitions = (0..ring.partitions()).map(Partition).filter(|partition| {
            let mut owners = ring.owners(*partition, ring.n()).into_iter();
            owners.all(|owner| given_up.contains(&owner))
        });
        let mut next = next.mark_idle_arrived(&self.n_vals());
        for partition in lost_partitions {
            tracing::warn!(
                target: "node", partition = partition.0,
                "every node that had a replica of this partition was replaced and is gone: the new \
                 owners start without its rows"
            );
            next = next.arrive(partition, &[]).unwrap_or(next);
        }
        Ok(next)
    }
}

impl Draft {
    /// Registers that `by` takes over the partitions of `old`. Returns true if the ring still names
    /// `old`.
    pub(super) fn register_replacement(&mut self, old: NodeId, by: NodeId) -> bool {
        let steps = self.replacements.add(old, by);
        self.steps.extend(steps);
        self.replacements.is_pending(old)
    }

    /// Removes the node from the directory's group: the ring no longer names it.
    fn remove_from_directory(&mut self, old: NodeId) -> Result<()> {
        let directory = self.cluster.groups.iter().find(|known| known.group == GroupId::DIRECTORY);
        let Some(mut placement) = directory.cloned() else { return Ok(()) };
        placement.members.retain(|(node, part)| *node != old || *part != Part::Learner);
        self.put_group(placement)
    }
}
