//! Sources of a reader: the node that each slot is read at, and from where.
//!
//! A reader stays at a node for as long as that node owns the slot: so it repeats nothing. A node
//! that is no owner any more is read to its end first: then bridges from it are the newest. Who
//! can't be read is left for an owner that has a bridge from there, or else is read from the
//! beginning.
//!
//! Guarantees: each slot has one source, or is unserved; the same place and owners give the same
//! sources.

use crate::vnode_place::{FeedPart, PartPlace, VnodePlace};
use crate::vnode_position::VnodePosition;
use crate::vnode_slots::SlotSet;
use base::NodeId;
use std::collections::BTreeSet;

/// Slots with the same owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedSlots {
    /// The slots, which are in no other group.
    pub slots: SlotSet,
    /// Owners that can be asked, in order of preference.
    pub owners: Vec<NodeId>,
}

/// Slots that leave a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedMove {
    /// Node, place and slots that are left.
    pub part: FeedPart,
    /// Owners to go on at, in order of preference; at least one.
    pub candidates: Vec<NodeId>,
}

/// Bridges at a candidate of a move: positions behind which it is read, each with its slots.
pub type BridgeAnswer = (NodeId, Vec<(VnodePosition, SlotSet)>);

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedSources {
    /// Parts to be read at owners.
    pub owned: Vec<FeedPart>,
    /// Parts to be read at nodes that own them no more, to their end.
    pub drained: Vec<FeedPart>,
    /// Slots that leave their node.
    pub moves: Vec<FeedMove>,
    /// Slots of which no owner can be asked.
    pub unserved: SlotSet,
}

impl FeedSources {
    /// Chooses the sources of a reader. `reached`: nodes that can be asked, without those that were
    /// read to their end as former owners.
    pub fn plan(
        place: &VnodePlace,
        owned: &[OwnedSlots],
        reached: &BTreeSet<NodeId>,
    ) -> FeedSources {
        let mut sources = FeedSources::default();
        let mut unowned = SlotSet::all();
        for group in owned {
            unowned = unowned.difference(&group.slots);
            let mut fresh = group.slots;
            for part in place.parts() {
                let slots = part.slots.intersection(&group.slots);
                fresh = fresh.difference(&slots);
                if !slots.is_empty() {
                    sources.add(FeedPart { slots, ..part.clone() }, &group.owners, reached);
                }
            }
            match group.owners.first() {
                _ if fresh.is_empty() => {}
                Some(owner) => {
                    let place = PartPlace::beginning(false);
                    sources.owned.push(FeedPart { node: *owner, place, slots: fresh });
                }
                None => sources.unserved = sources.unserved.union(&fresh),
            }
        }
        sources.unserved = sources.unserved.union(&unowned);
        sources
    }

    fn add(&mut self, part: FeedPart, owners: &[NodeId], reached: &BTreeSet<NodeId>) {
        // A scan at a former owner might miss rows that this one has handed off already.
        let is_scan = part.place.catch_up.is_scan;
        if owners.contains(&part.node) {
            self.owned.push(part);
        } else if reached.contains(&part.node) && !is_scan {
            self.drained.push(part);
        } else if owners.is_empty() {
            self.unserved = self.unserved.union(&part.slots);
        } else {
            self.moves.push(FeedMove { part, candidates: owners.to_vec() });
        }
    }
}

impl FeedMove {
    /// Returns true if bridges are of use: the reader knows all that the node had at some position.
    pub fn may_use_bridges(&self) -> bool {
        self.part.place.covered > VnodePosition::START
    }

    /// Returns where the reader goes on: for each slot behind the bridge of the first candidate
    /// that has one, else from the beginning at the first candidate. `answers`: those of the
    /// candidates.
    pub fn resolve(&self, answers: &[BridgeAnswer]) -> Vec<FeedPart> {
        let (mut parts, mut left) = (Vec::new(), self.part.slots);
        for candidate in &self.candidates {
            let of_candidate = answers.iter().filter(|(node, _)| node == candidate);
            for (own, slots) in of_candidate.flat_map(|(_, bridges)| bridges) {
                let slots = slots.intersection(&left);
                if !slots.is_empty() && self.may_use_bridges() {
                    left = left.difference(&slots);
                    let place = PartPlace::behind_bridge(*own);
                    parts.push(FeedPart { node: *candidate, place, slots });
                }
            }
        }
        if let Some(node) = self.candidates.first().copied().filter(|_| !left.is_empty()) {
            // A reader that has read nothing yet can't be told anything again.
            let is_again = self.part.place != PartPlace::beginning(false);
            let place = PartPlace::beginning(is_again);
            parts.push(FeedPart { node, place, slots: left });
        }
        parts
    }
}
