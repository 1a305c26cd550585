//! Requests of one quorum operation: the nodes that are asked, the fallbacks in their place, and
//! the answers still outstanding.

use base::NodeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Replicas that can be asked for a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    /// Owners of the key, in the order of its preference list.
    pub primaries: Vec<NodeId>,
    /// Fallbacks for them, in order.
    pub fallbacks: Vec<NodeId>,
    /// Nodes of both lists that are believed to be down.
    pub down: BTreeSet<NodeId>,
}

/// State of a node's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerStage {
    /// The answer is outstanding.
    Awaited,
    /// The answer is outstanding, and another node was asked in its place.
    Late,
    /// Answered.
    Answered,
    /// Failed.
    Failed,
}

/// Request to one node.
#[derive(Clone, Copy, Debug)]
struct ReplicaCall {
    /// Primary in whose place the node is asked; the node itself if it is a primary.
    primary: NodeId,
    stage: AnswerStage,
}

/// All requests of one operation.
#[derive(Clone, Debug)]
pub(super) struct ReplicaCalls {
    primaries: Vec<NodeId>,
    down: BTreeSet<NodeId>,
    /// Fallbacks that were not asked yet.
    left: VecDeque<NodeId>,
    asked: BTreeMap<NodeId, ReplicaCall>,
}

/// Node to ask, and the primary in whose place it is asked, unless it is a primary itself.
pub(super) type Ask = (NodeId, Option<NodeId>);

impl ReplicaCalls {
    pub(super) fn new(replicas: Replicas) -> ReplicaCalls {
        let Replicas { primaries, fallbacks, down } = replicas;
        let can_stand_in = |node: &NodeId| !primaries.contains(node) && !down.contains(node);
        let left = fallbacks.into_iter().filter(can_stand_in).collect();
        ReplicaCalls { primaries, down, left, asked: BTreeMap::new() }
    }

    /// Returns the first nodes to ask: each primary, or a fallback for one that is down. If no
    /// fallback is left, the primary itself: it may be back.
    pub(super) fn begin(&mut self) -> Vec<Ask> {
        if !self.asked.is_empty() {
            return Vec::new();
        }
        let mut asks = Vec::with_capacity(self.primaries.len());
        for primary in self.primaries.clone() {
            let stood_in = self.down.contains(&primary).then(|| self.stand_in(primary)).flatten();
            asks.push(stood_in.unwrap_or_else(|| self.ask(primary, primary)));
        }
        asks
    }

    /// Records an answer. Returns true if it was outstanding.
    pub(super) fn answered(&mut self, node: NodeId) -> bool {
        self.settle(node, AnswerStage::Answered).is_some()
    }

    /// Records that no answer will come. Returns the fallback to ask instead.
    pub(super) fn failed(&mut self, node: NodeId) -> Option<Ask> {
        let (primary, before) = self.settle(node, AnswerStage::Failed)?;
        // For a late one, another node was asked already.
        if before == AnswerStage::Awaited { self.stand_in(primary) } else { None }
    }

    /// Records that the answer is late. Returns the fallback to ask in addition.
    pub(super) fn late(&mut self, node: NodeId) -> Option<Ask> {
        let place = self.asked.get_mut(&node)?;
        if place.stage != AnswerStage::Awaited {
            return None;
        }
        place.stage = AnswerStage::Late;
        let primary = place.primary;
        self.stand_in(primary)
    }

    /// Treats all outstanding answers as failed.
    pub(super) fn give_up(&mut self) {
        let open = self.asked.values_mut().filter(|place| place.stage.is_open());
        open.for_each(|place| place.stage = AnswerStage::Failed);
    }

    /// Returns the number of outstanding answers.
    pub(super) fn open(&self) -> usize {
        self.asked.values().filter(|place| place.stage.is_open()).count()
    }

    /// Returns the number of outstanding answers of primaries.
    pub(super) fn open_primaries(&self) -> usize {
        let open = self.asked.iter().filter(|(_, place)| place.stage.is_open());
        open.filter(|(node, _)| self.is_primary(**node)).count()
    }

    /// Returns true if this node's answer is outstanding.
    pub(super) fn is_open(&self, node: NodeId) -> bool {
        self.asked.get(&node).is_some_and(|place| place.stage.is_open())
    }

    pub(super) fn is_primary(&self, node: NodeId) -> bool {
        self.primaries.contains(&node)
    }

    fn settle(&mut self, node: NodeId, to: AnswerStage) -> Option<(NodeId, AnswerStage)> {
        let place = self.asked.get_mut(&node).filter(|place| place.stage.is_open())?;
        let before = std::mem::replace(&mut place.stage, to);
        Some((place.primary, before))
    }

    fn stand_in(&mut self, primary: NodeId) -> Option<Ask> {
        let node = self.left.pop_front()?;
        Some(self.ask(node, primary))
    }

    fn ask(&mut self, node: NodeId, primary: NodeId) -> Ask {
        self.asked.insert(node, ReplicaCall { primary, stage: AnswerStage::Awaited });
        (node, (node != primary).then_some(primary))
    }
}

impl AnswerStage {
    fn is_open(self) -> bool {
        matches!(self, AnswerStage::Awaited | AnswerStage::Late)
    }
}
