//! Rules for witnesses among the members.
//!
//! A node that joined as a witness remains one, in every group of which it has a replica: it holds
//! no rows, and can't begin to. A node that holds rows never becomes a witness. In the directory a
//! witness holds the rows nevertheless, because every node needs them; its part there marks it as a
//! witness.
//!
//! Promises: every majority of a group holds the data at least once.

use super::draft::Draft;
use base::limits::{GROUP_MEMBERS_MAX, GROUP_VOTERS_MAX};
use base::{
    Error, GroupId, MemberDescription, Membership, NodeId, Part, Placement, Reason, Result,
};

impl Draft {
    /// Replaces `old` by `by` in every group, with the part that `by` can have. If `by` has a part
    /// there already, it keeps the greater one. The ring follows as soon as it can change.
    pub(super) fn replace_member(
        &mut self,
        old: &MemberDescription,
        by: NodeId,
        is_witness: bool,
    ) -> Result<()> {
        let keeps_data = self.register_replacement(old.node, by);
        for mut placement in self.cluster.groups.clone() {
            let mut parts = Vec::new();
            placement.members.retain(|(node, part)| {
                let either = *node == old.node || *node == by;
                if either {
                    parts.push(*part);
                }
                !either
            });
            let part = match parts.iter().min() {
                Some(Part::Learner) if !is_witness => Some(Part::Learner),
                Some(_) => Some(if is_witness { Part::Witness } else { Part::Voter }),
                None => None,
            };
            placement.members.extend(part.map(|part| (by, part)));
            let has_space = placement.members.len() < GROUP_MEMBERS_MAX;
            if keeps_data && has_space && placement.group == GroupId::DIRECTORY {
                placement.members.push((old.node, Part::Learner));
            }
            self.put_group(placement)?;
        }
        self.put_member(&MemberDescription { membership: Membership::Leaving, ..old.clone() });
        Ok(())
    }

    /// Checks that a witness gets no part with rows, and a node with rows does not become a
    /// witness.
    pub(super) fn check_part(&self, name: &str, node: NodeId, part: Part) -> Result<()> {
        let text = match (self.cluster.is_witness(node), part) {
            (true, Part::Witness) | (false, Part::Voter | Part::Learner) => return Ok(()),
            (true, _) => format!(
                "`{name}` is a witness and has no rows: its part must be `witness`. To store data, \
                 remove it (`credenza cluster remove {name}`) and let it join again with an empty \
                 directory"
            ),
            (false, _) => format!(
                "`{name}` has rows: only a node that joined as a witness can be one. Start a new \
                 node with `--join-as witness`"
            ),
        };
        Err(Error::new(Reason::NotSupported, text))
    }

    /// Refuses to take a witness out of group 0: its part there marks it as a witness.
    pub(super) fn check_stays_in_directory(&self, member: &MemberDescription) -> Result<()> {
        if !self.cluster.is_witness(member.node) {
            return Ok(());
        }
        let text = format!(
            "the witness `{}` must stay in group 0 while it is a member: choose another group",
            member.name
        );
        Err(Error::new(Reason::NotSupported, text))
    }
}

/// Returns the part of a joining node in a group. `None`: the group has enough voters.
pub(super) fn part_of_joiner(placement: &Placement, part: Part) -> Option<Part> {
    let voters = placement.voters();
    let fits = 2 * (placement.witnesses() + 1) <= voters + 1 && voters < GROUP_VOTERS_MAX;
    match placement.replicas as usize {
        _ if part == Part::Witness && !fits => None,
        0 if part.can_vote() && voters >= GROUP_VOTERS_MAX => Some(Part::Learner),
        0 => Some(part),
        desired => (part.can_vote() && voters < desired).then_some(part),
    }
}
