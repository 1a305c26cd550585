//! Location of a bucket: its group's members by name, and which of them is master.
//!
//! Front-ends whose clients look for the master themselves ask here. The answer is this node's own
//! view, so it needs no quorum.

use crate::group_ref::GroupRef;
use crate::locator::GroupLocator;
use crate::route::Router;
use base::limits::FORWARD_MS_MAX;
use base::{BucketName, Error, LogIndex, NodeId, Part, Reason, Result};
use logic::consensus::{Progress, Role};
use replication::group::Group;
use std::time::Duration;
use tokio::time::timeout;

/// A bucket's group, as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlacement {
    /// Name of this node.
    pub me: String,
    /// Name of the master, if one is known.
    pub master: Option<String>,
    /// Role of this node in the group: `master`, `follower`, `candidate`.
    pub role: &'static str,
    /// Index of the last entry that this node has applied.
    pub applied: LogIndex,
    /// Members of the group.
    pub members: Vec<PlacedMember>,
    /// True if enough members are connected, and near, for the group to go on (Arakoon's word).
    pub expect_progress_possible: bool,
}

/// One member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedMember {
    /// Its name.
    pub name: String,
    /// The last value it is known to have.
    pub index: LogIndex,
}

/// A member that lacks no more values than this is near.
const NEAR: u64 = 1_000;

impl Router {
    pub(crate) fn place(&self, bucket: &BucketName) -> Result<BucketPlacement> {
        let group_ref =
            self.locator.group_ref(bucket).map_err(|error| self.unless_unheard(error))?;
        let group = match group_ref {
            GroupRef::Local(group) => group,
            remote => return Ok(self.place_away(&remote)),
        };
        let links = &self.locator.links;
        let applied = group.applied.index();
        let standing = *group.leadership.standing().borrow();
        let known = |progress: &Progress| match progress.saved {
            _ if progress.node == links.node => applied,
            saved => saved.unwrap_or_default(),
        };
        let member = |progress: &Progress| PlacedMember {
            name: links.name_of(progress.node),
            index: known(progress),
        };
        Ok(BucketPlacement {
            me: links.name_of(links.node),
            master: standing.master.map(|node| links.name_of(node)),
            role: standing.role.unwrap_or(Role::Follower).word(),
            applied,
            members: group.progress().iter().map(member).collect(),
            expect_progress_possible: self.goes_on(&group),
        })
    }

    /// Describes a group without a replica here: its desired members, and the node that is asked
    /// for it.
    fn place_away(&self, remote: &GroupRef) -> BucketPlacement {
        let GroupLocator { catalog, links, .. } = &self.locator;
        let known = catalog.cluster();
        let place = known.placement(remote.id());
        let members = place.into_iter().flat_map(|placement| &placement.members);
        let member = |(node, _): &(NodeId, Part)| PlacedMember {
            name: links.name_of(*node),
            index: LogIndex(0),
        };
        let master = remote.standing().borrow().master;
        BucketPlacement {
            me: links.name_of(links.node),
            master: master.map(|node| links.name_of(node)),
            role: Role::Follower.word(),
            applied: LogIndex(0),
            members: members.map(member).collect(),
            expect_progress_possible: master.is_some(),
        }
    }

    /// Returns true if a group can go on. Its master counts the members that are near. Another node
    /// checks that the master is connected, which would not be master without enough of them.
    pub(crate) fn goes_on(&self, group: &Group) -> bool {
        if !group.leadership.is_master() {
            return self.readiness.reaches_master(group);
        }
        let last = group.state().replica.last();
        let progress = group.progress();
        let voters = progress.iter().filter(|member| member.part.votes());
        let near = |member: &&Progress| {
            member.saved.is_some_and(|saved| saved.0.saturating_add(NEAR) >= last.0)
        };
        voters.filter(near).count() >= group.configuration().quorums().save
    }

    pub(crate) fn other_master(&self, bucket: &BucketName) -> Option<String> {
        let links = &self.locator.links;
        let group_ref = self.locator.group_ref(bucket).ok()?;
        if group_ref.is_led_here() {
            return None;
        }
        let master = group_ref.standing().borrow().master?;
        (master != links.node).then(|| links.name_of(master))
    }

    /// Gives mastership of a bucket's group to the nearest other voter, and waits until it has it.
    /// A node that is not master has none to give.
    pub(crate) async fn drop_master(&self, bucket: &BucketName) -> Result<()> {
        let links = &self.locator.links;
        let group = match self.locator.group_ref(bucket)? {
            GroupRef::Local(group) if group.leadership.is_master() => group,
            _ => return Ok(()),
        };
        let progress = group.progress().into_iter();
        let heirs = progress.filter(|member| member.part.leads() && links.is_linked(member.node));
        let Some(heir) = heirs.max_by_key(|member| member.saved) else {
            let text = "no other voter is connected that could be master: start one";
            return Err(Error::new(Reason::NoQuorum, text));
        };
        let mut standing = group.leadership.standing();
        group.hand_over(heir.node)?;
        let within = Duration::from_millis(FORWARD_MS_MAX);
        let moved = standing
            .wait_for(|standing| standing.master.is_some_and(|master| master != links.node));
        match timeout(within, moved).await {
            Ok(_) => Ok(()),
            Err(_) => {
                let name = links.name_of(heir.node);
                let text = format!("{name} did not take over in time: this node stays master");
                Err(Error::new(Reason::NoQuorum, text))
            }
        }
    }
}
