//! Bridges: what comparisons of two nodes prove about their feeds, by which a reader goes on at
//! another node.
//!
//! A comparison of nodes A and B that began while B had written up to `b`, and that was completed
//! while A had written up to `a`, proves: every change that B had up to `b` is in A's feed up to
//! `a`, or a newer one of its key is. So a reader that knows all that A had at `a` misses nothing
//! if it goes on at B behind `b`. B keeps the pair as a [`Bridge`] from A.
//!
//! The other order proves nothing: a change that came to B while the two were compared may be at
//! B alone. So `b` is taken before the first question, and `a` after the last repair.
//!
//! Guarantees: a bridge is true for as long as B keeps it, also after crashes; a list has at most
//! [`BRIDGES_MAX`]; thinned, it lets a reader repeat about as much as it lagged behind, not more
//! ([`BridgeList::push`]).

use crate::vnode_position::VnodePosition;
use crate::vnode_slots::SlotSet;
use std::collections::BTreeMap;

/// Most bridges that are kept from one node for one partition.
pub const BRIDGES_MAX: usize = 64;

/// Proof that everything of this node's feed up to `own` is in the peer's feed up to `peer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bridge {
    /// Position of the peer at the end of the comparison.
    pub peer: VnodePosition,
    /// Position of this node at its beginning.
    pub own: VnodePosition,
}

/// Change of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeChange {
    /// True if the new bridge is in the list.
    pub is_added: bool,
    /// Bridges that are not in it any more.
    pub removed: Vec<Bridge>,
}

/// Bridges from one peer for one partition: a later one has both positions behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeList(Vec<Bridge>);

impl BridgeList {
    /// Builds the list of these bridges, without those that others make superfluous.
    pub fn new(bridges: impl IntoIterator<Item = Bridge>) -> BridgeList {
        let mut list = BridgeList::default();
        for bridge in bridges {
            list.insert(bridge);
        }
        list
    }

    /// Returns the bridges, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Bridge> + '_ {
        self.0.iter().copied()
    }

    /// Returns the last bridge.
    pub fn last(&self) -> Option<Bridge> {
        self.0.last().copied()
    }

    /// Returns the position of this node behind which a reader goes on that knows all that the peer
    /// had at `peer`. `None`: from the beginning.
    pub fn behind(&self, peer: VnodePosition) -> Option<VnodePosition> {
        let count = self.0.partition_point(|bridge| bridge.peer <= peer);
        Some(self.0.get(count.checked_sub(1)?)?.own)
    }

    /// Adds a bridge, and removes what it makes superfluous. Above [`BRIDGES_MAX`] the one goes
    /// without which a reader repeats least, in proportion to its lag: so gaps between bridges grow
    /// with their age. The oldest and the newest stay.
    pub fn push(&mut self, bridge: Bridge) -> BridgeChange {
        let mut change = self.insert(bridge);
        while self.0.len() > BRIDGES_MAX
            && let Some(least) = self.least_useful()
        {
            change.removed.push(self.0.remove(least));
        }
        change
    }

    fn insert(&mut self, bridge: Bridge) -> BridgeChange {
        let first = self.0.partition_point(|known| known.peer < bridge.peer);
        let is_known = |known: &Bridge| known.peer <= bridge.peer && known.own >= bridge.own;
        let neighbours = [first.checked_sub(1), Some(first)];
        if neighbours.into_iter().flatten().filter_map(|at| self.0.get(at)).any(is_known) {
            return BridgeChange::default();
        }
        let is_superfluous = |known: &&Bridge| known.own <= bridge.own;
        let count = self.0[first..].iter().take_while(is_superfluous).count();
        let removed = self.0.splice(first..first + count, [bridge]).collect();
        BridgeChange { is_added: true, removed }
    }

    /// Returns the bridge without which the largest lag of a reader that would have used it grows
    /// least, as a ratio. `None`: there are only the oldest and the newest.
    fn least_useful(&self) -> Option<usize> {
        let newest = self.last()?.peer.batch;
        let lag = |at: usize| u128::from(newest.saturating_sub(self.0[at].peer.batch)).max(1);
        // A reader just before the next bridge would repeat from the one before.
        let ratio = |at: usize| (lag(at - 1), lag(at + 1));
        let is_less = |(one, of_one): (u128, u128), (other, of_other): (u128, u128)| {
            one * of_other < other * of_one
        };
        let inner = 1..self.0.len().checked_sub(1)?;
        inner.reduce(|best, at| if is_less(ratio(at), ratio(best)) { at } else { best })
    }
}

/// Returns where a reader goes on that knows all that a peer had at `peer`: positions of this node,
/// each with the slots that are read behind it. `lists`: the bridges from this peer, with the slots
/// that were compared. Bridges that began before `since` do not count. Slots without a bridge are
/// left out.
pub fn behind_bridges<'a>(
    lists: impl IntoIterator<Item = (SlotSet, &'a BridgeList)>,
    peer: VnodePosition,
    slots: &SlotSet,
    since: VnodePosition,
) -> Vec<(VnodePosition, SlotSet)> {
    let mut best: BTreeMap<u32, VnodePosition> = BTreeMap::new();
    for (compared, list) in lists {
        let Some(own) = list.behind(peer).filter(|own| *own >= since) else { continue };
        for slot in compared.intersection(slots).iter() {
            let known = best.entry(slot).or_insert(own);
            *known = own.max(*known);
        }
    }
    let mut by_position: BTreeMap<VnodePosition, SlotSet> = BTreeMap::new();
    for (slot, own) in best {
        by_position.entry(own).or_default().insert(slot);
    }
    by_position.into_iter().collect()
}
