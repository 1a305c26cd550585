//! Who is in a group that this node has no part in: its master is asked, over the lane of calls.
//!
//! ```text
//! question = 3
//! answer   = how many u32 | their ids u64 ...
//! ```
//! Only a master that may answer reads by itself answers; everybody else declines.

use crate::Inner;
use crate::peers::{Asked, Peers};
use base::codec::{Malformed, Reader, Writer};
use base::limits::GROUP_MEMBERS_MAX;
use base::{NodeId, Placement};
use bytes::Bytes;
use std::time::Duration;

/// The first byte of a question about a group's members.
pub(crate) const ABOUT_MEMBERS: u8 = 3;
/// So long an answer is waited for.
const WITHIN: Duration = Duration::from_secs(1);

/// Answers such a question.
pub(crate) fn tell(inner: &Inner, peers: &Peers, asked: &Asked) {
    let Some(group) = inner.groups.get(asked.group).filter(|group| group.readable()) else {
        peers.decline(asked);
        return;
    };
    let configuration = group.configuration();
    if !group.readable() {
        peers.decline(asked);
        return;
    }
    let members = configuration.members();
    let mut answer = Vec::new();
    answer.put_u32(members.len() as u32);
    members.iter().for_each(|member| answer.put_u64(member.node.0));
    // Without a link the one who asked is told so by its own side.
    let _ = peers.answer(asked, answer.into());
}

/// Who is in a group now, as its master says; none: it was not found.
pub(super) async fn members_of(inner: &Inner, placement: &Placement) -> Option<Vec<NodeId>> {
    let peers = inner.peers.get()?;
    for (node, _) in &placement.members {
        let question = Bytes::from_static(&[ABOUT_MEMBERS]);
        let asked = peers.ask(*node, placement.group, question, WITHIN).await;
        if let Some(members) = asked.ok().and_then(|answer| read(&answer).ok()) {
            return Some(members);
        }
    }
    None
}

fn read(answer: &[u8]) -> Result<Vec<NodeId>, Malformed> {
    let mut reader = Reader::new(answer);
    let count = reader.u32("how many members")? as usize;
    if count > GROUP_MEMBERS_MAX {
        return Err(Malformed("how many members"));
    }
    let mut members = Vec::with_capacity(count);
    for _ in 0..count {
        members.push(NodeId(reader.u64("member")?));
    }
    reader.end("members").map(|()| members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole_or_not_at_all() {
        let mut bytes = Vec::new();
        bytes.put_u32(2);
        bytes.put_u64(7);
        bytes.put_u64(u64::MAX);
        assert_eq!(read(&bytes), Ok(vec![NodeId(7), NodeId(u64::MAX)]));
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
        bytes.push(0);
        assert_eq!(read(&bytes), Err(Malformed("members")));
        assert_eq!(read(&[0xFF; 4]), Err(Malformed("how many members")));
    }
}
