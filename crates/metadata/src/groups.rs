//! Creation of groups, with a new number and the members that have the fewest groups, and their
//! removal.

use super::draft::Draft;
use super::members::no_such_group;
use super::rows::{
    NEXT_BUCKET, NEXT_GROUP, assert, group_key, read_next_group, set, write_next_group,
};
use super::{CallPlan, Directory};
use base::limits::{GROUP_VOTERS_MAX, GROUPS_MAX};
use base::request::OnMissing;
use base::{
    Body, ConfigurationId, Error, GroupId, MemberDescription, Membership, NodeId, Part, Placement,
    Reason, Result, Update,
};
use bytes::Bytes;
use logic::consensus::{Configuration, Member, Quorums};

/// Smallest number of a group that is created by a call.
const FIRST_GROUP: u32 = 2;
/// Default number of voters of a group.
const REPLICAS_DEFAULT: u32 = 3;

impl Directory {
    /// Creates a group whose founders are its voters from the start. A member stores the founders
    /// of this row before it sends messages of the group, so they must never change.
    pub(super) fn create_group(
        &self,
        replicas: Option<u32>,
        members: &[String],
    ) -> Result<CallPlan> {
        let mut draft = self.draft()?;
        if draft.cluster.groups.len() >= GROUPS_MAX {
            let text = format!("{GROUPS_MAX} groups exist (groups_max)");
            return Err(Error::new(Reason::TooMany, text));
        }
        let (replicas, mut founders) = match members {
            [] => self.choose_members(&draft, replicas)?,
            names => draft.founders(replicas, names)?,
        };
        founders.sort_unstable();
        let members = founders.iter().map(|node| match draft.cluster.is_witness(*node) {
            true => (*node, Part::Witness),
            false => (*node, Part::Voter),
        });
        let members: Vec<_> = members.collect();
        // Witnesses join later: the founders of a group hold its data.
        founders.retain(|node| !draft.cluster.is_witness(*node));
        let next = self.get(&Bytes::from_static(NEXT_GROUP))?;
        let number = next.map_or(Ok(FIRST_GROUP), |value| read_next_group(&value))?;
        let group = GroupId(number);
        let created = Placement { group, members, replicas, founders, quorum: None };
        draft.put_group(created.clone())?;
        draft.steps.push(set(Bytes::from_static(NEXT_GROUP), write_next_group(number + 1)));
        match draft.into_plan()? {
            CallPlan::Change(steps) => {
                Ok(CallPlan::ChangeWithAnswer(steps, Body::Group(Box::new(created))))
            }
            other => Ok(other),
        }
    }

    /// Removes a group without buckets: its row is deleted, and its members end their replicas when
    /// they see that (`cluster/reconcile.rs`). The counter of group numbers stays, so that none is
    /// reused.
    pub(super) fn drop_group(&self, group: GroupId) -> Result<CallPlan> {
        let mut draft = self.draft()?;
        if group.0 < FIRST_GROUP {
            let text = "groups 0 and 1 can't be dropped: every cluster has them";
            return Err(Error::new(Reason::NotSupported, text));
        }
        if draft.cluster.placement(group).is_none() {
            return Err(no_such_group(group));
        }
        // Every bucket that is created or moved takes a number; its row may be undecided. Read
        // before the catalog, which shows the buckets of all numbers taken by then.
        let key = Bytes::from_static(NEXT_BUCKET);
        draft.steps.push(assert(&key, self.get(&key)?));
        if let Some(name) = self.catalog.any_bucket_of(group) {
            let text = format!(
                "the bucket `{}` is in group {group}, or moves there: drop it, or move it to \
                 another group (`credenza bucket move`)",
                name.full()
            );
            return Err(Error::new(Reason::Changed, text));
        }
        draft.steps.push(Update::Delete { key: group_key(group), missing: OnMissing::Fail });
        draft.into_plan()
    }

