//! The groups this node has a part in.

use crate::group_ref::RemoteGroup;
use base::{Error, GroupId, NodeId, Reason, Result};
use replication::bucket::Bucket;
use replication::group::Group;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// Time for which a node that answered one inquirer declines others, in milliseconds.
const EXCLUSIVE_MS: u64 = 1_000;

/// Groups by id. Groups are added while the node runs, and removed only when one is dropped.
#[derive(Default)]
pub struct Groups {
    all: RwLock<BTreeMap<GroupId, Arc<Group>>>,
    /// Groups without a replica here that a request has named.
    remote: RwLock<BTreeMap<GroupId, Arc<RemoteGroup>>>,
    /// True once the node stops: a group added later would never be stopped.
    closed: AtomicBool,
    /// Number of groups that started or stopped here; validates cached look-ups.
    changes: AtomicU64,
    /// Node that last asked for the number of led groups: it may be about to hand some over.
    pub inquirer: Mutex<Option<Inquirer>>,
}

/// Node that asked for the number of led groups and got an answer.
#[derive(Clone, Copy, Debug)]
pub struct Inquirer {
    /// The node.
    pub node: NodeId,
    /// Time of the answer, in milliseconds of this node's clock.
    pub answered_ms: u64,
}

impl Inquirer {
    /// Returns true while another node is declined because of this inquirer: two nodes that hand
    /// their groups over at once would overload this one. The same inquirer may repeat the call,
    /// because it counts what it handed over.
    pub fn excludes(&self, other: NodeId, now: u64) -> bool {
        self.node != other && now < self.answered_ms + EXCLUSIVE_MS
    }
}

/// A consistent bucket, and its group's replica on this node.
pub struct Local {
    /// The bucket.
    pub bucket: Arc<Bucket>,
    /// Replica of the bucket's group.
    pub group: Arc<Group>,
}

impl Groups {
    /// Creates the table with the groups that were recovered.
    pub fn new(groups: Vec<Arc<Group>>) -> Groups {
        let all = groups.into_iter().map(|group| (group.id, group)).collect();
        Groups { all: RwLock::new(all), ..Groups::default() }
    }

    /// Adds a group. False: it exists already, or the node stops; then it must not be driven.
    pub fn add(&self, group: Arc<Group>) -> bool {
        let mut all = self.all.write().expect("no one panics while holding it");
        let is_new = !self.closed.load(Ordering::Acquire) && !all.contains_key(&group.id);
        if is_new {
            all.insert(group.id, group);
            self.changes.fetch_add(1, Ordering::Release);
        }
        is_new
    }

    /// Removes a dropped group whose replica here has ended.
    pub fn remove(&self, id: GroupId) {
        let mut all = self.all.write().expect("no one panics while holding it");
        all.remove(&id);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Refuses to add groups from here on.
    pub fn close(&self) {
        let _all = self.all.write().expect("no one panics while holding it");
        self.closed.store(true, Ordering::Release);
    }

    /// Returns the number of groups that have started or stopped here.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns a group that has a replica here.
    #[inline]
    pub fn get(&self, id: GroupId) -> Option<Arc<Group>> {
        self.all.read().expect("no one panics while holding it").get(&id).cloned()
    }

    /// Returns a group that has a replica here, or the error `Moved`.
    #[inline]
    pub fn find(&self, id: GroupId) -> Result<Arc<Group>> {
        self.get(id).ok_or_else(|| {
            Error::new(Reason::Moved, format!("this node has no part in group {id}"))
        })
    }

    /// Returns a group without a replica here.
    pub fn remote(&self, id: GroupId) -> Arc<RemoteGroup> {
        let mut remote = self.remote.write().expect("no one panics while holding it");
        Arc::clone(remote.entry(id).or_insert_with(|| Arc::new(RemoteGroup::new(id))))
    }

    /// Returns all groups with a replica here, by id.
    pub fn all(&self) -> Vec<Arc<Group>> {
        self.all.read().expect("no one panics while holding it").values().cloned().collect()
    }
}

/// Returns true if this node follows a group. In a group that it has left its rows are outdated.
pub fn follows(group: &Group) -> bool {
    group.id == GroupId::DIRECTORY || group.leadership.is_member()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A master whose disk is full hands all its groups over in consecutive checks.
    #[test]
    fn last_inquirer_excludes_other_nodes_for_one_second() {
        let last = Inquirer { node: NodeId(1), answered_ms: 5_000 };
        assert!(!last.excludes(NodeId(1), 5_000) && !last.excludes(NodeId(1), 5_250));
        assert!(last.excludes(NodeId(2), 5_999) && !last.excludes(NodeId(2), 6_000));
    }
}
