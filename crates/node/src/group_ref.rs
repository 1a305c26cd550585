//! Groups this node has no part in: who is asked for them.
//!
//! The directory's rows say who is wanted in such a group, and any of those knows its master. So
//! one of them is asked; one that is not master says who is, and that one is asked next, and
//! remembered.
//!
//! Never: says who is master; what stands here is where to ask.

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

/// Who decides about a bucket's rows.
#[derive(Clone)]
pub(crate) enum GroupRef {
    /// A group that this node has a part in.
    Local(Arc<Group>),
    /// Another.
    Remote(Arc<RemoteGroup>),
}

impl GroupRef {
    pub(crate) fn id(&self) -> GroupId {
        match self {
            GroupRef::Local(group) => group.id,
            GroupRef::Remote(remote) => remote.id,
        }
    }

    /// Who is its master, or is to be asked for it, and every change of that.
    pub(crate) fn standing(&self) -> watch::Receiver<Leadership> {
        match self {
            GroupRef::Local(group) => group.leadership.standing(),
            GroupRef::Remote(remote) => remote.ask.subscribe(),
        }
    }

    /// Whether this node is its master.
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

    /// The node that is to be asked.
    pub(crate) fn asked(&self) -> Option<NodeId> {
        self.ask.borrow().master
    }

    /// Has later requests go to this node.
    pub(crate) fn ask_next(&self, node: Option<NodeId>) {
        self.ask.send_if_modified(|standing| std::mem::replace(&mut standing.master, node) != node);
    }
}
