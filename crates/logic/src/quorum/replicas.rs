//! Requests of one quorum operation: the nodes that are asked, the fallbacks in their place, and
//! the answers still outstanding.
//!
//! An operation has a handful of requests, so they are searched one by one.

use base::NodeId;
use std::sync::Arc;

/// Replicas that can be asked for a key. The lists are shared by all requests for the keys of a
/// partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// Owners of the key, in the order of its preference list.
    pub primaries: Arc<[NodeId]>,
    /// Fallbacks for them, in order.
    pub fallbacks: Arc<[NodeId]>,
    /// Nodes of both lists that are believed to be down.
    down: Vec<NodeId>,
}

impl Replicas {
    /// Builds replicas of which none is believed to be down.
    pub fn new(
        primaries: impl Into<Arc<[NodeId]>>,
        fallbacks: impl Into<Arc<[NodeId]>>,
    ) -> Replicas {
        let (primaries, fallbacks) = (primaries.into(), fallbacks.into());
        Replicas { primaries, fallbacks, down: Vec::new() }
    }

    /// Marks the nodes that are down. Fallbacks are looked at only if a primary is down: before one
    /// is asked for another reason, they are marked anew ([`super::Store::mark_down`]).
    pub fn mark_down(&mut self, is_down: impl Fn(NodeId) -> bool) {
        self.down.clear();
        self.down.extend(self.primaries.iter().copied().filter(|node| is_down(*node)));
        if !self.down.is_empty() {
            self.down.extend(self.fallbacks.iter().copied().filter(|node| is_down(*node)));
        }
    }

    /// Returns true if a node is marked as down.
    pub fn is_down(&self, node: NodeId) -> bool {
        self.down.contains(&node)
    }
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
    node: NodeId,
    /// Primary in whose place the node is asked; the node itself if it is a primary.
    primary: NodeId,
    stage: AnswerStage,
    /// True if it has accepted a write, synced or not.
    accepted: bool,
}

impl ReplicaCall {
    fn is_primary(&self) -> bool {
        self.node == self.primary
    }

    fn is_outstanding(&self) -> bool {
        matches!(self.stage, AnswerStage::Awaited | AnswerStage::Late)
    }
}

/// All requests of one operation.
#[derive(Clone, Debug)]
pub(super) struct ReplicaCalls {
    replicas: Replicas,
    /// Position of the next fallback to ask.
    next_fallback: usize,
    calls: Vec<ReplicaCall>,
}

/// Number of answers, and of those by primaries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswerCount {
    pub(super) all: usize,
    pub(super) primaries: usize,
}

/// Node to ask, and the primary in whose place it is asked, unless it is a primary itself.
pub(super) type Ask = (NodeId, Option<NodeId>);

impl ReplicaCalls {
    pub(super) fn new(replicas: Replicas) -> ReplicaCalls {
        let calls = Vec::with_capacity(replicas.primaries.len());
        ReplicaCalls { replicas, next_fallback: 0, calls }
    }

    /// Passes the first nodes to ask to `ask`: each primary, or a fallback for one that is down. If
    /// no fallback remains, the primary itself: it may have recovered.
    pub(super) fn begin(&mut self, mut ask: impl FnMut(Ask)) {
        if !self.calls.is_empty() {
            return;
        }
        for index in 0..self.replicas.primaries.len() {
            let primary = self.replicas.primaries[index];
            let is_down = self.replicas.is_down(primary);
            let fallback = if is_down { self.ask_fallback(primary) } else { None };
            ask(fallback.unwrap_or_else(|| self.ask(primary, primary)));
        }
    }

    /// Marks fallbacks that are down now: they are not asked.
    pub(super) fn mark_down(&mut self, is_down: impl Fn(NodeId) -> bool) {
        let Replicas { fallbacks, down, .. } = &mut self.replicas;
        let remaining = fallbacks.get(self.next_fallback..).unwrap_or_default();
        down.retain(|node| !remaining.contains(node));
        down.extend(remaining.iter().copied().filter(|node| is_down(*node)));
    }

