//! Membership controller: brings a group from its present members to the desired ones, one step at
//! a time, at the master.
//!
//! Promises: no member votes before it has (nearly) everything; a voter stays one until all desired
//! voters can vote; the master leaves only after it has handed over; if only waiting helps, nothing
//! is done.
//! Never: does anything itself. It returns the next step; [`super::reconcile`] takes it.

use base::limits::GROUP_MEMBERS_MAX;
use base::{LogIndex, NodeId, Part};
use std::collections::BTreeMap;

/// Maximum number of entries that a learner may lag behind the master to become a voter.
const NEAR_ENTRIES: u64 = 1_000;

/// Part of each member in a group.
pub(crate) type Parts = BTreeMap<NodeId, Part>;

/// Next step of the master towards the desired members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MembershipStep {
    /// No step is needed.
    Idle,
    /// These members must catch up first.
    Wait(Vec<NodeId>),
    /// Hands mastership over to this voter.
    HandOver(NodeId),
    /// Changes the group's members to these.
    Reconfigure(Parts),
}

/// State of a group, as its master observes it.
#[derive(Clone, Debug)]
pub(crate) struct MembershipView<'a> {
    /// Desired members.
    pub desired: &'a Parts,
    /// Present members.
    pub current: &'a Parts,
    /// Last saved index of each member, including the master.
    pub saved: &'a BTreeMap<NodeId, LogIndex>,
    /// Id of the master.
    pub master: NodeId,
}

impl MembershipView<'_> {
    /// Returns true if a member lags behind the master by `NEAR_ENTRIES` entries at most.
    pub(super) fn is_near(&self, node: NodeId) -> bool {
        let last = self.saved.get(&self.master).map_or(u64::MAX, |last| last.0);
        self.saved.get(&node).is_some_and(|saved| saved.0.saturating_add(NEAR_ENTRIES) >= last)
    }

    /// Returns true if a member could lead at once: it is a voter with rows, connected to this
    /// node, and near.
    pub(super) fn could_lead(&self, node: NodeId, linked: impl Fn(NodeId) -> bool) -> bool {
        self.current.get(&node) == Some(&Part::Voter) && linked(node) && self.is_near(node)
    }

    fn is_voter(&self, node: NodeId) -> bool {
        self.current.get(&node).is_some_and(|part| part.can_vote())
    }

    /// Returns the desired voters that are not ready to vote yet.
    fn catching_up(&self) -> Vec<NodeId> {
        let desired =
            self.desired.iter().filter(|(_, part)| part.can_vote()).map(|(node, _)| *node);
        let is_ready = |node: &NodeId| {
            self.is_voter(*node) || self.current.contains_key(node) && self.is_near(*node)
        };
        desired.filter(|node| !is_ready(node)).collect()
    }

    /// Returns the members nearest to the desired ones that the group can have now.
    fn target(&self, catching_up: &[NodeId]) -> Parts {
        let mut target = Parts::new();
        for (node, part) in self.desired {
            let keeps_voting = !part.can_vote() && self.is_voter(*node) && !catching_up.is_empty();
            let part = match () {
                () if catching_up.contains(node) => Part::Learner,
                () if keeps_voting => self.current[node],
                () => *part,
            };
            target.insert(*node, part);
        }
        for (node, part) in self.current {
            // A leaving voter keeps its vote until its successor can vote.
            if !target.contains_key(node) && part.can_vote() && !catching_up.is_empty() {
                target.insert(*node, *part);
            }
        }
        self.within_limit(target)
    }

    /// Removes newcomers until the group is within its limit of members.
    fn within_limit(&self, mut target: Parts) -> Parts {
        while target.len() > GROUP_MEMBERS_MAX {
            let newcomer = target.keys().rev().find(|node| !self.current.contains_key(node));
            let Some(newcomer) = newcomer.copied() else { return self.current.clone() };
            target.remove(&newcomer);
        }
        target
    }

    /// Returns the voter that is to lead in place of the master: the one with the highest saved
    /// index, if it is near. `None`: there is none.
    fn successor(&self, target: &Parts) -> Option<NodeId> {
        let is_candidate = |node: &NodeId| {
            let is_voter_in_both =
                [self.current, target].iter().all(|parts| parts.get(node) == Some(&Part::Voter));
            *node != self.master && is_voter_in_both && self.is_near(*node)
        };
        let candidates = self.current.keys().copied().filter(is_candidate);
        candidates.max_by_key(|node| (self.saved.get(node), std::cmp::Reverse(*node)))
    }
}

