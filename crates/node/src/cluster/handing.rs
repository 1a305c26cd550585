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
use super::question::MemberQuestion;
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
const WITHIN: Duration = Duration::from_secs(2);
/// Maximum length of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

impl MemberCalls {
    /// See [`crate::Node::hand_over`].
    pub(crate) fn hand_over(&self, id: GroupId, to: &str) -> Result<()> {
        let known = self.catalog.cluster();
        let named = |member: &&MemberDescription| {
            member.name == to && member.membership != Membership::Leaving
        };
        let member = known.members.iter().find(named).ok_or_else(|| {
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
        let forced = self.settings.forced_among(&known);
        // No other member leads while a voter is the forced master.
        if forced != member.node && parts_of(&group).get(&forced) == Some(&Part::Voter) {
            let text = format!(
                "only `{}` is to be master (`forced_master`): start the members without that",
                self.links.name_of(forced)
            );
            return Err(Error::new(Reason::NotSupported, text));
        }
        if parts_of(&group).get(&member.node) != Some(&Part::Voter) {
            let text = format!(
                "`{to}` is no voter of group {id}: make it one first (`credenza cluster promote \
                 {to}`)"
            );
            return Err(Error::new(Reason::NotSupported, text));
        }
        group.hand_over(member.node)
    }

    /// See [`crate::Node::transfer`].
    pub(crate) async fn transfer(&self, group: GroupId, to: &str) -> Result<()> {
        let here = self.hand_over(group, to).map(|()| Body::Done);
        let question = MemberQuestion::HandOver.call(to.as_bytes());
        self.at_master(group, here, question).await.map(|_| ())
    }

    /// See [`crate::Node::verify`].
    pub(crate) async fn verify(&self, group: GroupId) -> Result<u64> {
        let here = self.audit.verify(group).map(Body::Count);
        let question = MemberQuestion::Verify.call(&[]);
        match self.at_master(group, here, question).await? {
            Body::Count(pass) => Ok(pass),
            _ => Err(Error::new(Reason::NotSupported, "the master answered another question")),
        }
    }

    /// Returns the answer of a group's master: this node (`here`), or another.
    async fn at_master(&self, group: GroupId, here: Result<Body>, question: Bytes) -> Result<Body> {
        let mut error = match here {
            Err(error) if goes_on(&error) => error,
            done => return done,
        };
        if self.catalog.cluster().placement(group).is_none() {
            return Err(no_such_group(group));
        }
        let mut asked = BTreeSet::from([self.links.node]);
        while let Some(node) = self.next(group, &error, &asked) {
            asked.insert(node);
            match self.ask(node, group, question.clone()).await {
                Err(other) if goes_on(&other) => error = other,
                done => return done,
            }
        }
        Err(error)
    }

    /// Returns the node to ask next: the one named as master, or else a member of the group.
    fn next(&self, id: GroupId, error: &Error, asked: &BTreeSet<NodeId>) -> Option<NodeId> {
        let known = self.catalog.cluster();
        let named = self.links.node_of(&error.text());
        let placement = known.placement(id);
        let members = placement.into_iter().flat_map(|placement| &placement.members);
        let mut all = named.into_iter().chain(members.map(|(node, _)| *node));
        all.find(|node| !asked.contains(node) && self.links.is_linked(*node))
    }

    async fn ask(&self, node: NodeId, group: GroupId, question: Bytes) -> Result<Body> {
        let nobody = || Error::new(Reason::NoQuorum, "no other node is connected");
        let peers = self.links.peers.get().ok_or_else(nobody)?;
        let answer = peers.ask(node, group, question, WITHIN).await?;
        let read = read_answer(&answer).unwrap_or_else(|Malformed(field)| {
            let text = format!("node {node} answered what this node can't read: {field}");
            Err(Error::new(Reason::NotSupported, text))
        });
        read.map(|reply| reply.body)
    }
}

/// Returns true if the call may be repeated at another node: nothing was done.
fn goes_on(error: &Error) -> bool {
    matches!(error.reason, Reason::NotMaster | Reason::Moved | Reason::NoQuorum)
}

/// Answers such a question: this node hands the group over if it is its master.
pub(super) fn told(calls: &MemberCalls, peers: &Peers, asked: &IncomingCall, name: &[u8]) {
    let name = std::str::from_utf8(name).ok();
    let Some(name) = name.filter(|name| name.len() <= NAME_BYTES_MAX) else {
        peers.decline(asked);
        return;
    };
    let done = calls.hand_over(asked.group, name);
    answer(peers, asked, done.map(|()| Body::Done));
}

/// Answers another node's request to compare a group's replicas. An error if this node is not the
/// group's master.
pub(super) fn verify_told(calls: &MemberCalls, peers: &Peers, asked: &IncomingCall) {
    answer(peers, asked, calls.audit.verify(asked.group).map(Body::Count));
}

fn answer(peers: &Peers, asked: &IncomingCall, done: Result<Body>) {
    let answer = done.map(|body| Reply::new(LogIndex(0), body));
    let mut bytes = Vec::new();
    write_answer(&answer, ANSWER_BYTES_MAX, &mut bytes);
    // Without a link the asking node learns of the failure by itself.
    let _ = peers.answer(asked, bytes.into());
}
