//! References to groups, including groups without a replica here.
//!
//! The directory's rows name the members of such a group, and each of them knows its master. So one
//! of them is asked. One that is not master names the master, which is asked next, and remembered.
//!
//! Never: decides the master; the reference holds the node to ask.

use base::{GroupId, NodeId};
use replication::group::{Group, Leadership};
use std::sync::Arc;
use tokio::sync::watch;

/// A group without a part here.
pub(crate) struct RemoteGroup {
    id: GroupId,
    /// The one to ask stands in the master's place.
    ask: watch::Sender<Leadership>,
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
        RemoteGroup { id, ask: watch::Sender::new(Leadership::default()) }
    }

    /// Returns the node to ask.
    pub(crate) fn asked(&self) -> Option<NodeId> {
        self.ask.borrow().master
    }

    /// Sets the node that later requests go to.
    pub(crate) fn ask_next(&self, node: Option<NodeId>) {
        self.ask.send_if_modified(|standing| std::mem::replace(&mut standing.master, node) != node);
    }
}
