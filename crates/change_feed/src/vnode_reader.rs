//! Reader of the feed of an available bucket, for one request: which nodes to ask, round by round,
//! and what their answers make of its place.
//!
//! A round asks each source of the place (`vnode_sources.rs`) for a page. Then the place has moved
//! on, or a node has failed and is left out of the next round, or the reader has to start over.
//!
//! Guarantees: the place after a round misses nothing that the place before it had before it; the
//! page is level only if every slot was read to the end at an owner.
//! Never: asks a node; knows rows.

use crate::vnode_place::{FeedPart, PartPlace, VnodePlace};
use crate::vnode_position::VnodePosition;
use crate::vnode_slots::SlotSet;
use crate::vnode_sources::{BridgeAnswer, FeedMove, FeedSources, OwnedSlots};
use base::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Question to one node for a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedAsk {
    /// The node.
    pub node: NodeId,
    /// True if it may own the slots no more.
    pub of_former_owner: bool,
    /// Parts that it is asked for.
    pub parts: Vec<FeedPart>,
}

/// Outline of a page that a node has answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOutline {
    /// Position through which all parts are read.
    pub end: VnodePosition,
    /// Position behind every entry of the node.
    pub level: VnodePosition,
    /// Position of the last removed entry that was the last trace of its key.
    pub floor: VnodePosition,
    /// Positions at which the node began to receive slots, as a new owner of them: it may lack
    /// deletes from before.
    pub joined: Vec<(VnodePosition, SlotSet)>,
    /// True if the page ends at `level`.
    pub is_level: bool,
}

/// Questions of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedRound {
    /// Questions for pages.
    pub asks: Vec<FeedAsk>,
    /// Slots of which no owner can be asked.
    pub unserved: SlotSet,
}

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct VnodeReader {
    /// Parts of the place that the round has not moved on.
    place: Vec<FeedPart>,
    /// Nodes that were read to their end as former owners.
    drained: BTreeSet<NodeId>,
    /// Nodes that could not answer.
    failed: BTreeSet<NodeId>,
    /// True if the reader had to start over.
    is_restarted: bool,
    /// True if every answer of the round was the end of an owner's feed.
    is_level: bool,
    /// True if another round has to follow before the page is of use.
    must_go_on: bool,
}

impl VnodeReader {
    /// Creates the reader of a request that begins at this place.
    pub fn new(place: VnodePlace) -> VnodeReader {
        VnodeReader { place: place.parts().to_vec(), ..VnodeReader::default() }
    }

    /// Returns the place that it has come to.
    pub fn place(&self) -> VnodePlace {
        VnodePlace::new(self.place.iter().cloned())
    }

    /// Returns the nodes that it reads.
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.place.iter().map(|part| part.node).collect()
    }

    /// Returns the nodes that it has left.
    pub fn failed(&self) -> &BTreeSet<NodeId> {
        &self.failed
    }

    /// Returns true if it had to start over: what it returns from there on begins with the first
    /// entries.
    pub fn is_restarted(&self) -> bool {
        self.is_restarted
    }

    /// Returns true if the last round read everything to its end.
    pub fn is_level(&self) -> bool {
        self.is_level
    }

    /// Returns true if another round has to follow: a node has failed, or was left at its end.
    pub fn must_go_on(&self) -> bool {
        self.must_go_on
    }

    /// Begins a round: returns the slots that leave their node. The caller asks their candidates
    /// for bridges. `reached`: nodes that can be asked.
    pub fn begin_round(&mut self, owned: &[OwnedSlots], reached: &BTreeSet<NodeId>) -> FeedSources {
        (self.is_level, self.must_go_on) = (true, false);
        let is_left = |node: &NodeId| self.drained.contains(node) || self.failed.contains(node);
        let reached = reached.iter().copied().filter(|node| !is_left(node)).collect();
        FeedSources::plan(&self.place(), owned, &reached)
    }

    /// Returns the questions of a round. `answers`: bridges of the candidates of each move.
    pub fn ask(
        &mut self,
        sources: FeedSources,
        answers: &[(FeedMove, Vec<BridgeAnswer>)],
    ) -> FeedRound {
        let FeedSources { owned, drained, unserved, .. } = sources;
        let moved = answers.iter().flat_map(|(moved, answers)| moved.resolve(answers));
        let of_owners = owned.into_iter().chain(moved).map(|part| ((part.node, false), part));
        let of_former = drained.into_iter().map(|part| ((part.node, true), part));
        let mut asks: BTreeMap<(NodeId, bool), Vec<FeedPart>> = BTreeMap::new();
        for (key, part) in of_owners.chain(of_former) {
            asks.entry(key).or_default().push(part);
        }
        // Slots that nobody serves stay where they are.
        let unserved_part = |part: &FeedPart| {
            let slots = part.slots.intersection(&unserved);
            FeedPart { slots, ..part.clone() }
        };
        self.place = self.place.iter().map(unserved_part).collect();
        self.is_level &= unserved.is_empty();
        let ask = |((node, of_former_owner), parts)| FeedAsk { node, of_former_owner, parts };
        FeedRound { asks: asks.into_iter().map(ask).collect(), unserved }
    }

    /// Takes a page. Returns false if the reader has to start over: nothing of the page counts.
    pub fn take_page(&mut self, ask: &FeedAsk, page: PageOutline) -> bool {
        let is_below = |part: &FeedPart| {
            let of_part = |slots: &SlotSet| !part.slots.intersection(slots).is_empty();
            let joined = page.joined.iter().filter(|(_, slots)| of_part(slots));
            let floor = joined.map(|(position, _)| *position).max().unwrap_or_default();
            part.place.is_below(floor.max(page.floor))
        };
        if ask.parts.iter().any(is_below) {
            // All slots: the client can't tell which of its keys are in these.
            *self = VnodeReader { is_restarted: true, must_go_on: true, ..VnodeReader::default() };
            return false;
        }
        let PageOutline { end, level, is_level, .. } = page;
        self.is_level &= is_level && !ask.of_former_owner;
        if ask.of_former_owner && is_level {
            self.drained.insert(ask.node);
            self.must_go_on = true;
        }
        self.place.extend(ask.parts.iter().map(|part| {
            let place = part.place.after_page(end, level, is_level);
            FeedPart { place, ..part.clone() }
        }));
        true
    }

    /// Takes the end of a node's feed, for a reader that wants only what is written from now on.
    pub fn take_level(&mut self, ask: &FeedAsk, level: VnodePosition) {
        let place = PartPlace::at_level(level);
        let parts = ask.parts.iter().map(|part| FeedPart { place, ..part.clone() });
        self.place.extend(parts);
    }

    /// Leaves a node for the next round or page: there is no space for what it answers.
    pub fn postpone(&mut self, ask: &FeedAsk) {
        self.is_level = false;
        self.must_go_on = true;
        self.place.extend(ask.parts.iter().cloned());
    }

    /// Takes the failure of a node: its parts stay where they are, and the next round asks others.
    /// `is_lost`: false if the ring has changed, and it may be asked again by the newer one.
    pub fn take_failure(&mut self, ask: &FeedAsk, is_lost: bool) {
        (self.is_level, self.must_go_on) = (false, true);
        self.place.extend(ask.parts.iter().cloned());
        if is_lost {
            self.failed.insert(ask.node);
        }
    }
}
