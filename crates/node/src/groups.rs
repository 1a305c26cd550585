//! The groups this node has a part in.

use crate::group_ref::RemoteGroup;
use base::{Error, GroupId, NodeId, Reason, Result};
use replication::bucket::Bucket;
use replication::group::Group;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// Groups by id. Groups are added while the node runs, and removed only when one is dropped.
#[derive(Default)]
pub(crate) struct Groups {
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
pub(crate) struct Inquirer {
    pub node: NodeId,
    /// Time of the answer, in milliseconds of this node's clock.
    pub answered_ms: u64,
}

/// A consistent bucket, and its group's replica on this node.
pub(crate) struct Local {
    pub bucket: Arc<Bucket>,
    pub group: Arc<Group>,
}

impl Groups {
    pub(crate) fn new(groups: Vec<Arc<Group>>) -> Groups {
        let all = groups.into_iter().map(|group| (group.id, group)).collect();
        Groups { all: RwLock::new(all), ..Groups::default() }
    }

    /// Adds a group. False: it exists already, or the node stops; then it must not be driven.
    pub(crate) fn add(&self, group: Arc<Group>) -> bool {
        let mut all = self.all.write().expect("no one panics while holding it");
        let is_new = !self.closed.load(Ordering::Acquire) && !all.contains_key(&group.id);
        if is_new {
            all.insert(group.id, group);
            self.changes.fetch_add(1, Ordering::Release);
        }
        is_new
    }

    /// Removes a dropped group whose replica here has ended.
    pub(crate) fn remove(&self, id: GroupId) {
        let mut all = self.all.write().expect("no one panics while holding it");
        all.remove(&id);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Refuses to add groups from here on.
    pub(crate) fn close(&self) {
        let _all = self.all.write().expect("no one panics while holding it");
        self.closed.store(true, Ordering::Release);
    }

    /// Returns the number of groups that have started or stopped here.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns a group that has a replica here.
    #[inline]
    pub(crate) fn get(&self, id: GroupId) -> Option<Arc<Group>> {
        self.all.read().expect("no one panics while holding it").get(&id).cloned()
    }

    /// Returns a group that has a replica here, or the error `Moved`.
    #[inline]
    pub(crate) fn find(&self, id: GroupId) -> Result<Arc<Group>> {
        self.get(id).ok_or_else(|| {
            Error::new(Reason::Moved, format!("this node has no part in group {id}"))
        })
    }

    /// Returns a group without a replica here.
    pub(crate) fn remote(&self, id: GroupId) -> Arc<RemoteGroup> {
        let mut remote = self.remote.write().expect("no one panics while holding it");
        Arc::clone(remote.entry(id).or_insert_with(|| Arc::new(RemoteGroup::new(id))))
    }

    /// Returns all groups with a replica here, by id.
    pub(crate) fn all(&self) -> Vec<Arc<Group>> {
        self.all.read().expect("no one panics while holding it").values().cloned().collect()
    }
}

/// Returns true if this node follows a group. In a group that it has left its rows are outdated.
pub(crate) fn follows(group: &Group) -> bool {
    group.id == GroupId::DIRECTORY || group.leadership.is_member()
}