/// Returns the master's next step towards the desired members.
pub(crate) fn next_step(view: &MembershipView) -> MembershipStep {
    let can_lead = |part: &Part| *part == Part::Voter;
    if !view.desired.values().any(can_lead) {
        return MembershipStep::Idle; // No desired member could lead: nothing to do.
    }
    let catching_up = view.catching_up();
    let mut target = view.target(&catching_up);
    if target.get(&view.master) != Some(&Part::Voter) {
        // The next master makes the change; this one leaves the group like any other member.
        if let Some(successor) = view.successor(&target) {
            return MembershipStep::HandOver(successor);
        }
        // No member can take over yet: the other changes come first.
        target.insert(view.master, Part::Voter);
        target = view.within_limit(target);
        if target == *view.current {
            let others =
                target.iter().filter(|(node, part)| can_lead(part) && **node != view.master);
            return MembershipStep::Wait(others.map(|(node, _)| *node).collect());
        }
    }
    match (target == *view.current, catching_up.is_empty()) {
        (false, _) => MembershipStep::Reconfigure(target),
        (true, false) => MembershipStep::Wait(catching_up),
        (true, true) => MembershipStep::Idle,
    }
}

/// Returns all steps to the desired members, provided that every member catches up in time. For
/// status output.
pub(crate) fn plan_steps(
    desired: &Parts,
    current: &Parts,
    master: NodeId,
) -> Vec<(Parts, MembershipStep)> {
    let (mut current, mut master) = (current.clone(), master);
    let mut steps = Vec::new();
    // Learners join, become voters, and the master leaves: a few steps at most.
    for _ in 0..16 {
        let saved = current.keys().map(|node| (*node, LogIndex(0))).collect();
        let view = MembershipView { desired, current: &current, saved: &saved, master };
        let step = next_step(&view);
        let before = current.clone();
        match &step {
            MembershipStep::Idle | MembershipStep::Wait(_) => break,
            MembershipStep::HandOver(successor) => master = *successor,
            MembershipStep::Reconfigure(next) => current = next.clone(),
        }
        steps.push((before, step));
    }
    steps
}

/// Describes a step for operators. `name` returns a node's name.
pub(crate) fn describe_step(
    current: &Parts,
    step: &MembershipStep,
    name: impl Fn(NodeId) -> String,
) -> Vec<String> {
    match step {
        MembershipStep::Idle => Vec::new(),
        MembershipStep::Wait(nodes) => {
            nodes.iter().map(|node| format!("wait until {} has caught up", name(*node))).collect()
        }
        MembershipStep::HandOver(successor) => {
            vec![format!("transfer mastership to {}", name(*successor))]
        }
        MembershipStep::Reconfigure(next) => {
            let changed = next.iter().filter(|(node, part)| current.get(node) != Some(part));
            let mut lines: Vec<_> = changed
                .map(|(node, part)| match current.get(node) {
                    None => format!("add {} as {}", name(*node), part.name()),
                    Some(_) => format!("make {} a {}", name(*node), part.name()),
                })
                .collect();
            let removed = current.keys().filter(|node| !next.contains_key(node));
            lines.extend(removed.map(|node| format!("remove {}", name(*node))));
            lines
        }
    }
}

#[cfg(test)]
mod tests;