    /// Records an answer. Returns true if it was outstanding.
    pub(super) fn record_answer(&mut self, node: NodeId) -> bool {
        let Some(call) = self.outstanding_call(node) else { return false };
        (call.stage, call.accepted) = (AnswerStage::Answered, true);
        true
    }

    /// Records that a node has accepted a write. After a failure or the deadline that does not
    /// count.
    pub(super) fn record_acceptance(&mut self, node: NodeId) {
        if let Some(call) = self.outstanding_call(node) {
            call.accepted = true;
        }
    }

    /// Records that no answer will come. Returns the fallback to ask instead.
    pub(super) fn record_failure(&mut self, node: NodeId) -> Option<Ask> {
        // A row that was only accepted may be lost; a stored one stays.
        if let Some(call) = self.call(node).filter(|call| call.stage != AnswerStage::Answered) {
            call.accepted = false;
        }
        let call = self.outstanding_call(node)?;
        let before = std::mem::replace(&mut call.stage, AnswerStage::Failed);
        let primary = call.primary;
        // For a late node, a fallback was asked already.
        if before == AnswerStage::Awaited { self.ask_fallback(primary) } else { None }
    }

    /// Records that the answer is late. Returns the fallback to ask in addition.
    pub(super) fn record_late(&mut self, node: NodeId) -> Option<Ask> {
        let call = self.call(node).filter(|call| call.stage == AnswerStage::Awaited)?;
        call.stage = AnswerStage::Late;
        let primary = call.primary;
        self.ask_fallback(primary)
    }

    /// Treats all outstanding answers as failed.
    pub(super) fn fail_outstanding(&mut self) {
        let outstanding = self.calls.iter_mut().filter(|call| call.is_outstanding());
        outstanding.for_each(|call| call.stage = AnswerStage::Failed);
    }

    /// Returns the number of outstanding answers.
    pub(super) fn outstanding(&self) -> AnswerCount {
        self.count(ReplicaCall::is_outstanding)
    }

    /// Returns true if no answer is outstanding.
    pub(super) fn is_done(&self) -> bool {
        !self.calls.iter().any(ReplicaCall::is_outstanding)
    }

    /// Returns the number of nodes that have answered.
    pub(super) fn answered(&self) -> AnswerCount {
        self.count(|call| call.stage == AnswerStage::Answered)
    }

    /// Returns the number of nodes that have accepted a write.
    pub(super) fn accepted(&self) -> usize {
        self.count(|call| call.accepted).all
    }

    pub(super) fn is_primary(&self, node: NodeId) -> bool {
        self.replicas.primaries.contains(&node)
    }

    fn count(&self, is_counted: impl Fn(&ReplicaCall) -> bool) -> AnswerCount {
        let counted = self.calls.iter().filter(|call| is_counted(call));
        counted.fold(AnswerCount::default(), |count, call| AnswerCount {
            all: count.all + 1,
            primaries: count.primaries + usize::from(call.is_primary()),
        })
    }

    fn call(&mut self, node: NodeId) -> Option<&mut ReplicaCall> {
        self.calls.iter_mut().find(|call| call.node == node)
    }

    fn outstanding_call(&mut self, node: NodeId) -> Option<&mut ReplicaCall> {
        self.call(node).filter(|call| call.is_outstanding())
    }

    fn ask_fallback(&mut self, primary: NodeId) -> Option<Ask> {
        loop {
            let node = *self.replicas.fallbacks.get(self.next_fallback)?;
            self.next_fallback += 1;
            if !self.replicas.is_down(node) && !self.is_primary(node) {
                return Some(self.ask(node, primary));
            }
        }
    }

    fn ask(&mut self, node: NodeId, primary: NodeId) -> Ask {
        let stage = AnswerStage::Awaited;
        self.calls.push(ReplicaCall { node, primary, stage, accepted: false });
        (node, (node != primary).then_some(primary))
    }
}
