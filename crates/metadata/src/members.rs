//! Members and placement: the changes of each call. Every change increments the counter of the
//! cluster's row and asserts its previous value, so two changes never mix.

use super::admission::set_token_row;
use super::draft::{Draft, is_named, no_such_member, too_many_witnesses};
use super::rows::{
    CLUSTER, ClusterRow, assert, group_key, member_key, set, write_cluster, write_group,
    write_member,
};
use super::witnesses::part_of_joiner;
use super::{CallPlan, Directory, levels, secret};
use base::cluster::{check_address, check_member_name};
use base::limits::PEERS_MAX;
use base::{
    Body, ClusterCall, Error, GroupId, JoinTokenTerms, MemberDescription, Membership, NodeId, Part,
    Placement, Reason, Result, TokenDigest,
};
use bytes::Bytes;

impl Directory {
    pub(super) fn plan_members(&self, call: &ClusterCall) -> Result<CallPlan> {
        match call {
            ClusterCall::Describe => {
                Ok(CallPlan::Answer(Body::Cluster(Box::new(self.describe_cluster()?))))
            }
            ClusterCall::AddMember { member, part, lease_ms, level } => {
                let draft = self.draft()?;
                draft.check_joiner(&member.name, *level)?;
                draft.add(member, *part, *lease_ms)
            }
            ClusterCall::UpdateMember { node, name, peer, client } => {
                self.draft()?.update(*node, name, peer, client)
            }
            ClusterCall::RemoveMember { name } => self.draft()?.remove(name),
            ClusterCall::ReplaceMember { name, by } => self.draft()?.replace(name, by.as_deref()),
            ClusterCall::SetPart { name, part, group } => {
                self.draft()?.set_part(name, *part, *group)
            }
            ClusterCall::PlaceGroup { group, members } => self.draft()?.place(*group, members),
            ClusterCall::SetQuorum { group, quorum } => self.draft()?.set_quorum(*group, *quorum),
            ClusterCall::CreateGroup { replicas, members } => self.create_group(*replicas, members),
            ClusterCall::DropGroup { group } => self.drop_group(*group),
            ClusterCall::WithToken { digest, call } => self.plan_with_token(digest, call),
            ClusterCall::AddToken { digest, terms } => self.plan_token(digest, *terms),
            ClusterCall::RevokeTokens => self.plan_revocation(),
            ClusterCall::MakeSecret => self.plan_secret(),
            ClusterCall::RaiseLevel { level } => self.plan_raise(*level),
        }
    }

    /// Plans the founder's rows, if there are none yet.
    pub(super) fn plan_founding(
        &self,
        founder: &MemberDescription,
        lease_ms: u64,
        groups: &[GroupId],
        token: Option<TokenDigest>,
    ) -> Result<CallPlan> {
        let key = Bytes::from_static(CLUSTER);
        if self.get(&key)?.is_some() {
            let mut draft = self.draft()?;
            // A sole member may choose another lease; with several members, all would have to
            // choose it.
            if draft.row.lease_ms != lease_ms && draft.cluster.members.len() == 1 {
                draft.row.lease_ms = lease_ms;
                draft.row_changed = true;
            }
            // A sole member of a version before secrets gets one: no other member could lack it.
            if draft.cluster.members.len() == 1 && self.secret()?.is_none() {
                draft.steps.push(secret::founding_secret());
            }
            return draft.into_plan();
        }
        let row = ClusterRow { founder: founder.node, lease_ms, changes: 0 };
        let mut steps = vec![assert(&key, None), set(key, write_cluster(&row))];
        steps.push(set(member_key(founder.node), write_member(founder)));
        steps.extend(groups.iter().map(|group| {
            let members = vec![(founder.node, Part::Voter)];
            set(group_key(*group), write_group(&Placement { members, ..Placement::default() }))
        }));
        steps.push(secret::founding_secret());
        steps.push(levels::founding_level(founder.node));
        // Machines that are set up together share it: it must let in all of them, and again.
        let standing = |digest| set_token_row(digest, JoinTokenTerms::STANDING);
        steps.extend(token.iter().map(standing));
        Ok(CallPlan::Change(steps))
    }

