//! How a node finds a ballot of its own above all it has seen.

use base::{Ballot, NodeId};

/// The lowest ballot of `node` that is above `highest`.
///
/// A round is never used twice by one node, because the promise for it is saved before it is
/// spoken; two nodes never share a ballot, because the node is part of it (*Paxos Made Simple*,
/// section 2.5: disjoint sets of numbers).
pub(super) fn above(highest: Ballot, node: NodeId) -> Ballot {
    let round = highest.round.checked_add(1).expect("2^64 attempts to lead are never made");
    Ballot { round, node }
}
