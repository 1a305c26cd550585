//! How a node finds a ballot of its own above all it has seen.

use base::{Ballot, ConfigurationId, NodeId};

/// Bits of a round that count attempts. Above them stands the configuration: whatever is accepted
/// in a later configuration is above all that was in an earlier one.
const ATTEMPT_BITS: u32 = 40;

/// The lowest ballot of `node` in this configuration that is above `highest`; none: there is none
/// any more, for somebody was heard with the last.
///
/// A round is never used twice by one node, because the promise for it is saved before it is
/// spoken; two nodes never share a ballot, because the node is part of it (*Paxos Made Simple*,
/// section 2.5: disjoint sets of numbers).
pub(super) fn above(
    highest: Ballot,
    node: NodeId,
    configuration: ConfigurationId,
) -> Option<Ballot> {
    let first = u64::from(configuration.0).checked_mul(1 << ATTEMPT_BITS)?;
    let round = highest.round.checked_add(1)?.max(first);
    Some(Ballot { round, node }).filter(|ballot| !is_later(*ballot, configuration))
}

/// Whether a ballot belongs to a later configuration than this one.
pub(super) fn is_later(ballot: Ballot, configuration: ConfigurationId) -> bool {
    ballot.round >> ATTEMPT_BITS > u64::from(configuration.0)
}

/// Whether a ballot belongs to an earlier configuration than this one.
pub(super) fn is_earlier(ballot: Ballot, configuration: ConfigurationId) -> bool {
    ballot.round >> ATTEMPT_BITS < u64::from(configuration.0)
}