    pub(super) fn plan_removal(&self, node: NodeId) -> Result<CallPlan> {
        let mut draft = self.draft()?;
        let leaving = |member: &MemberDescription| member.membership == Membership::Leaving;
        // The other nodes need the node's address for as long as the ring names it.
        if !draft.cluster.member(node).is_some_and(leaving) || draft.replacements.is_pending(node) {
            return Ok(CallPlan::Answer(Body::Done));
        }
        draft.delete_member_rows(node);
        draft.into_plan()
    }
}

impl Draft {
    fn add(mut self, member: &MemberDescription, part: Part, lease_ms: u64) -> Result<CallPlan> {
        check_member_name(&member.name)?;
        check_address(&member.peer)?;
        check_address(&member.client)?;
        if lease_ms != self.row.lease_ms {
            let wanted = self.row.lease_ms;
            let text =
                format!("the cluster's lease is {wanted} ms: start with --lease-ms {wanted}");
            return Err(Error::new(Reason::NotSupported, text));
        }
        if let Some(known) = self.cluster.member(member.node) {
            if known.membership == Membership::Leaving {
                let text = "this node was removed from the cluster: it can join again only with an \
                            empty data directory";
                return Err(Error::new(Reason::Forbidden, text));
            }
            return self.update(member.node, &member.name, &member.peer, &member.client);
        }
        if let Some(without_address) =
            self.cluster.members.iter().find(|known| known.peer.is_empty())
        {
            let text = format!(
                "the member `{}` has no address for other nodes: start it again with \
                 --peer-listen ADDRESS",
                without_address.name
            );
            return Err(Error::new(Reason::NotSupported, text));
        }
        if self.cluster.members.len() >= PEERS_MAX {
            let text = format!("a cluster has at most {PEERS_MAX} members (peers_max)");
            return Err(Error::new(Reason::TooMany, text));
        }
        let member =
            MemberDescription { incarnation: 0, membership: Membership::Member, ..member.clone() };
        self.put_member(&member);
        match self.cluster.members.iter().find(|known| is_named(known, &member.name)).cloned() {
            None => {
                for mut placement in self.cluster.groups.clone() {
                    if let Some(part) = part_of_joiner(&placement, part) {
                        placement.members.push((member.node, part));
                        self.put_group(placement)?;
                    } else if placement.group == GroupId(0) {
                        return Err(too_many_witnesses(&placement));
                    }
                }
            }
            Some(old) if old.membership == Membership::Replaceable => {
                self.replace_member(&old, member.node, part == Part::Witness)?;
            }
            Some(existing) => return Err(duplicate_name(&existing.name)),
        }
        self.into_plan()
    }

    fn update(mut self, node: NodeId, name: &str, peer: &str, client: &str) -> Result<CallPlan> {
        check_member_name(name)?;
        for address in [peer, client].into_iter().filter(|address| !address.is_empty()) {
            check_address(address)?;
        }
        let known = self.cluster.member(node).cloned();
        let known = known.ok_or_else(|| no_such_member(&format!("{:016x}", node.0)))?;
        let others = self.cluster.members.iter().filter(|other| other.node != node);
        if let Some(existing) = others.into_iter().find(|other| is_named(other, name)) {
            return Err(duplicate_name(&existing.name));
        }
        let (name, peer, client) = (name.into(), peer.into(), client.into());
        let member = MemberDescription { name, peer, client, ..known.clone() };
        if member == known {
            return Ok(CallPlan::Answer(Body::Done));
        }
        self.put_member(&member);
        self.into_plan()
    }

    fn remove(mut self, name: &str) -> Result<CallPlan> {
        let member = self.find_member(name)?;
        for mut placement in self.cluster.groups.clone() {
            let before = placement.voters();
            placement.members.retain(|(node, _)| *node != member.node);
            if placement.voters() < before.min(placement.replicas as usize) {
                let others = self.with_fewest(|other| {
                    let is_free = !placement.has_member(other.node);
                    is_free && other.node != member.node && !self.cluster.is_witness(other.node)
                });
                placement.members.extend(others.first().map(|other| (*other, Part::Voter)));
            }
            self.put_group(placement)?;
        }
        self.put_member(&MemberDescription { membership: Membership::Leaving, ..member });
        self.into_plan()
    }

