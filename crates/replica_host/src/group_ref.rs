//! References to groups, with or without a replica on this node.
//!
//! The metadata rows name the intended members of a group without a replica here, and most of them
//! know its master. One of them is asked; one that is not master names the master, which is
//! asked next, and remembered.
//!
//! Promises: a search comes to every member that is reached, whatever the others name.
//! Never: says who is master; it says which node to ask.

use base::{GroupId, NodeId};
use replication::group::{Group, Leadership};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// Time after which a search for a master starts over, in milliseconds: a member that failed before
/// may lead by then.
const SEARCH_MS: u64 = 1_000;

/// A group without a replica here.
pub struct RemoteGroup {
    id: GroupId,
    /// Leadership with the node to call in the master's place.
    target: watch::Sender<Leadership>,
    search: Mutex<MasterSearch>,
}

/// Search for the master of a group among its members.
#[derive(Default)]
struct MasterSearch {
    /// Time at which it began, in this node's milliseconds.
    began_ms: u64,
    /// Members that failed since.
    failed: BTreeSet<NodeId>,
}

/// Reference to the group that stores a bucket's rows.
#[derive(Clone)]
pub enum GroupRef {
    /// A group that has a replica on this node.
    Local(Arc<Group>),
    /// A group that has none.
    Remote(Arc<RemoteGroup>),
}

impl GroupRef {
    /// Returns the number of the group.
    pub fn id(&self) -> GroupId {
        match self {
            GroupRef::Local(group) => group.id,
            GroupRef::Remote(remote) => remote.id,
        }
    }

    /// Returns the leadership as a watch: the master, or the node to call.
    pub fn watch_leadership(&self) -> watch::Receiver<Leadership> {
        match self {
            GroupRef::Local(group) => group.leadership.subscribe(),
            GroupRef::Remote(remote) => remote.target.subscribe(),
        }
    }

    /// Returns true if this node is its master.
    pub fn is_led_here(&self) -> bool {
        match self {
            GroupRef::Local(group) => group.leadership.is_master(),
            GroupRef::Remote(_) => false,
        }
    }
}

impl RemoteGroup {
    /// Returns the group without a node to call.
    pub fn new(id: GroupId) -> RemoteGroup {
        let target = watch::Sender::new(Leadership::default());
        RemoteGroup { id, target, search: Mutex::default() }
    }

    /// Returns the node to call.
    pub fn target(&self) -> Option<NodeId> {
        self.target.borrow().master
    }

    /// Sets the node to which later requests are sent.
    pub fn set_target(&self, node: Option<NodeId>) {
        self.target
            .send_if_modified(|leadership| std::mem::replace(&mut leadership.master, node) != node);
    }

    /// Records that a node failed: later requests go to the node that it named as master, or to the
    /// next of these connected members. Returns the named node if it should be tried at once.
    ///
    /// A member is tried once in a search. Two former members that name each other would otherwise
    /// keep requests from the present master.
    pub fn on_failure(
        &self,
        target: NodeId,
        hint: Option<NodeId>,
        members: &[NodeId],
        now_ms: u64,
    ) -> Option<NodeId> {
        let mut search = self.search.lock().expect("no one panics while holding it");
        if now_ms >= search.began_ms + SEARCH_MS {
            *search = MasterSearch { began_ms: now_ms, failed: BTreeSet::new() };
        }
        search.failed.insert(target);
        let hint = hint.filter(|hint| !search.failed.contains(hint));
        // Another request may have failed at the same node and changed the target already, perhaps
        // to the master: a late failure must not change it back.
        if self.target() != Some(target) {
            return hint.filter(|hint| self.target() == Some(*hint));
        }
        let next = hint.or_else(|| search.next(target, members));
        self.set_target(next);
        hint
    }
}

impl MasterSearch {
    /// Returns the member to try after this one; starts over when all failed.
    fn next(&mut self, target: NodeId, members: &[NodeId]) -> Option<NodeId> {
        if members.iter().all(|member| self.failed.contains(member)) {
            self.failed = BTreeSet::from([target]);
        }
        let (before, after): (Vec<_>, Vec<_>) = members.iter().partition(|node| **node <= target);
        let untried = |member: &&&NodeId| !self.failed.contains(member);
        let next = after.iter().chain(&before).find(untried).map(|member| **member);
        next.or(members.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

    fn with_target(node: u64) -> RemoteGroup {
        let group = RemoteGroup::new(GroupId(2));
        group.set_target(Some(NodeId(node)));
        group
    }

    #[test]
    fn circular_master_hints_lead_to_remaining_member() {
        let group = with_target(1);
        assert_eq!(group.on_failure(NodeId(1), Some(NodeId(2)), &MEMBERS, 5_000), Some(NodeId(2)));
        assert_eq!(group.on_failure(NodeId(2), Some(NodeId(1)), &MEMBERS, 5_001), None);
        assert_eq!(group.target(), Some(NodeId(3)));
    }

    #[test]
    fn late_failure_of_previous_target_keeps_current_target() {
        let group = with_target(1);
        assert_eq!(group.on_failure(NodeId(1), Some(NodeId(3)), &MEMBERS, 5_000), Some(NodeId(3)));
        assert_eq!(group.on_failure(NodeId(1), Some(NodeId(2)), &MEMBERS, 5_002), None);
        assert_eq!(group.on_failure(NodeId(1), Some(NodeId(3)), &MEMBERS, 5_003), Some(NodeId(3)));
        assert_eq!(group.target(), Some(NodeId(3)));
    }

    #[test]
    fn master_search_visits_all_members_then_restarts() {
        let group = with_target(2);
        let mut visited = Vec::new();
        for turn in 0..7 {
            let target = group.target().expect("there are members");
            visited.push(target.0);
            assert_eq!(group.on_failure(target, None, &MEMBERS, 5_000 + turn), None);
        }
        assert_eq!(visited, [2, 3, 1, 2, 3, 1, 2]);
    }

    #[test]
    fn failed_member_is_retried_in_a_later_search() {
        let group = with_target(1);
        assert_eq!(group.on_failure(NodeId(1), None, &MEMBERS, 5_000), None);
        let hint = group.on_failure(NodeId(2), Some(NodeId(1)), &MEMBERS, 5_000 + SEARCH_MS);
        assert_eq!((hint, group.target()), (Some(NodeId(1)), Some(NodeId(1))));
    }

    #[test]
    fn group_ref_without_reached_members_has_no_target() {
        let group = with_target(1);
        assert_eq!(group.on_failure(NodeId(1), None, &[], 5_000), None);
        assert_eq!(group.target(), None);
    }
}
