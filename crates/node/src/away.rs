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
pub(crate) struct Away {
    id: GroupId,
    /// The one to ask stands in the master's place.
    ask: watch::Sender<Leadership>,
}

/// Who decides about a bucket's rows.
#[derive(Clone)]
pub(crate) enum Whom {
    /// A group that this node has a part in.
    Here(Arc<Group>),
    /// Another.
    Away(Arc<Away>),
}

impl Whom {
    pub(crate) fn id(&self) -> GroupId {
        match self {
            Whom::Here(group) => group.id,
            Whom::Away(away) => away.id,
        }
    }

    /// Who is its master, or is to be asked for it, and every change of that.
    pub(crate) fn standing(&self) -> watch::Receiver<Leadership> {
        match self {
            Whom::Here(group) => group.leadership.standing(),
            Whom::Away(away) => away.ask.subscribe(),
        }
    }

    /// Whether this node is its master.
    pub(crate) fn is_led_here(&self) -> bool {
        match self {
            Whom::Here(group) => group.leadership.is_master(),
            Whom::Away(_) => false,
        }
    }
}

impl Away {
    pub(crate) fn new(id: GroupId) -> Away {
        Away { id, ask: watch::Sender::new(Leadership::default()) }
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
