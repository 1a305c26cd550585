//! Calls of one operation to other nodes that have no outcome yet.
//!
//! Promises: the failure detector is told the outcome of each call, and of one that is late, as
//! long as the operation lasts; a call ends at its own deadline.

use super::timing::LATE_MS;
use crate::Available;
use base::{Error, NodeId, Result};
use bytes::Bytes;
use runtime::world;
use std::sync::Arc;
use std::time::Duration;
use transport::{AnswerHandler, StartedCall};

/// Call to a node.
struct OutstandingCall {
    node: NodeId,
    call: StartedCall,
    began_ms: u64,
    deadline_ms: u64,
    was_late: bool,
}

/// See the head of this file. They are few: all are searched.
#[derive(Default)]
pub(super) struct OutstandingCalls {
    all: Vec<OutstandingCall>,
}

impl OutstandingCalls {
    /// Creates an empty set, with space for the replicas of a key.
    pub(super) fn with_capacity(replicas: usize) -> OutstandingCalls {
        OutstandingCalls { all: Vec::with_capacity(replicas) }
    }

    /// Returns true if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the nodes that have not answered.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        self.all.iter().map(|call| call.node).collect()
    }

    /// Sends a question to a node. Errors: it was not sent.
    pub(super) fn start(
        &mut self,
        available: &Available,
        node: NodeId,
        question: Bytes,
        within: Duration,
        handler: Arc<dyn AnswerHandler>,
    ) -> Result<()> {
        let began_ms = world::milliseconds();
        match available.start_vnode_call(node, question, within, handler) {
            Ok(call) => {
                let deadline_ms = began_ms.saturating_add(within.as_millis() as u64);
                self.all.push(OutstandingCall {
                    node,
                    call,
                    began_ms,
                    deadline_ms,
                    was_late: false,
                });
                Ok(())
            }
            Err(error) => {
                available.record_outcome(node, (began_ms, false), Some(&error));
                Err(error)
            }
        }
    }

    /// Ends the call to a node that has this outcome. Returns the time that it took, in
    /// milliseconds. `None`: no call to it is outstanding.
    pub(super) fn finish(
        &mut self,
        available: &Available,
        node: NodeId,
        outcome: &Result<Bytes>,
    ) -> Option<u64> {
        let index = self.all.iter().position(|call| call.node == node)?;
        let OutstandingCall { began_ms, was_late, .. } = self.all.swap_remove(index);
        available.record_outcome(node, (began_ms, was_late), outcome.as_ref().err());
        Some(world::milliseconds().saturating_sub(began_ms))
    }

    /// Returns the next time at which a call is late, or its deadline is over, in milliseconds.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        let due_ms = |call: &OutstandingCall| match call.was_late {
            false => call.deadline_ms.min(call.began_ms + LATE_MS),
            true => call.deadline_ms,
        };
        self.all.iter().map(due_ms).min()
    }

    /// Reports the calls that are late to the failure detector. Ends those whose deadline is over:
    /// returns their nodes and errors.
    pub(super) fn on_time(&mut self, available: &Available) -> Vec<(NodeId, Error)> {
        let now_ms = world::milliseconds();
        for call in &mut self.all {
            if !call.was_late && now_ms >= call.began_ms + LATE_MS {
                call.was_late = true;
                available.record_late(call.node, call.began_ms);
            }
        }
        let mut expired = Vec::new();
        self.all.retain(|call| {
            if now_ms < call.deadline_ms {
                return true;
            }
            // `None`: its answer waits for the operation's lock, and is handled in a moment.
            let Some(error) = available.cancel_vnode_call(call.call) else { return true };
            let error = Error::from(error);
            available.record_outcome(call.node, (call.began_ms, call.was_late), Some(&error));
            expired.push((call.node, error));
            false
        });
        expired
    }

    /// Cancels all calls: their outcomes do not matter any more.
    pub(super) fn cancel_all(&mut self, available: &Available) {
        for call in self.all.drain(..) {
            available.cancel_vnode_call(call.call);
        }
    }
}
