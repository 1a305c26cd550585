//! Where a bucket lives: its group's members by name, and who of them is master.
//!
//! Doors whose clients look for the master themselves ask here. Nothing in it is agreed on: it is
//! what this node knows now, so it answers without a quorum.

use crate::Inner;
use base::{BucketName, LogIndex, NodeId, Result};
use std::sync::atomic::Ordering;

/// A bucket's group, as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// This node's name.
    pub me: String,
    /// The master's name, if one is known.
    pub master: Option<String>,
    /// What this node is to the group: `master`, `follower`, `candidate`.
    pub role: &'static str,
    /// The last value this node has applied.
    pub applied: LogIndex,
    /// Everyone who has a part in the group.
    pub members: Vec<Member>,
    /// Whether this node may be restarted without stopping the group.
    pub expect_progress_possible: bool,
}

/// One member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The last value it is known to have.
    pub index: LogIndex,
}

impl Inner {
    pub(crate) fn place(&self, bucket: &BucketName) -> Result<Place> {
        let (_, group) = self.bucket(bucket)?;
        let applied = group.applied.index();
        let state = group.state();
        let members = state.replica.configuration().members();
        let known = |node| if node == self.node { applied } else { LogIndex::default() };
        Ok(Place {
            me: self.name_of(self.node),
            master: state.replica.master().map(|node| self.name_of(node)),
            role: state.replica.role().word(),
            applied,
            members: members
                .iter()
                .map(|member| Member { name: self.name_of(member.node), index: known(member.node) })
                .collect(),
            // With one voter a restart always stops the group.
            expect_progress_possible: members.len() > 1,
        })
    }

    pub(crate) fn other_master(&self, bucket: &BucketName) -> Option<String> {
        let (_, group) = self.bucket(bucket).ok()?;
        if group.master.load(Ordering::Acquire) {
            return None;
        }
        let master = group.standing().borrow().master?;
        (master != self.node).then(|| self.name_of(master))
    }

    /// A node's name: its own as it was set, another's by its number.
    pub(crate) fn name_of(&self, node: NodeId) -> String {
        if node == self.node { self.settings.name.clone() } else { node.to_string() }
    }
}
