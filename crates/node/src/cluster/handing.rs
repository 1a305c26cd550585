//! Operator calls to a group's master, whichever node is asked: to hand the group over, and to
//! compare its replicas. They go by the network of peers: between nodes, operators' doors may be
//! closed.
//!
//! ```text
//! question = 3 | 2 | name of who is to lead
//!          | 3 | 3                             compare the replicas
//! answer   = as to a request that was passed on: done, or the number of the pass; or an error
//! ```

use super::question::MemberQuestion;
use crate::Inner;
use crate::metadata::no_such_group;
use base::codec::Malformed;
use base::limits::NAME_BYTES_MAX;
use base::wire::{read_answer, write_answer};
use base::{Body, Error, GroupId, LogIndex, NodeId, Reason, Reply, Result};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::time::Duration;
use transport::{IncomingCall, Peers};

/// So long an answer is waited for.
const WITHIN: Duration = Duration::from_secs(2);
/// An error in an answer is no longer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// See [`crate::Node::transfer`].
pub(crate) async fn transfer(inner: &Inner, group: GroupId, to: &str) -> Result<()> {
    let here = inner.hand_over(group, to).map(|()| Body::Done);
    let question = MemberQuestion::HandOver.call(to.as_bytes());
    at_master(inner, group, here, question).await.map(|_| ())
}

/// See [`crate::Node::verify`].
pub(crate) async fn verify(inner: &Inner, group: GroupId) -> Result<u64> {
    let here = inner.verify(group).map(Body::Count);
    let question = MemberQuestion::Verify.call(&[]);
    match at_master(inner, group, here, question).await? {
        Body::Count(pass) => Ok(pass),
        _ => Err(Error::new(Reason::NotSupported, "the master answered another question")),
    }
}

/// What the master of a group answers: this node (`here`), or another.
async fn at_master(
    inner: &Inner,
    group: GroupId,
    here: Result<Body>,
    question: Bytes,
) -> Result<Body> {
    let mut error = match here {
        Err(error) if goes_on(&error) => error,
        done => return done,
    };
    if inner.catalog.cluster().placement(group).is_none() {
        return Err(no_such_group(group));
    }
    let mut asked = BTreeSet::from([inner.node]);
    while let Some(node) = next(inner, group, &error, &asked) {
        asked.insert(node);
        match ask(inner, node, group, question.clone()).await {
            Err(other) if goes_on(&other) => error = other,
            done => return done,
        }
    }
    Err(error)
}

/// Another node may do it: nothing was done.
fn goes_on(error: &Error) -> bool {
    matches!(error.reason, Reason::NotMaster | Reason::Moved | Reason::NoQuorum)
}

/// Who is asked next: whoever was named as master, or else a member of the group.
fn next(inner: &Inner, id: GroupId, error: &Error, asked: &BTreeSet<NodeId>) -> Option<NodeId> {
    let known = inner.catalog.cluster();
    let name = error.text();
    let named = known.members.iter().find(|member| member.name == name).map(|member| member.node);
    let placement = known.placement(id);
    let members = placement.into_iter().flat_map(|placement| &placement.members);
    let mut all = named.into_iter().chain(members.map(|(node, _)| *node));
    all.find(|node| !asked.contains(node) && inner.is_linked(*node))
}

async fn ask(inner: &Inner, node: NodeId, group: GroupId, question: Bytes) -> Result<Body> {
    let nobody = || Error::new(Reason::NoQuorum, "no other node is connected");
    let peers = inner.peers.get().ok_or_else(nobody)?;
    let answer = peers.ask(node, group, question, WITHIN).await?;
    let read = read_answer(&answer).unwrap_or_else(|Malformed(field)| {
        let text = format!("node {node} answered what this node can't read: {field}");
        Err(Error::new(Reason::NotSupported, text))
    });
    read.map(|reply| reply.body)
}

/// Answers such a question: this node hands the group over if it is its master.
pub(super) fn told(inner: &Inner, peers: &Peers, asked: &IncomingCall, name: &[u8]) {
    let name = std::str::from_utf8(name).ok();
    let Some(name) = name.filter(|name| name.len() <= NAME_BYTES_MAX) else {
        peers.decline(asked);
        return;
    };
    let done = inner.hand_over(asked.group, name);
    answer(peers, asked, done.map(|()| Body::Done));
}

/// The same: this node compares the replicas if it is the group's master.
pub(super) fn verify_told(inner: &Inner, peers: &Peers, asked: &IncomingCall) {
    answer(peers, asked, inner.verify(asked.group).map(Body::Count));
}

fn answer(peers: &Peers, asked: &IncomingCall, done: Result<Body>) {
    let answer = done.map(|body| Reply::new(LogIndex(0), body));
    let mut bytes = Vec::new();
    write_answer(&answer, ANSWER_BYTES_MAX, &mut bytes);
    // Without a link the one who asked is told so by its own side.
    let _ = peers.answer(asked, bytes.into());
}
