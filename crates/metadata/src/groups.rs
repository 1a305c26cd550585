//! Creation of groups, with a new number and the members that have the fewest groups, and their
//! removal.

use super::draft::Draft;
use super::members::no_such_group;
use super::rows::{NEXT_GROUP, group_key, read_next_group, set, write_next_group};
use super::{CallPlan, Directory};
use base::limits::{GROUP_VOTERS_MAX, GROUPS_MAX};
use base::request::Missing;
use base::{
    Body, ConfigurationId, Error, GroupId, MemberDescription, Membership, NodeId, Part, Placement,
    Reason, Result, Update,
};
use bytes::Bytes;
use logic::consensus::{Configuration, Member, Quorums};

/// Smallest number of a group that is created by a call.
const FIRST: u32 = 2;
/// Default number of voters of a group.
const REPLICAS: u32 = 3;

impl Directory {
    /// Creates a group whose founders are its voters from the start. A member stores the founders
    /// of this row before it sends messages of the group, so they must never change.
    pub(super) fn create_group(
        &self,
        replicas: Option<u32>,
        members: &[String],
    ) -> Result<CallPlan> {
        let mut draft = self.draft()?;
        if draft.known.groups.len() >= GROUPS_MAX {
            let text = format!("{GROUPS_MAX} groups exist (groups_max)");
            return Err(Error::new(Reason::TooMany, text));
        }
        let (replicas, mut founders) = match members {
            [] => self.choose(&draft, replicas)?,
            named => draft.founders(replicas, named)?,
        };
        founders.sort_unstable();
        let members = founders.iter().map(|node| match draft.known.is_witness(*node) {
            true => (*node, Part::Witness),
            false => (*node, Part::Voter),
        });
        let members: Vec<_> = members.collect();
        // Witnesses join later: the founders of a group hold its data.
        founders.retain(|node| !draft.known.is_witness(*node));
        let next = self.get(&Bytes::from_static(NEXT_GROUP))?;
        let number = next.map_or(Ok(FIRST), |value| read_next_group(&value))?;
        let group = GroupId(number);
        let made = Placement { group, members, replicas, founders, quorum: None };
        draft.put_group(made.clone())?;
        draft.steps.push(set(Bytes::from_static(NEXT_GROUP), write_next_group(number + 1)));
        match draft.done()? {
            CallPlan::Change(steps) => Ok(CallPlan::Made(steps, Body::Group(Box::new(made)))),
            other => Ok(other),
        }
    }

    /// Removes a group without buckets: its row is deleted, and its members end their replicas when
    /// they see that (`cluster/reconcile.rs`). The counter of group numbers stays, so that none is
    /// reused.
    pub(super) fn drop_group(&self, group: GroupId) -> Result<CallPlan> {
        let mut draft = self.draft()?;
        if group.0 < FIRST {
            let text = "groups 0 and 1 are what a cluster is made of: they stay";
            return Err(Error::new(Reason::NotSupported, text));
        }
        if draft.known.placement(group).is_none() {
            return Err(no_such_group(group));
        }
        if let Some(name) = self.catalog.in_or_into(group) {
            let text = format!(
                "the bucket `{}` lives in group {group}, or moves there: drop it, or move it to \
                 another (`credenza bucket move`)",
                name.full()
            );
            return Err(Error::new(Reason::Changed, text));
        }
        draft.steps.push(Update::Delete { key: group_key(group), missing: Missing::Fails });
        draft.done()
    }

    /// Chooses the members with the fewest groups, preferring connected ones.
    fn choose(&self, draft: &Draft, replicas: Option<u32>) -> Result<(u32, Vec<NodeId>)> {
        let shared = &self.group.shared;
        let linked = |node| {
            node == shared.node || shared.peers.get().is_some_and(|peers| peers.linked(node))
        };
        let mut chosen = Vec::new();
        for (witness, near) in [(false, true), (false, false), (true, true), (true, false)] {
            chosen.extend(draft.with_fewest(|member| {
                let node = member.node;
                (draft.known.is_witness(node), linked(node)) == (witness, near)
            }));
        }
        let wanted = replicas.unwrap_or(REPLICAS);
        check_replicas(wanted)?;
        if replicas.is_some() && chosen.len() < wanted as usize {
            let text = format!(
                "a group of {wanted} voters takes as many members, and there are {}: start more \
                 nodes with --join, or ask for fewer replicas",
                chosen.len()
            );
            return Err(Error::new(Reason::Changed, text));
        }
        chosen.truncate(wanted as usize);
        Ok((wanted, chosen))
    }
}

