//! Location of a bucket: its group's members by name, and which of them is master.
//!
//! Front-ends whose clients look for the master themselves ask here. The answer is this node's own
//! view, so it needs no quorum.

use crate::locator::GroupLocator;
use crate::route::Router;
use base::limits::FORWARD_MS_MAX;
use base::{BucketName, Error, LogIndex, NodeId, Part, Reason, Result};
use logic::consensus::{Progress, Role};
use replica_host::GroupRef;
use replication::group::Group;
use std::time::Duration;
use tokio::time::timeout;

/// A bucket's group, as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlacement {
    /// Name of this node.
    pub node_name: String,
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

/// Maximum lag of a member that counts as near, in entries.
const NEAR_ENTRIES: u64 = 1_000;

impl Router {
    pub(crate) fn describe_placement(&self, bucket: &BucketName) -> Result<BucketPlacement> {
        let group_ref =
            self.locator.group_ref(bucket).map_err(|error| self.or_stale_directory(error))?;
        let group = match group_ref {
            GroupRef::Local(group) => group,
            remote => return Ok(self.describe_remote(&remote)),
        };
        let links = &self.locator.links;
        let applied = group.applied.index();
        let leadership = *group.leadership.subscribe().borrow();
        let saved_index = |progress: &Progress| match progress.saved {
            _ if progress.node == links.node => applied,
            saved => saved.unwrap_or_default(),
        };
        let member = |progress: &Progress| PlacedMember {
            name: links.name_of(progress.node),
            index: saved_index(progress),
        };
        Ok(BucketPlacement {
            node_name: links.name_of(links.node),
            master: leadership.master.map(|node| links.name_of(node)),
            role: leadership.role.unwrap_or(Role::Follower).name(),
            applied,
            members: group.progress().iter().map(member).collect(),
            expect_progress_possible: self.can_progress(&group),
        })
    }

    /// Describes a group without a replica here: its desired members, and the node that gets its
    /// requests.
    fn describe_remote(&self, remote: &GroupRef) -> BucketPlacement {
        let GroupLocator { catalog, links, .. } = &self.locator;
        let cluster = catalog.cluster();
        let placement = cluster.placement(remote.id());
        let members = placement.into_iter().flat_map(|placement| &placement.members);
        let member = |(node, _): &(NodeId, Part)| PlacedMember {
            name: links.name_of(*node),
            index: LogIndex(0),
        };
        let master = remote.watch_leadership().borrow().master;
        BucketPlacement {
            node_name: links.name_of(links.node),
            master: master.map(|node| links.name_of(node)),
            role: Role::Follower.name(),
            applied: LogIndex(0),
            members: members.map(member).collect(),
            expect_progress_possible: master.is_some(),
        }
    }

    /// Returns true if a group can make progress. Its master counts the near members. Another node
    /// checks that the master is connected, which could not be master without enough members.
    pub(crate) fn can_progress(&self, group: &Group) -> bool {
        if !group.leadership.is_master() {
            return self.readiness.is_master_reached(group);
        }
        let last = group.state().replica.last();
        let progress = group.progress();
        let voters = progress.iter().filter(|member| member.part.can_vote());
        let is_near = |member: &&Progress| {
            member.saved.is_some_and(|saved| saved.0.saturating_add(NEAR_ENTRIES) >= last.0)
        };
        voters.filter(is_near).count() >= group.configuration().quorums().save
    }

    pub(crate) fn other_master(&self, bucket: &BucketName) -> Option<String> {
        let links = &self.locator.links;
        let group_ref = self.locator.group_ref(bucket).ok()?;
        if group_ref.is_led_here() {
            return None;
        }
        let master = group_ref.watch_leadership().borrow().master?;
        (master != links.node).then(|| links.name_of(master))
    }

    /// Hands mastership of a bucket's group over to the nearest other voter, and waits for it. No
    /// effect if this node is not master.
    pub(crate) async fn drop_master(&self, bucket: &BucketName) -> Result<()> {
        let links = &self.locator.links;
        let group = match self.locator.group_ref(bucket)? {
            GroupRef::Local(group) if group.leadership.is_master() => group,
            _ => return Ok(()),
        };
        let progress = group.progress().into_iter();
        let candidates =
            progress.filter(|member| member.part.can_lead() && links.is_linked(member.node));
        let Some(successor) = candidates.max_by_key(|member| member.saved) else {
            let text = "no other voter that could be master is connected: start one";
            return Err(Error::new(Reason::NoQuorum, text));
        };
        let mut leadership = group.leadership.subscribe();
        group.hand_over(successor.node)?;
        let wait_max = Duration::from_millis(FORWARD_MS_MAX);
        let handed_over = leadership
            .wait_for(|leadership| leadership.master.is_some_and(|master| master != links.node));
        match timeout(wait_max, handed_over).await {
            Ok(_) => Ok(()),
            Err(_) => {
                let name = links.name_of(successor.node);
                let text = format!("{name} did not take over in time: this node stays master");
                Err(Error::new(Reason::NoQuorum, text))
            }
        }
    }
}
