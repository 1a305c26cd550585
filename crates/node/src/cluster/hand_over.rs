//! Operator calls to a group's master, whichever node is asked: to hand the group over, and to
//! compare its replicas. They go by the network of peers: between nodes, operators' front-ends may
//! be closed.
//!
//! ```text
//! question = 3 | 2 | name of who is to lead
//!          | 3 | 3                             compare the replicas
//! answer   = as to a request that was passed on: done, or the number of the pass; or an error
//! ```

use super::master_lookup::MemberCalls;
use super::parts_of;
use crate::member_request::MemberRequest;
use base::codec::Malformed;
use base::limits::NAME_BYTES_MAX;
use base::wire::{read_answer, write_answer};
use base::{
    Body, Error, GroupId, LogIndex, MemberDescription, Membership, NodeId, Part, Reason, Reply,
    Result,
};
use bytes::Bytes;
use metadata::no_such_group;
use std::collections::BTreeSet;
use std::time::Duration;
use transport::{IncomingCall, Peers};

/// Timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

impl MemberCalls {
    /// See [`crate::Node::hand_over`].
    pub(crate) fn hand_over(&self, id: GroupId, to: &str) -> Result<()> {
        let cluster = self.catalog.cluster();
        let is_target = |member: &&MemberDescription| {
            member.name == to && member.membership != Membership::Leaving
        };
        let member = cluster.members.iter().find(is_target).ok_or_else(|| {
            let text = format!("no member `{to}`: `credenza cluster status` lists them");
            Error::new(Reason::NotFound, text)
        })?;
        let group = self.groups.find(id)?;
        if !group.leadership.is_master() {
            return Err(self.links.master_of(&group));
        }
        if member.node == self.links.node {
            return Ok(());
        }
        let forced = self.settings.forced_master_id(&cluster);
        // No other member can lead while the forced master is a voter.
        if forced != member.node && parts_of(&group).get(&forced) == Some(&Part::Voter) {
            let text = format!(
                "only `{}` may be master (`forced_master`): restart the members without that \
                 setting",
                self.links.name_of(forced)
            );
            return Err(Error::new(Reason::NotSupported, text));
        }
        if parts_of(&group).get(&member.node) != Some(&Part::Voter) {
            let text = format!(
                "`{to}` is not a voter of group {id}: promote it first (`credenza cluster promote \
                 {to}`)"
            );
            return Err(Error::new(Reason::NotSupported, text));
        }
        group.hand_over(member.node)
    }

    /// See [`crate::Node::transfer`].
    pub(crate) async fn transfer(&self, group: GroupId, to: &str) -> Result<()> {
        let own_result = self.hand_over(group, to).map(|()| Body::Done);
        let request = MemberRequest::HandOver.encode(to.as_bytes());
        self.call_master(group, own_result, request).await.map(|_| ())
    }

    /// See [`crate::Node::verify`].
    pub(crate) async fn verify(&self, group: GroupId) -> Result<u64> {
        let own_result = self.audit.verify(group).map(Body::Count);
        let request = MemberRequest::Verify.encode(&[]);
        match self.call_master(group, own_result, request).await? {
            Body::Count(pass) => Ok(pass),
            _ => Err(Error::new(
                Reason::NotSupported,
                "the master's answer does not match the request",
            )),
        }
    }

    /// Returns the result of a group's master: this node (`own_result`) or another.
    async fn call_master(
        &self,
        group: GroupId,
        own_result: Result<Body>,
        request: Bytes,
    ) -> Result<Body> {
        let mut error = match own_result {
            Err(error) if is_retryable(&error) => error,
            result => return result,
        };
        if self.catalog.cluster().placement(group).is_none() {
            return Err(no_such_group(group));
        }
        let mut tried = BTreeSet::from([self.links.node]);
        while let Some(node) = self.next_target(group, &error, &tried) {
            tried.insert(node);
            match self.ask(node, group, request.clone()).await {
                Err(other) if is_retryable(&other) => error = other,
                result => return result,
            }
        }
        Err(error)
    }

    /// Returns the node to call next: the one named as master, or else a member of the group.
    fn next_target(&self, id: GroupId, error: &Error, tried: &BTreeSet<NodeId>) -> Option<NodeId> {
        let cluster = self.catalog.cluster();
        let named = self.links.node_of(&error.text());
        let placement = cluster.placement(id);
        let members = placement.into_iter().flat_map(|placement| &placement.members);
        let mut all = named.into_iter().chain(members.map(|(node, _)| *node));
        all.find(|node| !tried.contains(node) && self.links.is_linked(*node))
    }

    async fn ask(&self, node: NodeId, group: GroupId, request: Bytes) -> Result<Body> {
        let not_connected = || Error::new(Reason::NoQuorum, "no other node is connected");
        let peers = self.links.peers.get().ok_or_else(not_connected)?;
        let answer = peers.call(node, group, request, TIMEOUT).await?;
        let read = read_answer(&answer).unwrap_or_else(|Malformed(field)| {
            let text = format!("the answer of node {node} can't be decoded: {field}");
            Err(Error::new(Reason::NotSupported, text))
        });
        read.map(|reply| reply.body)
    }
}

/// Returns true if the call may be repeated at another node, because nothing was done.
fn is_retryable(error: &Error) -> bool {
    matches!(error.reason, Reason::NotMaster | Reason::Moved | Reason::NoQuorum)
}

/// Handles a request to hand a group over. Declined if the name is malformed.
pub(super) fn on_hand_over(calls: &MemberCalls, peers: &Peers, call: &IncomingCall, name: &[u8]) {
    let name = std::str::from_utf8(name).ok();
    let Some(name) = name.filter(|name| name.len() <= NAME_BYTES_MAX) else {
        peers.decline(call);
        return;
    };
    let result = calls.hand_over(call.group, name);
    answer(peers, call, result.map(|()| Body::Done));
}

/// Answers another node's request to compare a group's replicas. An error if this node is not the
/// group's master.
pub(super) fn on_verify(calls: &MemberCalls, peers: &Peers, call: &IncomingCall) {
    answer(peers, call, calls.audit.verify(call.group).map(Body::Count));
}

fn answer(peers: &Peers, call: &IncomingCall, result: Result<Body>) {
    let answer = result.map(|body| Reply::new(LogIndex(0), body));
    let mut bytes = Vec::new();
    write_answer(&answer, ANSWER_BYTES_MAX, &mut bytes);
    // Without a connection the caller's timeout reports the failure.
    let _ = peers.answer(call, bytes.into());
}
