//! The groups this node has a part in.

use crate::consistent::group::Group;
use base::{Error, GroupId, Reason, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

/// Groups by id.
#[derive(Default)]
pub(crate) struct Groups {
    all: RwLock<BTreeMap<GroupId, Arc<Group>>>,
}

impl Groups {
    pub(crate) fn new(groups: Vec<Arc<Group>>) -> Groups {
        Groups { all: RwLock::new(groups.into_iter().map(|group| (group.id, group)).collect()) }
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

    /// All of them, by their id.
    pub(crate) fn all(&self) -> Vec<Arc<Group>> {
        self.all.read().expect("no one panics while holding it").values().cloned().collect()
    }
}
