//! Two nodes may dial each other at the same moment; one connection must come of it. Pure.
//!
//! The rule: of two dials under way at once, the one of the node with the lower id goes on. A node
//! that is connected takes a new call only from a caller that says it had *this* link and lost it,
//! or that has been restarted since. Anything else is a call that was made before the link began,
//! and is refused; if the link is in truth dead, pings find that out.

use super::handshake::Hello;
use super::incarnation::Incarnation;
use super::refusal::Refusal;
use base::NodeId;

/// What this node is doing about the peer that calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// Nothing that the other side could have heard of.
    Waiting,
    /// It has said hello, and has no answer yet.
    Dialling,
    /// It has welcomed an earlier call, which has not said go yet.
    Welcoming,
    /// It is connected.
    Connected { link: u64, incarnation: Incarnation },
}

/// Accepts or refuses a peer's call. Once accepted, whatever this node was doing about the peer
/// ends.
pub(super) fn arbitrate(me: NodeId, own: Own, hello: &Hello) -> Result<(), Refusal> {
    match own {
        Own::Waiting => Ok(()),
        Own::Dialling if me < hello.speaker.node => Err(Refusal::Dialling),
        Own::Dialling => Ok(()),
        // One caller makes one call at a time: it has given up the earlier one.
        Own::Welcoming => Ok(()),
        Own::Connected { link, incarnation } => {
            let restarted = hello.speaker.incarnation > incarnation;
            let lost = hello.previous == link;
            if restarted || lost { Ok(()) } else { Err(Refusal::Connected) }
        }
    }
}
