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

/// Maximum number of entries that a learner may lack to be near enough to vote.
const NEAR: u64 = 1_000;

/// Part of each member in a group.
pub(crate) type Parts = BTreeMap<NodeId, Part>;

/// Next step of the master towards the desired members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MembershipStep {
    /// No step is needed.
    Rest,
    /// These members must catch up first.
    Wait(Vec<NodeId>),
    /// Hands mastership over to this voter.
    HandOver(NodeId),
    /// Changes the group's members to these.
    Reconfigure(Parts),
}

/// State of a group, as its master sees it.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSight<'a> {
    /// Desired members.
    pub wanted: &'a Parts,
    /// Present members.
    pub now: &'a Parts,
    /// Last saved index of each member, including the master.
    pub saved: &'a BTreeMap<NodeId, LogIndex>,
    /// Id of the master.
    pub master: NodeId,
}

impl ClusterSight<'_> {
    /// Returns true if a member has nearly everything that the master has.
    pub(super) fn is_near(&self, node: NodeId) -> bool {
        let last = self.saved.get(&self.master).map_or(u64::MAX, |last| last.0);
        self.saved.get(&node).is_some_and(|saved| saved.0.saturating_add(NEAR) >= last)
    }

    /// Returns true if a member could lead at once: it is a voter that keeps rows, is connected to
    /// this node, and near.
    pub(super) fn could_lead(&self, node: NodeId, linked: impl Fn(NodeId) -> bool) -> bool {
        self.now.get(&node) == Some(&Part::Voter) && linked(node) && self.is_near(node)
    }

    fn votes(&self, node: NodeId) -> bool {
        self.now.get(&node).is_some_and(|part| part.votes())
    }

    /// Returns the nodes that are wanted as voters and are not fit to vote yet.
    fn behind(&self) -> Vec<NodeId> {
        let wanted = self.wanted.iter().filter(|(_, part)| part.votes()).map(|(node, _)| *node);
        let fit =
            |node: &NodeId| self.votes(*node) || self.now.contains_key(node) && self.is_near(*node);
        wanted.filter(|node| !fit(node)).collect()
    }

    /// Returns the members nearest to the desired ones that the group can have now.
    fn aim(&self, behind: &[NodeId]) -> Parts {
        let mut aim = Parts::new();
        for (node, part) in self.wanted {
            let keeps_voting = !part.votes() && self.votes(*node) && !behind.is_empty();
            let part = match () {
                () if behind.contains(node) => Part::Learner,
                () if keeps_voting => self.now[node],
                () => *part,
            };
            aim.insert(*node, part);
        }
        for (node, part) in self.now {
            // Its successor can't vote yet.
            if !aim.contains_key(node) && part.votes() && !behind.is_empty() {
                aim.insert(*node, *part);
            }
        }
        self.bounded(aim)
    }

    /// A place is for learners that are in the group already before it is for others.
    fn bounded(&self, mut aim: Parts) -> Parts {
        while aim.len() > GROUP_MEMBERS_MAX {
            let fresh = aim.keys().rev().find(|node| !self.now.contains_key(node));
            let Some(fresh) = fresh.copied() else { return self.now.clone() };
            aim.remove(&fresh);
        }
        aim
    }

    /// Returns the voter that is to lead instead of the master: the one with the highest saved
    /// index, if it is near. `None`: there is none.
    fn heir(&self, aim: &Parts) -> Option<NodeId> {
        let leads = |node: &NodeId| {
            let both = [self.now, aim].iter().all(|parts| parts.get(node) == Some(&Part::Voter));
            *node != self.master && both && self.is_near(*node)
        };
        let heirs = self.now.keys().copied().filter(leads);
        heirs.max_by_key(|node| (self.saved.get(node), std::cmp::Reverse(*node)))
    }
}

/// Returns the master's next step towards the desired members.
pub(crate) fn next_step(seen: &ClusterSight) -> MembershipStep {
    let leads = |part: &Part| *part == Part::Voter;
    if !seen.wanted.values().any(leads) {
        return MembershipStep::Rest; // Nothing is wanted that a group could be.
    }
    let behind = seen.behind();
    let mut aim = seen.aim(&behind);
    if aim.get(&seen.master) != Some(&Part::Voter) {
        // The next master makes the change, and this one leaves like any other member.
        if let Some(heir) = seen.heir(&aim) {
            return MembershipStep::HandOver(heir);
        }
        // No member can take over yet: the others come first.
        aim.insert(seen.master, Part::Voter);
        aim = seen.bounded(aim);
        if aim == *seen.now {
            let others = aim.iter().filter(|(node, part)| leads(part) && **node != seen.master);
            return MembershipStep::Wait(others.map(|(node, _)| *node).collect());
        }
    }
    match (aim == *seen.now, behind.is_empty()) {
        (false, _) => MembershipStep::Reconfigure(aim),
        (true, false) => MembershipStep::Wait(behind),
        (true, true) => MembershipStep::Rest,
    }
}

/// Returns all steps to the desired members, if every member catches up in time, for people to
/// read.
pub(crate) fn whole_way(
    wanted: &Parts,
    now: &Parts,
    master: NodeId,
) -> Vec<(Parts, MembershipStep)> {
    let (mut now, mut master) = (now.clone(), master);
    let mut way = Vec::new();
    // Learners come, voters vote, the master leaves: no plan is longer than a few steps.
    for _ in 0..16 {
        let saved = now.keys().map(|node| (*node, LogIndex(0))).collect();
        let seen = ClusterSight { wanted, now: &now, saved: &saved, master };
        let step = next_step(&seen);
        let before = now.clone();
        match &step {
            MembershipStep::Rest | MembershipStep::Wait(_) => break,
            MembershipStep::HandOver(heir) => master = *heir,
            MembershipStep::Reconfigure(next) => now = next.clone(),
        }
        way.push((before, step));
    }
    way
}

/// Describes a step in words. `name` returns a node's name.
pub(crate) fn words(
    now: &Parts,
    step: &MembershipStep,
    name: impl Fn(NodeId) -> String,
) -> Vec<String> {
    match step {
        MembershipStep::Rest => Vec::new(),
        MembershipStep::Wait(nodes) => {
            nodes.iter().map(|node| format!("wait until {} is near", name(*node))).collect()
        }
        MembershipStep::HandOver(heir) => vec![format!("hand over to {}", name(*heir))],
        MembershipStep::Reconfigure(next) => {
            let changed = next.iter().filter(|(node, part)| now.get(node) != Some(part));
            let mut words: Vec<_> = changed
                .map(|(node, part)| match now.get(node) {
                    None => format!("add {} as {}", name(*node), part.word()),
                    Some(_) => format!("make {} a {}", name(*node), part.word()),
                })
                .collect();
            let gone = now.keys().filter(|node| !next.contains_key(node));
            words.extend(gone.map(|node| format!("remove {}", name(*node))));
            words
        }
    }
}

#[cfg(test)]
mod tests;
