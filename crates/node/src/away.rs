//! Groups this node has no part in: who is asked for them.
//!
//! The directory's rows say who is wanted in such a group, and any of those knows its master. So
//! one of them is asked; one that is not master says who is, and that one is asked next, and
//! remembered.
//!
//! Never: says who is master; what stands here is where to ask.

use crate::Inner;
use base::{BucketName, Error, GroupId, NodeId, Reason, Result};
use replication::bucket::Bucket;
use replication::group::{Group, Leadership};
use std::sync::Arc;
use tokio::sync::watch;
use transport::Peers;

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

    fn asked(&self) -> Option<NodeId> {
        self.ask.borrow().master
    }

    fn ask_next(&self, node: Option<NodeId>) {
        self.ask.send_if_modified(|standing| std::mem::replace(&mut standing.master, node) != node);
    }
}

impl Inner {
    /// Who decides about a bucket's rows.
    pub(crate) fn whom(&self, name: &BucketName) -> Result<Whom> {
        let bucket = self.known_bucket(name)?;
        Ok(self.whom_of(&bucket))
    }

    fn whom_of(&self, bucket: &Bucket) -> Whom {
        let known = self.groups.get(bucket.group);
        // Of a group it has left, or is only about to get a part in, this node hears nothing.
        // Of one that it only witnesses it has no rows.
        let here = |group: &Arc<Group>| {
            let standing = *group.leadership.standing().borrow();
            let hears = standing.master.is_some() && !standing.dismissed;
            (hears || group.leadership.has_part()) && !group.is_bare()
        };
        match known.filter(here) {
            Some(group) => Whom::Here(group),
            None => self.whom_away(bucket.group),
        }
    }

    /// Who is asked for a group without a part here.
    fn whom_away(&self, group: GroupId) -> Whom {
        let away = self.groups.away(group);
        if away.asked().is_none_or(|node| !self.is_linked(node)) {
            away.ask_next(self.another_of(group, None));
        }
        Whom::Away(away)
    }

    /// Who decides about the rows of a group now, for a request that began with this answer: the
    /// group may have dismissed this node since.
    pub(crate) fn whom_now(&self, whom: &Whom) -> Whom {
        match whom {
            // Every node has a part in the directory, as long as it belongs to the cluster.
            Whom::Here(group)
                if group.id != GroupId::DIRECTORY
                    && group.leadership.standing().borrow().dismissed =>
            {
                self.whom_away(group.id)
            }
            whom => whom.clone(),
        }
    }

    /// Whether this node is kept up to date with a group: of one it has left it knows what was.
    pub(crate) fn keeps_up(&self, group: &Group) -> bool {
        group.id == GroupId::DIRECTORY || group.leadership.has_part()
    }

    /// Whether there is a connection to this other node.
    pub(crate) fn is_linked(&self, node: NodeId) -> bool {
        self.peers.get().is_some_and(|peers: &Peers| peers.linked(node))
    }

    /// A member of a group that may know its master: the one behind `last` in their round, of those
    /// that are connected.
    fn another_of(&self, group: GroupId, last: Option<NodeId>) -> Option<NodeId> {
        let known = self.catalog.cluster();
        let members = known.placement(group)?.members.iter().map(|(node, _)| *node);
        let linked: Vec<_> = members.filter(|node| self.is_linked(*node)).collect();
        let behind = linked.iter().find(|node| last.is_none_or(|last| **node > last));
        behind.or(linked.first()).copied()
    }

    /// Who was asked for a group away from here did not answer for it. Gives whom it named instead.
    pub(crate) fn asked_in_vain(
        &self,
        whom: &Whom,
        asked: NodeId,
        error: &Error,
    ) -> Option<NodeId> {
        let Whom::Away(away) = whom else { return None };
        let named = (error.reason == Reason::NotMaster)
            .then(|| self.node_of(&error.text()))
            .flatten()
            .filter(|named| *named != asked && *named != self.node);
        away.ask_next(named.or_else(|| self.another_of(away.id, Some(asked))));
        named
    }

    /// The member of this name.
    fn node_of(&self, name: &str) -> Option<NodeId> {
        let known = self.catalog.cluster();
        known.members.iter().find(|member| member.name == name).map(|member| member.node)
    }
}
