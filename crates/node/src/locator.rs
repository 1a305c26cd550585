//! Location of buckets: the bucket of a name, and the group of its rows.

use crate::group_ref::GroupRef;
use crate::groups::Groups;
use crate::peer_links::PeerLinks;
use base::bucket::no_such_bucket;
use base::{BucketName, Error, GroupId, NodeId, Reason, Result};
use metadata::catalog::Catalog;
use replication::bucket::Bucket;
use replication::group::Group;
use runtime::world;
use std::sync::Arc;

/// Finds buckets and their groups, here or on other nodes.
pub(crate) struct GroupLocator {
    pub groups: Arc<Groups>,
    pub catalog: Arc<Catalog>,
    pub links: Arc<PeerLinks>,
}

impl GroupLocator {
    /// Finds a consistent bucket.
    pub(crate) fn known_bucket(&self, name: &BucketName) -> Result<Arc<Bucket>> {
        self.catalog.find(name).ok_or_else(|| no_such_bucket(name))
    }

    /// Finds a bucket, and its group; `not_master` if this node has no part in that.
    pub(crate) fn bucket(&self, name: &BucketName) -> Result<(Arc<Bucket>, Arc<Group>)> {
        let bucket = self.known_bucket(name)?;
        let group = self.groups.get(bucket.group);
        let group = group.ok_or_else(|| Error::new(Reason::NotMaster, "None"))?;
        Ok((bucket, group))
    }

    /// Finds the group that decides about a bucket's rows.
    pub(crate) fn group_ref(&self, name: &BucketName) -> Result<GroupRef> {
        let bucket = self.known_bucket(name)?;
        Ok(self.whom_of(&bucket))
    }

    fn whom_of(&self, bucket: &Bucket) -> GroupRef {
        let known = self.groups.get(bucket.group);
        // Of a group it has left, or is only about to get a part in, this node hears nothing.
        // Of one that it only witnesses it has no rows.
        let here = |group: &Arc<Group>| {
            let standing = *group.leadership.standing().borrow();
            let hears = standing.master.is_some() && !standing.dismissed;
            (hears || group.leadership.has_part()) && !group.is_bare()
        };
        match known.filter(here) {
            Some(group) => GroupRef::Local(group),
            None => self.whom_away(bucket.group),
        }
    }

    /// Chooses the node to ask for a group without a part here.
    fn whom_away(&self, group: GroupId) -> GroupRef {
        let remote = self.groups.remote(group);
        if remote.target().is_none_or(|node| !self.links.is_linked(node)) {
            remote.set_target(self.linked_members(group).first().copied());
        }
        GroupRef::Remote(remote)
    }

    /// Looks again for the group of a request that began with this answer: it may have dismissed
    /// this node since.
    pub(crate) fn whom_now(&self, group_ref: &GroupRef) -> GroupRef {
        match group_ref {
            // Every node has a part in the directory, as long as it belongs to the cluster.
            GroupRef::Local(group)
                if group.id != GroupId::DIRECTORY
                    && group.leadership.standing().borrow().dismissed =>
            {
                self.whom_away(group.id)
            }
            group_ref => group_ref.clone(),
        }
    }

    /// Returns the members of a group that are connected, in the order of their ids.
    fn linked_members(&self, group: GroupId) -> Vec<NodeId> {
        let known = self.catalog.cluster();
        let Some(placement) = known.placement(group) else { return Vec::new() };
        let members = placement.members.iter().map(|(node, _)| *node);
        members.filter(|node| self.links.is_linked(*node)).collect()
    }

    /// Notes that a node did not answer for a group without a replica here; returns the node that
    /// it named instead, if that is to be asked at once.
    pub(crate) fn asked_in_vain(
        &self,
        group_ref: &GroupRef,
        asked: NodeId,
        error: &Error,
    ) -> Option<NodeId> {
        let GroupRef::Remote(remote) = group_ref else { return None };
        let named = (error.reason == Reason::NotMaster)
            .then(|| self.links.node_of(&error.text()))
            .flatten()
            .filter(|named| *named != asked && *named != self.links.node);
        let members = self.linked_members(group_ref.id());
        remote.on_failure(asked, named, &members, world::milliseconds())
    }
}
