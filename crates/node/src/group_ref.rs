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

/// Time after which a search for a master begins anew, milliseconds: a member that was asked in
/// vain may lead by then.
const SEARCH_MS: u64 = 1_000;

/// A group without a replica here.
pub(crate) struct RemoteGroup {
    id: GroupId,
    /// The node to ask stands in the master's place.
    ask: watch::Sender<Leadership>,
    search: Mutex<MasterSearch>,
}

/// Search for the master of a group among its members.
#[derive(Default)]
struct MasterSearch {
    /// Time at which it began, in this node's milliseconds.
    began_ms: u64,
    /// Members that were asked in vain since.
    failed: BTreeSet<NodeId>,
}

/// Reference to the group that keeps a bucket's rows.
#[derive(Clone)]
pub(crate) enum GroupRef {
    /// A group that has a replica on this node.
    Local(Arc<Group>),
    /// A group that has none.
    Remote(Arc<RemoteGroup>),
}

impl GroupRef {
    pub(crate) fn id(&self) -> GroupId {
        match self {
            GroupRef::Local(group) => group.id,
            GroupRef::Remote(remote) => remote.id,
        }
    }

    /// Returns its leadership and every change of it: the master, or the node to ask.
    pub(crate) fn standing(&self) -> watch::Receiver<Leadership> {
        match self {
            GroupRef::Local(group) => group.leadership.standing(),
            GroupRef::Remote(remote) => remote.ask.subscribe(),
        }
    }

    /// Returns true if this node is its master.
    pub(crate) fn is_led_here(&self) -> bool {
        match self {
            GroupRef::Local(group) => group.leadership.is_master(),
            GroupRef::Remote(_) => false,
        }
    }
}

impl RemoteGroup {
    pub(crate) fn new(id: GroupId) -> RemoteGroup {
        let ask = watch::Sender::new(Leadership::default());
        RemoteGroup { id, ask, search: Mutex::default() }
    }

    /// Returns the node that is to be asked.
    pub(crate) fn target(&self) -> Option<NodeId> {
        self.ask.borrow().master
    }

    /// Sends later requests to this node.
    pub(crate) fn set_target(&self, node: Option<NodeId>) {
        self.ask.send_if_modified(|standing| std::mem::replace(&mut standing.master, node) != node);
    }

    /// Notes that a node was asked in vain: later requests go to the node that it named as master,
    /// or to the next of these members, which are reached. Returns the named node, if it is worth
    /// asking at once.
    ///
    /// A member is asked once in a search. Two that name each other, as those do that hear nothing
    /// of the group any more, would otherwise keep requests from the one that leads.
    pub(crate) fn on_failure(
        &self,
        asked: NodeId,
        named: Option<NodeId>,
        members: &[NodeId],
        now_ms: u64,
    ) -> Option<NodeId> {
        let mut search = self.search.lock().expect("no one panics while holding it");
        if now_ms >= search.began_ms + SEARCH_MS {
            *search = MasterSearch { began_ms: now_ms, failed: BTreeSet::new() };
        }
        search.failed.insert(asked);
        let named = named.filter(|named| !search.failed.contains(named));
        // Others may have asked the same node, and the first of them has moved on already: perhaps
        // to the master, from which an answer that comes late must not lead away.
        if self.target() != Some(asked) {
            return named.filter(|named| self.target() == Some(*named));
        }
        let next = named.or_else(|| search.next(asked, members));
        self.set_target(next);
        named
    }
}

impl MasterSearch {
    /// Returns the member to ask after this one; begins anew when all were asked.
    fn next(&mut self, asked: NodeId, members: &[NodeId]) -> Option<NodeId> {
        if members.iter().all(|member| self.failed.contains(member)) {
            self.failed = BTreeSet::from([asked]);
        }
        let (before, behind): (Vec<_>, Vec<_>) = members.iter().partition(|node| **node <= asked);
        let untried = |member: &&&NodeId| !self.failed.contains(member);
        let next = behind.iter().chain(&before).find(untried).map(|member| **member);
        next.or(members.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

    fn asking(node: u64) -> RemoteGroup {
        let group = RemoteGroup::new(GroupId(2));
        group.set_target(Some(NodeId(node)));
        group
    }

    #[test]
    fn members_that_name_each_other_do_not_hide_the_master() {
        let group = asking(1);
        assert_eq!(group.on_failure(NodeId(1), Some(NodeId(2)), &MEMBERS, 5_000), Some(NodeId(2)));
        assert_eq!(group.on_failure(NodeId(2), Some(NodeId(1)), &MEMBERS, 5_001), None);
        assert_eq!(group.target(), Some(NodeId(3)));
    }

    #[test]
    fn a_failure_that_comes_late_leaves_the_target_where_it_is() {
        let group = asking(1);
        assert_eq!(group.on_failure(NodeId(1), Some(NodeId(3)), &MEMBERS, 5_000), Some(NodeId(3)));
        assert_eq!(group.on_failure(NodeId(1), Some(NodeId(2)), &MEMBERS, 5_002), None);
        assert_eq!(group.on_failure(NodeId(1), Some(NodeId(3)), &MEMBERS, 5_003), Some(NodeId(3)));
        assert_eq!(group.target(), Some(NodeId(3)));
    }

    #[test]
    fn a_search_comes_to_all_members_and_then_begins_anew() {
        let group = asking(2);
        let mut asked = Vec::new();
        for turn in 0..7 {
            let target = group.target().expect("there are members");
            asked.push(target.0);
            assert_eq!(group.on_failure(target, None, &MEMBERS, 5_000 + turn), None);
        }
        assert_eq!(asked, [2, 3, 1, 2, 3, 1, 2]);
    }

    #[test]
    fn a_member_that_failed_is_asked_again_in_a_later_search() {
        let group = asking(1);
        assert_eq!(group.on_failure(NodeId(1), None, &MEMBERS, 5_000), None);
        let named = group.on_failure(NodeId(2), Some(NodeId(1)), &MEMBERS, 5_000 + SEARCH_MS);
        assert_eq!((named, group.target()), (Some(NodeId(1)), Some(NodeId(1))));
    }

    #[test]
    fn without_a_reached_member_there_is_nobody_to_ask() {
        let group = asking(1);
        assert_eq!(group.on_failure(NodeId(1), None, &[], 5_000), None);
        assert_eq!(group.target(), None);
    }
}
