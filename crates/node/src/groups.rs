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
    /// Groups that have no replica here, once a request named them.
    remote: RwLock<BTreeMap<GroupId, Arc<RemoteGroup>>>,
    /// True once the node stops: nothing would wait for a group that begins then.
    closed: AtomicBool,
    /// Number of groups that began or ended here; a holder of a group compares it.
    changes: AtomicU64,
    /// Node that last asked how many groups this one leads: it may hand some over.
    pub inquirer: Mutex<Option<Inquirer>>,
}

/// A node that asked how many groups this one leads, and was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inquirer {
    pub node: NodeId,
    /// Milliseconds of this node's clock.
    pub at: u64,
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

    /// One more. `false`: it is here already, or the node stops; then it must not be driven.
    pub(crate) fn add(&self, group: Arc<Group>) -> bool {
        let mut all = self.all.write().expect("no one panics while holding it");
        let fits = !self.closed.load(Ordering::Acquire) && !all.contains_key(&group.id);
        if fits {
            all.insert(group.id, group);
            self.changes.fetch_add(1, Ordering::Release);
        }
        fits
    }

    /// Removes a dropped group whose replica here has ended.
    pub(crate) fn remove(&self, id: GroupId) {
        let mut all = self.all.write().expect("no one panics while holding it");
        all.remove(&id);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// No group begins from here on.
    pub(crate) fn close(&self) {
        let _all = self.all.write().expect("no one panics while holding it");
        self.closed.store(true, Ordering::Release);
    }

    /// Number of groups that have begun or ended here so far.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// One of them.
    #[inline]
    pub(crate) fn get(&self, id: GroupId) -> Option<Arc<Group>> {
        self.all.read().expect("no one panics while holding it").get(&id).cloned()
    }

    /// One that must be there, or why the request can't be served here.
    #[inline]
    pub(crate) fn find(&self, id: GroupId) -> Result<Arc<Group>> {
        self.get(id).ok_or_else(|| {
            Error::new(Reason::Moved, format!("this node has no part in group {id}"))
        })
    }

    /// One that is remote from here.
    pub(crate) fn remote(&self, id: GroupId) -> Arc<RemoteGroup> {
        let mut remote = self.remote.write().expect("no one panics while holding it");
        Arc::clone(remote.entry(id).or_insert_with(|| Arc::new(RemoteGroup::new(id))))
    }

    /// All of them, by their id.
    pub(crate) fn all(&self) -> Vec<Arc<Group>> {
        self.all.read().expect("no one panics while holding it").values().cloned().collect()
    }
}

/// Returns true if this node follows a group. Of a group that it has left it has outdated rows.
pub(crate) fn keeps_up(group: &Group) -> bool {
    group.id == GroupId::DIRECTORY || group.leadership.has_part()
}
