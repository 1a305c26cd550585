//! Requests of one quorum operation: nodes that are asked, the fallbacks in their place, and
//! answers still to come.

use base::NodeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who can be asked for a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    /// The key's owners, in the order of its preference list.
    pub primaries: Vec<NodeId>,
    /// Who stands in for them, in that order.
    pub fallbacks: Vec<NodeId>,
    /// Those of both that are thought to be down.
    pub down: BTreeSet<NodeId>,
}

/// Where a node is with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerStage {
    /// Its answer is to come.
    Awaited,
    /// Its answer is to come, and someone was asked in its place.
    Late,
    /// It has answered.
    Answered,
    /// It has failed.
    Failed,
}

/// A node that was asked.
#[derive(Clone, Copy, Debug)]
struct ReplicaCall {
    /// Whom it stands in for; itself if it is a primary.
    primary: NodeId,
    stage: AnswerStage,
}

/// One request's asking.
#[derive(Clone, Debug)]
pub(super) struct ReplicaCalls {
    primaries: Vec<NodeId>,
    down: BTreeSet<NodeId>,
    /// Fallbacks that nobody has asked yet.
    left: VecDeque<NodeId>,
    asked: BTreeMap<NodeId, ReplicaCall>,
}

/// Ask this node, in the place of that one if it is not itself a primary.
pub(super) type Ask = (NodeId, Option<NodeId>);

impl ReplicaCalls {
    pub(super) fn new(replicas: Replicas) -> ReplicaCalls {
        let Replicas { primaries, fallbacks, down } = replicas;
        let can_stand_in = |node: &NodeId| !primaries.contains(node) && !down.contains(node);
        let left = fallbacks.into_iter().filter(can_stand_in).collect();
        ReplicaCalls { primaries, down, left, asked: BTreeMap::new() }
    }

    /// Whom to ask first: each primary, or whoever stands in for one that is down. If nobody does,
    /// the primary itself: it may be back.
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

    /// An answer has come; whether it was awaited.
    pub(super) fn answered(&mut self, node: NodeId) -> bool {
        self.settle(node, AnswerStage::Answered).is_some()
    }

    /// No answer will come; who is asked instead.
    pub(super) fn failed(&mut self, node: NodeId) -> Option<Ask> {
        let (primary, before) = self.settle(node, AnswerStage::Failed)?;
        // For one that was late, someone was asked already.
        if before == AnswerStage::Awaited { self.stand_in(primary) } else { None }
    }

    /// The answer takes long; who is asked beside.
    pub(super) fn late(&mut self, node: NodeId) -> Option<Ask> {
        let place = self.asked.get_mut(&node)?;
        if place.stage != AnswerStage::Awaited {
            return None;
        }
        place.stage = AnswerStage::Late;
        let primary = place.primary;
        self.stand_in(primary)
    }

    /// Nobody can be waited for any longer.
    pub(super) fn give_up(&mut self) {
        let open = self.asked.values_mut().filter(|place| place.stage.is_open());
        open.for_each(|place| place.stage = AnswerStage::Failed);
    }

    /// From how many an answer is to come.
    pub(super) fn open(&self) -> usize {
        self.asked.values().filter(|place| place.stage.is_open()).count()
    }

    /// From how many primaries.
    pub(super) fn open_primaries(&self) -> usize {
        let open = self.asked.iter().filter(|(_, place)| place.stage.is_open());
        open.filter(|(node, _)| self.is_primary(**node)).count()
    }

    /// Whether this node's answer is to come.
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
