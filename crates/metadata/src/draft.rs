//! Draft of a change of the cluster: the present state, the steps towards the next one, and the
//! rules that every change keeps.
//!
//! Every change counts up in the cluster's row and asserts that it saw the last one, so two changes
//! never mix.

use super::replacements::Replacements;
use super::rows::{
    CLUSTER, ClusterRow, assert, group_key, member_key, read_cluster, set, write_cluster,
    write_group, write_member,
};
use super::{CallPlan, Directory};
use base::limits::{GROUP_MEMBERS_MAX, GROUP_VOTERS_MAX};
use base::{
    Body, ClusterDescription, Error, MemberDescription, Membership, Part, Placement, Reason,
    Result, Update, Value,
};
use bytes::Bytes;

/// Draft of a change of the cluster, from its present state.
pub(super) struct Draft {
    pub row: ClusterRow,
    pub cluster_value: Value,
    pub cluster: ClusterDescription,
    pub steps: Vec<Update>,
    /// Changes of the ring that follow.
    pub replacements: Replacements,
    /// True if the cluster's row itself changes.
    pub row_changed: bool,
}

impl Directory {
    pub(super) fn draft(&self) -> Result<Draft> {
        let cluster_value = self.get(&Bytes::from_static(CLUSTER))?.ok_or_else(|| {
            Error::new(Reason::Starting, "the cluster is being founded: try again")
        })?;
        let row = read_cluster(&cluster_value)?;
        let (cluster, replacements) = (self.describe_cluster()?, self.replacements()?);
        Ok(Draft {
            row,
            cluster_value,
            cluster,
            steps: Vec::new(),
            replacements,
            row_changed: false,
        })
    }
}

impl Draft {
    pub(super) fn find_member(&self, name: &str) -> Result<MemberDescription> {
        let member = self.cluster.members.iter().find(|member| is_named(member, name));
        member.cloned().ok_or_else(|| no_such_member(name))
    }

    pub(super) fn put_member(&mut self, member: &MemberDescription) {
        self.steps.push(set(member_key(member.node), write_member(member)));
    }

    /// Replaces a placement, unless it is unchanged. A group always has a member that may lead it.
    pub(super) fn put_group(&mut self, mut placement: Placement) -> Result<()> {
        placement.members.sort_unstable();
        let Placement { group, members, .. } = &placement;
        if self.cluster.groups.contains(&placement) {
            return Ok(());
        }
        if !members.iter().any(|(_, part)| *part == Part::Voter) {
            let text = format!(
                "group {group} would have no voter: make another member one first \
                 (`credenza cluster promote NAME`)"
            );
            return Err(Error::new(Reason::Changed, text));
        }
        if 2 * placement.witnesses() > placement.voters() {
            return Err(too_many_witnesses(&placement));
        }
        let voters = placement.voters();
        if voters > GROUP_VOTERS_MAX || members.len() > GROUP_MEMBERS_MAX {
            let text = format!(
                "group {group} would have {voters} voters and {} members; at most \
                 {GROUP_VOTERS_MAX} and {GROUP_MEMBERS_MAX} are possible",
                members.len()
            );
            return Err(Error::new(Reason::TooMany, text));
        }
        self.steps.push(set(group_key(*group), write_group(&placement)));
        Ok(())
    }

    /// Returns the steps, if there are any, as one change.
    pub(super) fn into_plan(mut self) -> Result<CallPlan> {
        if self.steps.is_empty() && !self.row_changed {
            return Ok(CallPlan::Answer(Body::Done));
        }
        let key = Bytes::from_static(CLUSTER);
        let row = ClusterRow { changes: self.row.changes + 1, ..self.row };
        self.steps.insert(0, assert(&key, Some(self.cluster_value)));
        self.steps.push(set(key, write_cluster(&row)));
        Ok(CallPlan::Change(self.steps))
    }
}

/// Returns true if a member has this name. The name of a leaving member is free again.
pub(super) fn is_named(member: &MemberDescription, name: &str) -> bool {
    member.name == name && member.membership != Membership::Leaving
}

pub(super) fn no_such_member(name: &str) -> Error {
    let text = format!("no member `{name}`: `credenza cluster status` lists them");
    Error::new(Reason::NotFound, text)
}

pub(super) fn too_many_witnesses(placement: &Placement) -> Error {
    let text = format!(
        "group {} may have no more witnesses than voters that hold the data, so that every \
         majority holds it: add a voter first",
        placement.group
    );
    Error::new(Reason::Changed, text)
}
