//! Read repair: sends the merged row of a get to a replica that lacks a part of it.

use super::get::GetOperation;
use super::key_owners::RingTarget;
use super::message::VnodeQuestion;
use super::replica_row::ReplicaRow;
use super::timing::LATE_MS;
use crate::Available;
use base::NodeId;
use runtime::metrics::Metrics;
use runtime::world;
use std::sync::Arc;

impl GetOperation {
    /// Repairs a replica, in the background.
    pub(super) fn repair(&self, available: &Arc<Available>, node: NodeId, versions: ReplicaRow) {
        // Not after a stall of this node: an old read may hold a value whose tombstone was reaped
        // since.
        if world::milliseconds() > self.deadline_ms + LATE_MS {
            return;
        }
        Metrics::count(&available.metrics.available.read_repairs);
        let (available, key_ref, policy) = (available.clone(), self.key_ref.clone(), self.policy);
        if node == available.node {
            // The partition may have moved since the read began.
            let merged = available.check_write_epoch(self.epoch, &key_ref).and_then(|()| {
                available.vnode_store.merge(&key_ref, versions.into_row(), policy, None)
            });
            if let Err(error) = merged {
                tracing::debug!(target: "node", %error, "read repair of a row failed");
            }
            return;
        }
        let row = versions.bytes().clone();
        let question = VnodeQuestion::Store { key_ref, policy, hint: None, row }.write();
        let (chosen, within) = (RingTarget { node, epoch: self.epoch }, self.within);
        let tasks = available.tasks.clone();
        tasks.spawn_short(async move {
            let _ = available.ask_ring_target(chosen, question, within).await;
        });
    }
}
