//! Target of a move: sends requests to the master of a group, which may be this node, or one of a
//! group without a replica here.

use super::message::{MoveAnswer, MoveQuestion};
use super::{BucketMoves, intake};
use base::codec::Malformed;
use base::{Error, GroupId, NodeId, Reason, Result};
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a question, before it is repeated.
const WITHIN: Duration = Duration::from_secs(5);

pub(super) struct MoveTarget {
    moves: Arc<BucketMoves>,
    group: GroupId,
    /// Master, as another node reported it.
    told: Option<NodeId>,
    /// Number of members that were asked in vain.
    missed: usize,
}

impl MoveTarget {
    pub(super) fn new(moves: Arc<BucketMoves>, group: GroupId) -> MoveTarget {
        MoveTarget { moves, group, told: None, missed: 0 }
    }

    /// Asks once. A node that is not master names the master, which is asked next time.
    pub(super) async fn ask(&mut self, question: MoveQuestion) -> Result<MoveAnswer> {
        let node = self.group_ref()?;
        let asked = if node == self.moves.links.node {
            Ok(intake::answer(&self.moves, self.group, question).await)
        } else {
            self.ask_other(node, &question).await
        };
        match &asked {
            Ok(MoveAnswer::NotMaster { master }) => {
                self.missed += 1;
                self.told = *master;
            }
            Err(_) => {
                self.missed += 1;
                self.told = None;
            }
            Ok(_) => self.told = Some(node),
        }
        asked
    }

    async fn ask_other(&self, node: NodeId, question: &MoveQuestion) -> Result<MoveAnswer> {
        let Some(peers) = self.moves.links.peers.get() else { return Err(self.nobody()) };
        let bytes = peers.ask(node, self.group, question.write(), WITHIN).await?;
        MoveAnswer::read(&bytes).map_err(|Malformed(field)| {
            let text = format!("node {node} answered what this node can't read: {field}");
            Error::new(Reason::NotSupported, text)
        })
    }

    /// Returns the master, or a member that may know it.
    fn group_ref(&self) -> Result<NodeId> {
        let here = self.moves.groups.get(self.group);
        if let Some(master) = here.and_then(|group| group.leadership.standing().borrow().master) {
            return Ok(master);
        }
        if let Some(told) = self.told {
            return Ok(told);
        }
        let known = self.moves.directory.catalog.cluster();
        let placement = known.placement(self.group);
        let members = placement.map(|placement| &placement.members[..]).unwrap_or_default();
        let others: Vec<_> = members
            .iter()
            .map(|(node, _)| *node)
            .filter(|node| *node != self.moves.links.node)
            .collect();
        match others.len() {
            0 => Err(self.nobody()),
            count => Ok(others[self.missed % count]),
        }
    }

    fn nobody(&self) -> Error {
        let text = format!("no master of group {} is known", self.group);
        Error::new(Reason::NoQuorum, text)
    }
}
