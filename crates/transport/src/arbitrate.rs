//! Arbitration of simultaneous dials: two nodes that dial each other at once end up with one
//! connection. Pure.
//!
//! Of two simultaneous dials, the one of the node with the lower id wins. A connected node accepts
//! a new call only from a caller that had *this* link and lost it, or that has restarted since. Any
//! other call was made before the link began, and is refused; if the link is in fact dead, pings
//! detect that.

use super::handshake::Hello;
use super::incarnation::Incarnation;
use super::refusal::Refusal;
use base::NodeId;

/// Phase of this node's own connection with the calling peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Idle: this node has sent nothing that the other side could have received.
    Waiting,
    /// Dialling: this node has sent its hello, and awaits the answer.
    Dialling,
    /// Welcoming: this node has accepted an earlier call, whose `Go` is outstanding.
    Welcoming,
    /// Connected.
    Connected { link: u64, incarnation: Incarnation },
}

/// Accepts or refuses a peer's call. An accepted call ends this node's own connection or attempt.
pub(super) fn arbitrate(node: NodeId, own: Phase, hello: &Hello) -> Result<(), Refusal> {
    match own {
        Phase::Waiting => Ok(()),
        Phase::Dialling if node < hello.identity.node => Err(Refusal::Dialling),
        Phase::Dialling => Ok(()),
        // A caller makes one call at a time: it has abandoned the earlier one.
        Phase::Welcoming => Ok(()),
        Phase::Connected { link, incarnation } => {
            let restarted = hello.identity.incarnation > incarnation;
            let lost = hello.previous == link;
            if restarted || lost { Ok(()) } else { Err(Refusal::Connected) }
        }
    }
}
