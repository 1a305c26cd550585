//! Location of buckets: the bucket of a name, and the group of its rows.

use base::bucket::no_such_bucket;
use base::{BucketName, Error, GroupId, NodeId, Reason, Result};
use metadata::catalog::Catalog;
use replica_host::{GroupRef, Groups, PeerLinks};
use replication::bucket::Bucket;
use replication::group::Group;
use runtime::world;
use std::sync::Arc;

/// Look-up of buckets and their groups, here or on other nodes.
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

    /// Finds a bucket and its group. `NotMaster` if the group has no replica here.
    pub(crate) fn bucket(&self, name: &BucketName) -> Result<(Arc<Bucket>, Arc<Group>)> {
        let bucket = self.known_bucket(name)?;
        let group = self.group(&bucket)?;
        Ok((bucket, group))
    }

    /// Returns the group of a bucket. `NotMaster` if it has no replica here.
    pub(crate) fn group(&self, bucket: &Bucket) -> Result<Arc<Group>> {
        let group = self.groups.get(bucket.group);
        group.ok_or_else(|| Error::new(Reason::NotMaster, "None"))
    }

    /// Finds the group that stores a bucket's rows.
    pub(crate) fn group_ref(&self, name: &BucketName) -> Result<GroupRef> {
        let bucket = self.known_bucket(name)?;
        Ok(self.group_ref_of(&bucket))
    }

    fn group_ref_of(&self, bucket: &Bucket) -> GroupRef {
        let local = self.groups.get(bucket.group);
        // A replica that has left the group, or is about to join it, gets no messages; a witness
        // has no rows.
        let is_local = |group: &Arc<Group>| {
            let leadership = *group.leadership.subscribe().borrow();
            let has_master = leadership.master.is_some() && !leadership.is_removed;
            (has_master || group.leadership.is_member()) && !group.is_witness_replica()
        };
        match local.filter(is_local) {
            Some(group) => GroupRef::Local(group),
            None => self.remote_ref(bucket.group),
        }
    }

    /// Chooses the node to call for a group without a replica here.
    fn remote_ref(&self, group: GroupId) -> GroupRef {
        let remote = self.groups.remote(group);
        if remote.target().is_none_or(|node| !self.links.is_linked(node)) {
            remote.set_target(self.linked_members(group).first().copied());
        }
        GroupRef::Remote(remote)
    }

    /// Returns the reference again, or a remote one if the group has dismissed this node since.
    pub(crate) fn refreshed(&self, group_ref: &GroupRef) -> GroupRef {
        match group_ref {
            // Every member has a part in the directory.
            GroupRef::Local(group)
                if group.id != GroupId::DIRECTORY
                    && group.leadership.subscribe().borrow().is_removed =>
            {
                self.remote_ref(group.id)
            }
            group_ref => group_ref.clone(),
        }
    }

    /// Returns the connected members of a group, by id.
    fn linked_members(&self, group: GroupId) -> Vec<NodeId> {
        let cluster = self.catalog.cluster();
        let Some(placement) = cluster.placement(group) else { return Vec::new() };
        let members = placement.members.iter().map(|(node, _)| *node);
        members.filter(|node| self.links.is_linked(*node)).collect()
    }

    /// Records that a node failed for a group without a replica here. Returns the node that it
    /// named instead, if that should be tried at once.
    pub(crate) fn on_call_failure(
        &self,
        group_ref: &GroupRef,
        target: NodeId,
        error: &Error,
    ) -> Option<NodeId> {
        let GroupRef::Remote(remote) = group_ref else { return None };
        let hint = (error.reason == Reason::NotMaster)
            .then(|| self.links.node_of(&error.text()))
            .flatten()
            .filter(|hint| *hint != target && *hint != self.links.node);
        let members = self.linked_members(group_ref.id());
        remote.on_failure(target, hint, &members, world::milliseconds())
    }
}