impl Draft {
    /// Returns the staying members for which `holds` is true: those in the fewest groups first,
    /// then by id.
    pub(super) fn with_fewest(&self, holds: impl Fn(&MemberDescription) -> bool) -> Vec<NodeId> {
        let stays =
            |member: &&MemberDescription| member.membership == Membership::Member && holds(member);
        let groups = |node| {
            let named = |group: &&Placement| group.names_member(node);
            self.known.groups.iter().filter(named).count()
        };
        let all = self.known.members.iter().filter(stays);
        let mut found: Vec<_> = all.map(|one| (groups(one.node), one.node)).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, node)| node).collect()
    }

    /// Checks that every group goes on without this member: a new node in its place gets what a
    /// majority of the others has.
    pub(super) fn bears_loss(&self, member: &MemberDescription) -> Result<()> {
        let alone = |group: &&Placement| {
            let votes = group.members.contains(&(member.node, Part::Voter));
            !group.founders.is_empty() && votes && group.voters() <= quorums(group).most()
        };
        let Some(group) = self.known.groups.iter().find(alone) else { return Ok(()) };
        let (name, group) = (&member.name, group.group);
        let text = format!(
            "group {group} has no majority without `{name}`, and a fresh node would find nothing \
             of it: make others its voters first (`credenza group members {group} NAME ...`)"
        );
        Err(Error::new(Reason::Changed, text))
    }

    /// Sets the number of voters of a group that save an entry. Its master applies it
    /// (`cluster/reconcile.rs`), and uses a majority if it does not fit the group's members.
    pub(super) fn set_quorum(mut self, group: GroupId, quorum: Option<u8>) -> Result<CallPlan> {
        let placement = self.known.placement(group).ok_or_else(|| no_such_group(group))?;
        let placement = Placement { quorum, ..placement.clone() };
        let majority = Configuration::new(ConfigurationId(0), members(&placement));
        majority.and_then(|it| it.with_quorum(quorum)).map_err(|error| {
            let text = format!("group {group}: {error}, so that it goes on without one of them");
            Error::new(Reason::NotSupported, text)
        })?;
        self.put_group(placement)?;
        self.done()
    }

    fn founders(&self, replicas: Option<u32>, named: &[String]) -> Result<(u32, Vec<NodeId>)> {
        let count = u32::try_from(named.len()).unwrap_or(u32::MAX);
        if replicas.is_some_and(|replicas| replicas != count) {
            let text = format!("{count} members are named: leave out `replicas`, or say {count}");
            return Err(Error::new(Reason::Malformed, text));
        }
        check_replicas(count)?;
        let mut founders = Vec::new();
        for name in named {
            let member = self.named(name)?;
            if founders.contains(&member.node) {
                let text = format!("`{name}` stands twice among the members");
                return Err(Error::new(Reason::Malformed, text));
            }
            founders.push(member.node);
        }
        Ok((count, founders))
    }
}

/// Returns the quorums of a group with its desired members.
fn quorums(placement: &Placement) -> Quorums {
    let found = fitting(members(placement), placement.quorum);
    // Without a voter that may lead, no entry can be lost.
    found.map_or(Quorums { elect: 1, save: 1 }, |it| it.quorums())
}

/// Returns a configuration of these members, with the desired quorum if it fits them, else with a
/// majority. `None`: no member may lead.
pub fn fitting(members: Vec<Member>, wish: Option<u8>) -> Option<Configuration> {
    let majority = Configuration::new(ConfigurationId(0), members).ok()?;
    Some(majority.clone().with_quorum(wish).unwrap_or(majority))
}

fn members(placement: &Placement) -> Vec<Member> {
    placement.members.iter().map(|(node, part)| Member { node: *node, part: *part }).collect()
}

fn check_replicas(replicas: u32) -> Result<()> {
    if (1..=GROUP_VOTERS_MAX as u32).contains(&replicas) {
        return Ok(());
    }
    let text = format!("a group has 1 to {GROUP_VOTERS_MAX} voters (group_voters_max)");
    Err(Error::new(Reason::Malformed, text))
}