    fn replace(mut self, name: &str, by: Option<&str>) -> Result<CallPlan> {
        let member = self.find_member(name)?;
        match by {
            None => {
                self.check_majority_without(&member)?;
                self.put_member(&MemberDescription {
                    membership: Membership::Replaceable,
                    ..member
                });
            }
            Some(successor) => {
                let other = self.find_member(successor)?;
                if other.node == member.node {
                    let text =
                        format!("`{successor}` can't take its own place: name another member");
                    return Err(Error::new(Reason::Changed, text));
                }
                let is_witness = self.cluster.is_witness(other.node);
                self.replace_member(&member, other.node, is_witness)?;
            }
        }
        self.into_plan()
    }

    /// Removes lost members at once: they have no data to hand over.
    pub(super) fn reduce_to(mut self, own: NodeId, groups: &[GroupId]) -> Result<CallPlan> {
        for member in self.cluster.members.clone() {
            if member.node != own {
                self.delete_member_rows(member.node);
            } else if member.membership != Membership::Member {
                self.put_member(&MemberDescription { membership: Membership::Member, ..member });
            }
        }
        for mut placement in self.cluster.groups.clone() {
            if groups.contains(&placement.group) {
                placement.members = vec![(own, Part::Voter)];
                self.put_group(placement)?;
            }
        }
        self.steps.extend(self.replacements.reduce_ring_to(own));
        self.into_plan()
    }

    fn set_part(
        mut self,
        name: &str,
        part: Option<Part>,
        group: Option<GroupId>,
    ) -> Result<CallPlan> {
        let member = self.find_member(name)?;
        match part {
            Some(part) => self.check_part(name, member.node, part)?,
            None if group.is_none_or(|group| group == GroupId(0)) => {
                self.check_stays_in_directory(&member)?;
            }
            None => {}
        }
        let mut any_selected = false;
        for mut placement in self.cluster.groups.clone() {
            let is_selected = match group {
                Some(group) => group == placement.group,
                None => placement.replicas == 0 || placement.has_member(member.node),
            };
            if !is_selected {
                continue;
            }
            any_selected = true;
            placement.members.retain(|(node, _)| *node != member.node);
            placement.members.extend(part.map(|part| (member.node, part)));
            self.put_group(placement)?;
        }
        if !any_selected {
            return Err(no_such_group(group.unwrap_or_default()));
        }
        self.into_plan()
    }

    fn place(mut self, group: GroupId, members: &[(String, Part)]) -> Result<CallPlan> {
        let known = self.cluster.groups.iter().find(|known| known.group == group).cloned();
        let mut placement = known.ok_or_else(|| no_such_group(group))?;
        let mut placed = Vec::new();
        for (name, part) in members {
            let node = self.find_member(name)?.node;
            self.check_part(name, node, *part)?;
            if placed.iter().any(|(known, _)| *known == node) {
                let text = format!("`{name}` is listed twice among the members of group {group}");
                return Err(Error::new(Reason::Malformed, text));
            }
            placed.push((node, *part));
        }
        if group == GroupId(0) {
            let removed = |member: &&MemberDescription| {
                placed.iter().all(|(node, _)| *node != member.node)
                    && member.membership == Membership::Member
            };
            let mut removed = self.cluster.members.iter().filter(removed);
            removed.try_for_each(|member| self.check_stays_in_directory(member))?;
        }
        placement.members = placed;
        if placement.replicas > 0 {
            placement.replicas = placement.voters() as u32;
        }
        self.put_group(placement)?;
        self.into_plan()
    }
}

fn duplicate_name(name: &str) -> Error {
    let text = format!(
        "a member named `{name}` exists: replace it with `credenza cluster replace {name}`, or \
         start this node with another --name"
    );
    Error::new(Reason::AlreadyExists, text)
}

/// Returns the error of a group that does not exist.
pub fn no_such_group(group: GroupId) -> Error {
    let text = format!("no group {group}: `credenza group status` lists them");
    Error::new(Reason::NotFound, text)
}
