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
    remaining_fallbacks: VecDeque<NodeId>,
    calls: BTreeMap<NodeId, ReplicaCall>,
}

/// Node to ask, and the primary in whose place it is asked, unless it is a primary itself.
pub(super) type Ask = (NodeId, Option<NodeId>);

impl ReplicaCalls {
    pub(super) fn new(replicas: Replicas) -> ReplicaCalls {
        let Replicas { primaries, fallbacks, down } = replicas;
        let is_usable = |node: &NodeId| !primaries.contains(node) && !down.contains(node);
        let remaining_fallbacks = fallbacks.into_iter().filter(is_usable).collect();
        ReplicaCalls { primaries, down, remaining_fallbacks, calls: BTreeMap::new() }
    }

    /// Returns the first nodes to ask: each primary, or a fallback for one that is down. If no
    /// fallback remains, the primary itself: it may have recovered.
    pub(super) fn begin(&mut self) -> Vec<Ask> {
        if !self.calls.is_empty() {
            return Vec::new();
        }
        let mut requests = Vec::with_capacity(self.primaries.len());
        for primary in self.primaries.clone() {
            let fallback =
                self.down.contains(&primary).then(|| self.ask_fallback(primary)).flatten();
            requests.push(fallback.unwrap_or_else(|| self.ask(primary, primary)));
        }
        requests
    }

    /// Records an answer. Returns true if it was outstanding.
    pub(super) fn record_answer(&mut self, node: NodeId) -> bool {
        self.close(node, AnswerStage::Answered).is_some()
    }

    /// Records that no answer will come. Returns the fallback to ask instead.
    pub(super) fn record_failure(&mut self, node: NodeId) -> Option<Ask> {
        let (primary, before) = self.close(node, AnswerStage::Failed)?;
        // For a late node, a fallback was asked already.
        if before == AnswerStage::Awaited { self.ask_fallback(primary) } else { None }
    }

    /// Records that the answer is late. Returns the fallback to ask in addition.
    pub(super) fn record_late(&mut self, node: NodeId) -> Option<Ask> {
        let call = self.calls.get_mut(&node)?;
        if call.stage != AnswerStage::Awaited {
            return None;
        }
        call.stage = AnswerStage::Late;
        let primary = call.primary;
        self.ask_fallback(primary)
    }

    /// Treats all outstanding answers as failed.
    pub(super) fn fail_outstanding(&mut self) {
        let outstanding = self.calls.values_mut().filter(|call| call.stage.is_outstanding());
        outstanding.for_each(|call| call.stage = AnswerStage::Failed);
    }

    /// Returns the number of outstanding answers.
    pub(super) fn outstanding(&self) -> usize {
        self.calls.values().filter(|call| call.stage.is_outstanding()).count()
    }

    /// Returns the number of outstanding answers of primaries.
    pub(super) fn outstanding_primaries(&self) -> usize {
        let outstanding = self.calls.iter().filter(|(_, call)| call.stage.is_outstanding());
        outstanding.filter(|(node, _)| self.is_primary(**node)).count()
    }

    /// Returns true if this node's answer is outstanding.
    pub(super) fn is_outstanding(&self, node: NodeId) -> bool {
        self.calls.get(&node).is_some_and(|call| call.stage.is_outstanding())
    }

    pub(super) fn is_primary(&self, node: NodeId) -> bool {
        self.primaries.contains(&node)
    }

    fn close(&mut self, node: NodeId, to: AnswerStage) -> Option<(NodeId, AnswerStage)> {
        let call = self.calls.get_mut(&node).filter(|call| call.stage.is_outstanding())?;
        let before = std::mem::replace(&mut call.stage, to);
        Some((call.primary, before))
    }

    fn ask_fallback(&mut self, primary: NodeId) -> Option<Ask> {
        let node = self.remaining_fallbacks.pop_front()?;
        Some(self.ask(node, primary))
    }

    fn ask(&mut self, node: NodeId, primary: NodeId) -> Ask {
        self.calls.insert(node, ReplicaCall { primary, stage: AnswerStage::Awaited });
        (node, (node != primary).then_some(primary))
    }
}

impl AnswerStage {
    fn is_outstanding(self) -> bool {
        matches!(self, AnswerStage::Awaited | AnswerStage::Late)
    }
}