    /// Chooses the members with the fewest groups, preferring connected ones.
    fn choose_members(&self, draft: &Draft, replicas: Option<u32>) -> Result<(u32, Vec<NodeId>)> {
        let shared = &self.group.shared;
        let is_linked = |node| {
            node == shared.node || shared.peers.get().is_some_and(|peers| peers.is_linked(node))
        };
        let mut chosen = Vec::new();
        for (is_witness, is_near) in [(false, true), (false, false), (true, true), (true, false)] {
            chosen.extend(draft.with_fewest(|member| {
                let node = member.node;
                (draft.cluster.is_witness(node), is_linked(node)) == (is_witness, is_near)
            }));
        }
        let wanted = replicas.unwrap_or(REPLICAS_DEFAULT);
        check_replicas(wanted)?;
        if replicas.is_some() && chosen.len() < wanted as usize {
            let text = format!(
                "a group of {wanted} voters needs as many members, but there are {}: start more \
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
    /// Returns the staying members that satisfy `matches`: those in the fewest groups first, then
    /// by id.
    pub(super) fn with_fewest(&self, matches: impl Fn(&MemberDescription) -> bool) -> Vec<NodeId> {
        let is_candidate = |member: &&MemberDescription| {
            member.membership == Membership::Member && matches(member)
        };
        let groups = |node| {
            let has_replica = |group: &&Placement| group.has_member(node);
            self.cluster.groups.iter().filter(has_replica).count()
        };
        let candidates = self.cluster.members.iter().filter(is_candidate);
        let mut ranked: Vec<_> =
            candidates.map(|member| (groups(member.node), member.node)).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, node)| node).collect()
    }

    /// Checks that every group has a majority without this member: a new node in its place receives
    /// what that majority holds.
    pub(super) fn check_majority_without(&self, member: &MemberDescription) -> Result<()> {
        let depends_on_member = |group: &&Placement| {
            let is_voter = group.members.contains(&(member.node, Part::Voter));
            !group.founders.is_empty()
                && is_voter
                && group.voters() <= quorums(group).required_connected()
        };
        let Some(group) = self.cluster.groups.iter().find(depends_on_member) else { return Ok(()) };
        let (name, group) = (&member.name, group.group);
        let text = format!(
            "group {group} has no majority without `{name}`, so a new node could not catch up: \
             make other members voters first (`credenza group members {group} NAME ...`)"
        );
        Err(Error::new(Reason::Changed, text))
    }

    /// Sets the number of voters of a group that save an entry. Its master applies it
    /// (`cluster/reconcile.rs`), and uses a majority if it does not fit the group's members.
    pub(super) fn set_quorum(mut self, group: GroupId, quorum: Option<u8>) -> Result<CallPlan> {
        let placement = self.cluster.placement(group).ok_or_else(|| no_such_group(group))?;
        let placement = Placement { quorum, ..placement.clone() };
        let majority = Configuration::new(ConfigurationId(0), members(&placement));
        majority.and_then(|configuration| configuration.with_quorum(quorum)).map_err(|error| {
            let text = format!(
                "group {group}: {error}, so that the group stays available without one of them"
            );
            Error::new(Reason::NotSupported, text)
        })?;
        self.put_group(placement)?;
        self.into_plan()
    }

    fn founders(&self, replicas: Option<u32>, names: &[String]) -> Result<(u32, Vec<NodeId>)> {
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        if replicas.is_some_and(|replicas| replicas != count) {
            let text = format!("{count} members are named: omit `replicas`, or set it to {count}");
            return Err(Error::new(Reason::Malformed, text));
        }
        check_replicas(count)?;
        let mut founders = Vec::new();
        for name in names {
            let member = self.find_member(name)?;
            if founders.contains(&member.node) {
                let text = format!("`{name}` is listed twice among the members");
                return Err(Error::new(Reason::Malformed, text));
            }
            founders.push(member.node);
        }
        Ok((count, founders))
    }
}

/// Returns the quorums of a group with its desired members.
fn quorums(placement: &Placement) -> Quorums {
    let configuration = configuration_of(members(placement), placement.quorum);
    // Without a voter that may lead, no entry can be lost.
    configuration.map_or(Quorums { elect: 1, save: 1 }, |configuration| configuration.quorums())
}

/// Returns a configuration of these members, with the desired quorum if it fits them, else with a
/// majority. `None`: no member may lead.
pub fn configuration_of(members: Vec<Member>, quorum: Option<u8>) -> Option<Configuration> {
    let majority = Configuration::new(ConfigurationId(0), members).ok()?;
    Some(majority.clone().with_quorum(quorum).unwrap_or(majority))
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
