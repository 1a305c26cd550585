//! Calls to the vnodes of other nodes: questions and their answers over the connections of peers.

use super::message;
use super::reply;
use crate::Available;
use base::codec::Malformed;
use base::{Error, GroupId, NodeId, Reason, Result};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use transport::{AnswerHandler, CallError, Peers, StartedCall};

/// Group id of messages about vnodes, which belong to no group.
const NO_GROUP: GroupId = GroupId(0);

impl Available {
    /// Sends a question to a node that was chosen by the current ring.
    pub(super) async fn ask_vnode(
        &self,
        node: NodeId,
        question: Bytes,
        within: Duration,
    ) -> Result<Bytes> {
        self.ask_vnode_of(self.schema.ring_epoch(), node, question, within).await
    }

    /// Sends a question to a node that was chosen by the ring of this epoch.
    pub(super) async fn ask_vnode_of(
        &self,
        epoch: u64,
        node: NodeId,
        question: Bytes,
        within: Duration,
    ) -> Result<Bytes> {
        let question = message::write_enveloped(epoch, &question);
        read_answer(node, self.linked_peers()?.call(node, NO_GROUP, question, within).await)
    }

    /// Sends a question in its envelope to a node; the handler gets the answer
    /// ([`Peers::start_call`]).
    pub(super) fn start_vnode_call(
        &self,
        node: NodeId,
        question: Bytes,
        within: Duration,
        handler: Arc<dyn AnswerHandler>,
    ) -> Result<StartedCall> {
        let peers = self.linked_peers()?;
        Ok(peers.start_call(node, NO_GROUP, question, within, handler)?)
    }

    /// Cancels a call; see [`Peers::cancel_call`].
    pub(super) fn cancel_vnode_call(&self, call: StartedCall) -> Option<CallError> {
        self.peers.get()?.cancel_call(call)
    }

    fn linked_peers(&self) -> Result<&Peers> {
        let no_peers = || Error::new(Reason::NoQuorum, "this node has no peers");
        self.peers.get().ok_or_else(no_peers)
    }
}

/// Decodes the answer of a node: its fields, or the error that it carries.
pub(super) fn read_answer(
    node: NodeId,
    answer: std::result::Result<Bytes, CallError>,
) -> Result<Bytes> {
    reply::read(&answer?).unwrap_or_else(|Malformed(field)| {
        let text = format!("the answer of node {:016x} can't be decoded ({field})", node.0);
        Err(Error::new(Reason::InDoubt, text))
    })
}
