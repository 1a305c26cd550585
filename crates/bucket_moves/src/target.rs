//! Target of a move: sends requests to the master of a group, which may be this node, or one of a
//! group without a replica here.

use crate::message::{MoveReply, MoveRequest};
use crate::{BucketMoves, intake};
use base::codec::Malformed;
use base::{Error, GroupId, NodeId, Reason, Result};
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a request before it is repeated.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct MoveTarget {
    moves: Arc<BucketMoves>,
    group: GroupId,
    /// Master that another node reported.
    hint: Option<NodeId>,
    /// Number of failed attempts.
    failures: usize,
}

impl MoveTarget {
    pub(crate) fn new(moves: Arc<BucketMoves>, group: GroupId) -> MoveTarget {
        MoveTarget { moves, group, hint: None, failures: 0 }
    }

    /// Sends a request once. A node that is not master names the master, which is tried next.
    pub(crate) async fn ask(&mut self, request: MoveRequest) -> Result<MoveReply> {
        let node = self.target_node()?;
        let answer = if node == self.moves.links.node {
            Ok(intake::answer(&self.moves, self.group, request).await)
        } else {
            self.ask_other(node, &request).await
        };
        match &answer {
            Ok(MoveReply::NotMaster { master }) => {
                self.failures += 1;
                self.hint = *master;
            }
            Err(_) => {
                self.failures += 1;
                self.hint = None;
            }
            Ok(_) => self.hint = Some(node),
        }
        answer
    }

    async fn ask_other(&self, node: NodeId, request: &MoveRequest) -> Result<MoveReply> {
        let Some(peers) = self.moves.links.peers.get() else { return Err(self.no_master()) };
        let bytes = peers.call(node, self.group, request.write(), TIMEOUT).await?;
        MoveReply::read(&bytes).map_err(|Malformed(field)| {
            let text = format!("the answer of node {node} can't be decoded: {field}");
            Error::new(Reason::NotSupported, text)
        })
    }

    /// Returns the master, or a member that may name it.
    fn target_node(&self) -> Result<NodeId> {
        let local = self.moves.groups.get(self.group);
        if let Some(master) = local.and_then(|group| group.leadership.subscribe().borrow().master) {
            return Ok(master);
        }
        if let Some(hint) = self.hint {
            return Ok(hint);
        }
        let cluster = self.moves.directory.catalog.cluster();
        let placement = cluster.placement(self.group);
        let members = placement.map(|placement| &placement.members[..]).unwrap_or_default();
        let others: Vec<_> = members
            .iter()
            .map(|(node, _)| *node)
            .filter(|node| *node != self.moves.links.node)
            .collect();
        match others.len() {
            0 => Err(self.no_master()),
            count => Ok(others[self.failures % count]),
        }
    }

    fn no_master(&self) -> Error {
        let text = format!("no master of group {} is known", self.group);
        Error::new(Reason::NoQuorum, text)
    }
}
