//! A group is handed over by its master, whichever node is asked to have it done.
//!
//! ```text
//! question = 3 | 2 | name of who is to lead
//! answer   = as to a request that was passed on: done, or an error
//! ```

use super::told::ABOUT_MEMBERS;
use crate::Inner;
use crate::peers::{Asked, Peers};
use base::codec::Malformed;
use base::limits::NAME_BYTES_MAX;
use base::wire::{read_answer, write_answer};
use base::{Body, Error, GroupId, LogIndex, NodeId, Reason, Reply, Result};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::time::Duration;

/// What follows [`ABOUT_MEMBERS`] in such a question.
pub(super) const HAND_OVER: u8 = 2;
/// So long an answer is waited for.
const WITHIN: Duration = Duration::from_secs(2);
/// An error in an answer is no longer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// See [`crate::Node::transfer`].
pub(crate) async fn transfer(inner: &Inner, group: GroupId, to: &str) -> Result<()> {
    let mut error = match inner.hand_over(group, to) {
        Err(error) if goes_on(&error) => error,
        done => return done,
    };
    let mut asked = BTreeSet::from([inner.node]);
    while let Some(node) = next(inner, group, &error, &asked) {
        asked.insert(node);
        match ask(inner, node, group, to).await {
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

async fn ask(inner: &Inner, node: NodeId, group: GroupId, to: &str) -> Result<()> {
    let nobody = || Error::new(Reason::NoQuorum, "no other node is connected");
    let peers = inner.peers.get().ok_or_else(nobody)?;
    let question = Bytes::from([&[ABOUT_MEMBERS, HAND_OVER], to.as_bytes()].concat());
    let answer = peers.ask(node, group, question, WITHIN).await?;
    let read = read_answer(&answer).unwrap_or_else(|Malformed(field)| {
        let text = format!("node {node} answered what this node can't read: {field}");
        Err(Error::new(Reason::NotSupported, text))
    });
    read.map(|_| ())
}

/// Answers such a question: this node hands the group over if it is its master.
pub(super) fn told(inner: &Inner, peers: &Peers, asked: &Asked) {
    let name = std::str::from_utf8(&asked.payload[2..]).ok();
    let Some(name) = name.filter(|name| name.len() <= NAME_BYTES_MAX) else {
        peers.decline(asked);
        return;
    };
    let done = inner.hand_over(asked.group, name);
    let answer = done.map(|()| Reply { index: LogIndex(0), body: Body::Done });
    let mut bytes = Vec::new();
    write_answer(&answer, ANSWER_BYTES_MAX, &mut bytes);
    // Without a link the one who asked is told so by its own side.
    let _ = peers.answer(asked, bytes.into());
}
